//! A value of any type, as a tree. Which type it is of is not in it: [`crate::schema`] has that.

use fusewire_codec::ber::Tag;

use crate::schema::TypeId;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// BOOLEAN.
    Boolean(bool),
    /// NULL.
    Null,
    /// INTEGER: two's complement in as few bytes as it takes, as [`crate::number`] has it.
    Integer(Vec<u8>),
    /// ENUMERATED: its number, which its type need not have a name for if it is extensible.
    Enumerated(i64),
    /// REAL.
    Real(Real),
    /// BIT STRING: bytes, and how many bits of the last are none of it; those are zero.
    Bits(Vec<u8>, u8),
    /// OCTET STRING.
    Octets(Vec<u8>),
    /// OBJECT IDENTIFIER and RELATIVE-OID: the contents octets of BER.
    Oid(Vec<u8>),
    /// Character strings and times: the contents octets of BER.
    Text(Vec<u8>),
    /// SEQUENCE and SET.
    Structure(Structure),
    /// SEQUENCE OF and SET OF.
    List(Vec<Value>),
    /// CHOICE: the alternative's place, and its value.
    Choice(usize, Box<Value>),
    /// A CHOICE of an alternative that its type does not know.
    UnknownChoice(Unknown),
    /// ANY and open types.
    Open(Open),
}

/// The components of a SEQUENCE or SET.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// Each of the type's components; nothing where it is absent, also if it has a default.
    pub members: Vec<Option<Value>>,
    /// Extension additions that the type does not know.
    pub unknown: Vec<Unknown>,
}

/// What stood where the type says that more may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A complete encoding of BER.
    Ber(Vec<u8>),
    /// The number of an addition (OER, LWS, XDR) or alternative (LWS, XDR) from zero, and its octets.
    Counted(u64, Vec<u8>),
    /// The tag of an alternative in OER, and its octets.
    Tagged(Tag, Vec<u8>),
}

/// A REAL.
#[derive(Clone, Debug)]
pub struct Real {
    /// The nearest number of the machine.
    pub value: f64,
    /// The contents octets that BER had, where others than DER would have for the number.
    pub contents: Option<Vec<u8>>,
}

impl Real {
    /// A number of the machine.
    pub fn new(value: f64) -> Real {
        Real { value, contents: None }
    }

    /// From contents octets.
    pub fn of(value: f64, contents: &[u8]) -> Real {
        let real = Real::new(value);
        let differs = real.contents() != contents;
        Real { contents: differs.then(|| contents.to_vec()), ..real }
    }

    /// Its contents octets in BER.
    pub fn contents(&self) -> Vec<u8> {
        use fusewire_codec::types::real::{MAX_LEN, encode};
        match &self.contents {
            Some(contents) => contents.clone(),
            None => {
                let (octets, len) = encode(self.value);
                octets[MAX_LEN - len..].to_vec()
            }
        }
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.value.to_bits() == other.value.to_bits() && self.contents == other.contents
    }
}

/// A value of an open type.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    /// Its type is not known: the encoding, and where it was found.
    Raw(Vec<u8>, Place),
    /// Its type is known.
    Typed(TypeId, Box<Value>),
}

/// An offset. Values are equal wherever they were found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(pub usize);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Value {
    /// A whole number.
    pub fn integer(value: i128) -> Value {
        Value::Integer(crate::number::of(value))
    }

    /// How many values it is made of, itself among them.
    pub fn count(&self) -> u64 {
        1 + match self {
            Value::Structure(of) => of.members.iter().flatten().map(Value::count).sum(),
            Value::List(elements) => elements.iter().map(Value::count).sum(),
            Value::Choice(_, value) | Value::Open(Open::Typed(_, value)) => value.count(),
            _ => 0,
        }
    }

    /// What tells it from other values of its type, for tables whose keys are numbers, names or strings.
    pub(crate) fn key(&self, to: &mut Vec<u8>) -> bool {
        let (kind, bytes) = match self {
            Value::Integer(bytes) => (0, bytes.as_slice()),
            Value::Oid(bytes) => (1, bytes.as_slice()),
            Value::Text(bytes) => (2, bytes.as_slice()),
            Value::Octets(bytes) => (3, bytes.as_slice()),
            Value::Enumerated(number) => {
                to.push(4);
                to.extend(number.to_be_bytes());
                return true;
            }
            Value::Choice(index, value) => {
                to.push(5);
                to.extend(index.to_be_bytes());
                return value.key(to);
            }
            _ => return false,
        };
        to.push(kind);
        to.extend(bytes.len().to_be_bytes());
        to.extend(bytes);
        true
    }
}
