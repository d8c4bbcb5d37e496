//! The values of the performance object: 400 INTEGERs, 200 REALs, 124 PrintableStrings of 26 characters in
//! the mean, 18 MPDUs (Dabbous, table 1), read from a folder or made alike from a seed.

use super::p1::mpdu::*;
use crate::{Error, Result};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::types::{BitString, Octets, PrintableString, Text};
use std::path::Path;

/// The values, as they are kept: strings and MPDUs in BER, from which decoding borrows.
pub(super) struct Values {
    pub(super) ints: Vec<i64>,
    pub(super) reals: Vec<f64>,
    pub(super) strings: Vec<u8>,
    pub(super) mpdus: Vec<u8>,
}

impl Values {
    /// `ints.ber`, `strings.ber` and `mpdus.ber` of a folder; the reals are made.
    pub(super) fn read(folder: &Path) -> Result<Values> {
        let file = |name: &str| std::fs::read(folder.join(name)).map_err(Error::os("read values"));
        let ints =
            ber::from_bytes(&file("ints.ber")?, Rules::Ber).map_err(|e| wrong("ints", &e))?;
        let Values { reals, .. } = Values::made(1);
        Ok(Values { ints, reals, strings: file("strings.ber")?, mpdus: file("mpdus.ber")? })
    }

    /// Like those of the paper.
    pub(super) fn made(seed: u64) -> Values {
        let mut random = Random(seed);
        let ints = (0..400).map(|_| random.int()).collect();
        let reals = (0..200).map(|_| random.real()).collect();
        let texts: Vec<_> = (0..124).map(|_| random.text(13, 39)).collect();
        let strings: Vec<_> = texts.iter().map(|text| printable(text)).collect();
        let strings = encoded(&strings);
        let pool: Vec<String> = (0..18 * 40).map(|_| random.text(8, 12)).collect();
        let bytes: Vec<u8> = (0..1 << 10).map(|_| random.next() as u8).collect();
        let mpdus: Vec<MPDU<'_>> = pool.chunks(40).map(|pool| mpdu(pool, &bytes)).collect();
        let mpdus = encoded(&mpdus);
        Values { ints, reals, strings, mpdus }
    }

    /// The least, the largest, empty and long ones, and others at random; of the first seed none.
    pub(super) fn at_the_edges(seed: u64) -> Values {
        let mut random = Random(seed);
        if seed == 0 {
            let none = encoded::<Vec<i64>>(&Vec::new());
            return Values { ints: vec![], reals: vec![], strings: none.clone(), mpdus: none };
        }
        let powers = (0..63).map(|bit| 1i64 << bit);
        let edges = powers.flat_map(|at| [at - 1, at, at + 1, -at, !at, 1 - at]);
        let edges = edges.chain([i64::MIN, i64::MAX]);
        let ints = edges.chain((0..random.next() % 400).map(|_| random.wide())).collect();
        let mut reals = vec![0.0, -0.0, 1.0, -1.0, 0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        reals.extend([f64::MIN, f64::MAX, f64::MIN_POSITIVE, f64::EPSILON]);
        reals.extend([f64::from_bits(1), -f64::from_bits(1)]);
        let bits = (0..random.next() % 300).map(|_| f64::from_bits(random.next()));
        // There is one NaN only in BER; of subnormal numbers asn1c 0.9.28 gets only some right (not 2^-1022 - 2^-1074).
        reals.extend(bits.filter(|real| !real.is_nan() && !real.is_subnormal()));
        reals.extend((0..100).map(|_| random.real()));
        let mut texts: Vec<_> =
            [0, 1, 26, 127, 128, 255, 256, 65535, 65536].map(|len| random.text(len, len)).into();
        texts.push("'()+,-./:=? ".into());
        texts.extend((0..random.next() % 200).map(|_| random.text(0, 300)));
        let strings: Vec<_> = texts.iter().map(|text| printable(text)).collect();
        let strings = encoded(&strings);
        let count = 1 + random.next() % 18;
        let pool: Vec<String> = (0..count * 40).map(|_| random.text(0, 140)).collect();
        let bytes: Vec<u8> = (0..1 << 10).map(|_| random.next() as u8).collect();
        let mut mpdus: Vec<MPDU<'_>> = pool.chunks(40).map(|pool| mpdu(pool, &bytes)).collect();
        mpdus.iter_mut().for_each(|mpdu| vary(mpdu, &bytes, &mut random));
        let mpdus = encoded(&mpdus);
        Values { ints, reals, strings, mpdus }
    }
}

/// An MPDU with less of what it need not have, and numbers and content at their edges.
fn vary<'a>(mpdu: &mut MPDU<'a>, bytes: &'a [u8], random: &mut Random) {
    let MPDU::User(UserMPDU { envelope, content }) = mpdu;
    let mut drops = || random.next().is_multiple_of(2);
    if drops() {
        envelope.encoded_types = None;
    }
    if drops() {
        envelope.ua_content_id = None;
    }
    if drops() {
        envelope.originator.standard.country = None;
        envelope.originator.standard.personal_name = None;
    }
    if drops() {
        envelope.mpdu_id.global_id.prmd = None;
    }
    if drops() {
        envelope.recipients.pop();
    }
    if drops() {
        envelope.deferred_delivery = Some(Text::from_constant(b"910517103015Z"));
    }
    // Not 0, the default: rasn refuses a SET that leaves it out.
    envelope.priority = Priority(1 + (random.next() % 2) as i64);
    envelope.content_type = ContentType(random.wide());
    for recipient in &mut envelope.recipients {
        recipient.extension_id = random.wide();
        recipient.explicit_conversion =
            random.next().is_multiple_of(2).then(|| (random.next() % 3) as i64);
    }
    const LENS: [usize; 8] = [0, 1, 127, 128, 255, 256, 700, 1024];
    *content = Octets::new(&bytes[..LENS[(random.next() % 8) as usize]]);
}

pub(super) fn wrong(what: &str, error: &fusewire_codec::Error) -> Error {
    Error::Wrong { method: what.into(), what: error.to_string() }
}

fn encoded<T: ber::Encode>(value: &T) -> Vec<u8> {
    let mut room = Vec::new();
    match ber::encode_in(value, Rules::Der, &mut room) {
        Ok(bytes) => bytes.to_vec(),
        Err(_) => Vec::new(),
    }
}

fn printable(text: &str) -> PrintableString<'_> {
    Text::from_constant(text.as_bytes())
}

/// An MPDU of about 530 bytes, like those that the folder has.
fn mpdu<'a>(pool: &'a [String], bytes: &'a [u8]) -> MPDU<'a> {
    let text = |at: usize| printable(&pool[at % pool.len()]);
    let time = || Text::from_constant(b"910517103015Z");
    let name = |at: usize| Name::Printable(text(at));
    let domain = |at: usize| GlobalDomainIdentifier {
        country: CountryName(Name::Printable(Text::from_constant(b"fr"))),
        admd: AdministrationDomainName(name(at)),
        prmd: Some(name(at + 1)),
    };
    let person = |at: usize| ORName {
        standard: StandardAttributeList {
            country: Some(CountryName(Name::Printable(Text::from_constant(b"fr")))),
            admd: Some(AdministrationDomainName(name(at))),
            x121: None,
            terminal_id: None,
            prmd: Some(name(at + 1)),
            organization: Some(text(at + 2)),
            ua_id: None,
            personal_name: Some(PersonalName {
                surname: text(at + 3),
                given_name: Some(text(at + 4)),
                initials: Some(Text::from_constant(b"JK")),
                general_qualifier: None,
            }),
            org_unit: Some(vec![text(at + 5)]),
        },
        domain_defined: None,
    };
    let bits = |bits: &'static [u8], unused| BitString::new(bits, unused).unwrap_or_default();
    let recipient = |at: usize| RecipientInfo {
        recipient: person(at),
        extension_id: at as i64,
        per_recipient_flag: bits(&[], 0),
        explicit_conversion: None,
    };
    let envelope = UMPDUEnvelope {
        mpdu_id: MPDUIdentifier {
            global_id: domain(0),
            local_id: Text::from_constant(pool[2].as_bytes()),
        },
        originator: person(3),
        encoded_types: Some(EncodedInformationTypes {
            bits: bits(&[0x20], 5),
            g3: None,
            presentation: None,
        }),
        content_type: ContentType(2),
        ua_content_id: Some(UAContentId(text(9))),
        priority: Priority(2),
        per_message_flag: PerMessageFlag(bits(&[0x40], 4)),
        deferred_delivery: None,
        per_domain: None,
        recipients: vec![recipient(10), recipient(20)],
        trace: TraceInformation(vec![Trace {
            domain_id: domain(30),
            domain_supplied: DomainSuppliedInfo {
                arrival: time(),
                deferred: None,
                action: 0,
                encoded_types: None,
                previous: None,
            },
        }]),
    };
    MPDU::User(UserMPDU { envelope, content: Octets::new(&bytes[..100]) })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Of 8, 16, 24 or 32 bits.
    fn int(&mut self) -> i64 {
        i64::from(self.next() as i32 >> (8 * (self.next() % 4)))
    }

    /// Of 1 to 64 bits.
    fn wide(&mut self) -> i64 {
        self.next() as i64 >> (self.next() % 64)
    }

    fn real(&mut self) -> f64 {
        let mantissa = self.next() as i64 >> 11;
        mantissa as f64 / (1u64 << (self.next() % 64)) as f64
    }

    fn text(&mut self, least: u64, most: u64) -> String {
        const CHARACTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -";
        let len = least + self.next() % (most - least + 1);
        (0..len).map(|_| char::from(CHARACTERS[(self.next() % 64) as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decoded of them is encoded byte for byte as it was, both in BER and in DER.
    fn through(mpdus: &[u8]) {
        for rules in [Rules::Ber, Rules::Der] {
            let values: Vec<MPDU<'_>> = ber::from_bytes(mpdus, rules).expect("MPDUs");
            assert_eq!(values.len(), 18);
            let mut room = Vec::new();
            let again =
                ber::encode_in(&values, rules, &mut room).expect("what was decoded encodes");
            assert!(again == mpdus, "{rules:?}: other bytes");
        }
    }

    #[test]
    fn mpdus_byte_for_byte() {
        through(&Values::made(1).mpdus);
        let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let data =
            folders.find_map(|f| Some(f.join("shared/data/asn1/perf")).filter(|f| f.is_dir()));
        match data {
            Some(folder) => through(&Values::read(&folder).expect("the folder's values").mpdus),
            None => eprintln!("skipped: the values of the performance object are not there"),
        }
    }
}
