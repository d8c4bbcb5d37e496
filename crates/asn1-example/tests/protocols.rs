//! Messages that others' programs sent, of SNMP, Kerberos, LDAP and CMS: generated code and the interpreter of the same
//! modules read them, write them again byte for byte, and refuse what is damaged. `protocols/*.txt` says whose they are.

use std::path::Path;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::schema::TypeId;
use fusewire_asn1_values::{Encoding, Limits, Schema, jer, notation};
use fusewire_codec::ber::{self, Rules};

#[allow(dead_code, clippy::all, reason = "made of notation that others wrote, not all of it used")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/protocols.rs"));
}

use generated::community_based_snm_pv2::Message;
use generated::snm_pv2_pdu as pdu;
use generated::{
    cryptographic_message_syntax2004 as cms, kerberos_v5_spec2 as kerberos,
    lightweight_directory_access_protocol_v3 as ldap, snm_pv3_message_syntax as v3,
    usm_security_parameters_syntax as usm,
};

/// A protocol's modules, and messages: what each is, the type, the bytes.
struct Protocol {
    file: File,
    messages: Vec<(String, String, Vec<u8>)>,
}

fn protocol(name: &str) -> Protocol {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols");
    let text = std::fs::read(folder.join(format!("{name}.asn1"))).expect("the modules");
    let file = File::parse(0, Source::new(name, &text));
    let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("the messages");
    let mut messages: Vec<(String, String, Vec<u8>)> = Vec::new();
    let mut what = "";
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            what = comment;
        } else if let Some(hex) = line.strip_prefix("  ") {
            let digits = |n| u8::from_str_radix(&hex[n..n + 2], 16).expect("hexadecimal digits");
            let bytes = (0..hex.len()).step_by(2).map(digits);
            messages.last_mut().expect("a type before its bytes").2.extend(bytes);
        } else if !line.is_empty() {
            messages.push((what.to_owned(), line.to_owned(), Vec::new()));
        }
    }
    Protocol { file, messages }
}

/// What generated code reads, written again.
type Again = fn(&[u8], Rules) -> Result<Vec<u8>, fusewire_codec::Error>;

macro_rules! again {
    ($type:path) => {
        |bytes, rules| ber::to_vec(&ber::from_bytes::<$type>(bytes, rules)?, rules)
    };
}

fn again(ty: &str) -> Again {
    match ty {
        "Message" => again!(Message),
        "SNMPv3Message" => again!(v3::SNMPv3Message),
        "UsmSecurityParameters" => again!(usm::UsmSecurityParameters),
        "AS-REQ" => again!(kerberos::AsReq),
        "AS-REP" => again!(kerberos::AsRep),
        "TGS-REQ" => again!(kerberos::TgsReq),
        "TGS-REP" => again!(kerberos::TgsRep),
        "AP-REQ" => again!(kerberos::ApReq),
        "KRB-ERROR" => again!(kerberos::KrbError),
        "METHOD-DATA" => again!(kerberos::MethodData),
        "ETYPE-INFO2" => again!(kerberos::EtypeInfo2),
        "PA-ENC-TS-ENC" => again!(kerberos::PaEncTsEnc),
        "EncTicketPart" => again!(kerberos::EncTicketPart),
        "EncTGSRepPart" => again!(kerberos::EncTGSRepPart),
        "Authenticator" => again!(kerberos::Authenticator),
        "LDAPMessage" => again!(ldap::LDAPMessage),
        "ContentInfo" => again!(cms::ContentInfo),
        "SignedData" => again!(cms::SignedData),
        "EnvelopedData" => again!(cms::EnvelopedData),
        "DigestedData" => again!(cms::DigestedData),
        "EncryptedData" => again!(cms::EncryptedData),
        _ => panic!("{ty} is not among the types of the test"),
    }
}

/// The same by the interpreter.
fn interpreted(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    bytes: &[u8],
    rules: Rules,
) -> Result<Vec<u8>, fusewire_asn1_values::Error> {
    let value = Encoding::Tagged(rules).decode(schema, ty, bytes, Limits::default())?;
    Encoding::Tagged(rules).encode(schema, ty, &value)
}

/// Whole, both write what they read; cut short anywhere, both refuse; with a bit of any byte changed, both say the same.
fn speaks(name: &str, rules: Rules) {
    let Protocol { file, messages } = protocol(name);
    let world = World::new([&file]);
    let mut schema = Schema::new(&world);
    let (mut refused, mut taken) = (0, 0);
    for (what, name, bytes) in &messages {
        let again = again(name);
        let ty = schema.type_named(name).expect("a type");
        let both = |bytes: &[u8]| (again(bytes, rules), interpreted(&schema, ty, bytes, rules));
        let (ours, others) = both(bytes);
        assert_eq!(ours.as_ref(), Ok(bytes), "{what}");
        assert_eq!(others.unwrap_or_else(|e| panic!("{what}: {e}")), *bytes, "{what}");
        for end in 0..bytes.len() {
            let (ours, others) = both(&bytes[..end]);
            assert!(ours.is_err() && others.is_err(), "{what}: {end} of {} bytes", bytes.len());
        }
        let mut damaged = bytes.clone();
        for at in 0..bytes.len() {
            damaged[at] ^= 1 << (at * 5 % 8);
            match both(&damaged) {
                (Ok(ours), Ok(others)) => {
                    // The interpreter keeps what an extension marker let pass.
                    assert_eq!(again(&others, rules), Ok(ours), "{what}: byte {at}");
                    taken += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                (ours, others) => panic!("{what}: byte {at}: {ours:?} and {others:?}"),
            }
            damaged[at] = bytes[at];
        }
        let value = Encoding::Tagged(rules).decode(&schema, ty, bytes, Limits::default());
        let value = value.expect("it was read before");
        let json = jer::to_json(&schema, &value, ty);
        let back = jer::from_json(&schema, &json, ty).unwrap_or_else(|e| panic!("{e}: {json}"));
        assert_eq!(
            Encoding::Tagged(rules).encode(&schema, ty, &back).as_ref(),
            Ok(bytes),
            "{json}"
        );
        assert!(notation::to_text(&schema, &value, ty).len() > 4, "{what}");
    }
    println!("{name}: {} messages, {refused} damaged ones refused, {taken} not", messages.len());
    assert!(refused > messages.len());
}

#[test]
fn snmp() {
    speaks("snmp", Rules::Der);
}

#[test]
fn kerberos() {
    speaks("kerberos", Rules::Der);
}

/// In BER: the values of an attribute are a SET OF, in the order in which they were given.
#[test]
fn ldap() {
    speaks("ldap", Rules::Ber);
}

#[test]
fn cms() {
    speaks("cms", Rules::Der);
}

/// What is in them is what the programs were asked for.
#[test]
fn values_are_those_that_were_sent() {
    let message = |name: &str, what: &str| {
        let mut messages = protocol(name).messages.into_iter();
        messages.find(|m| m.0.starts_with(what)).expect("a message of it").2
    };
    let bytes = message("snmp", "snmptrap");
    let trap: Message<'_> = ber::from_bytes(&bytes, Rules::Der).expect("a trap");
    assert_eq!((trap.version, trap.community.as_bytes()), (1, &b"public"[..]));
    let pdu::PDUs::SnmpV2Trap(pdu::SNMPv2TrapPdu(pdu)) = trap.data else { panic!("{trap:?}") };
    let values: Vec<_> = pdu.variable_bindings.into_iter().map(|b| b.component2).collect();
    let wide = |value| pdu::VarBindComponent2::Value(pdu::ObjectSyntax::ApplicationWide(value));
    let has = |value| assert!(values.contains(&wide(value)), "{values:?}");
    has(pdu::ApplicationSyntax::CounterValue(pdu::Counter32(u32::MAX)));
    has(pdu::ApplicationSyntax::BigCounterValue(pdu::Counter64(u64::MAX)));
    has(pdu::ApplicationSyntax::IpAddressValue(pdu::IpAddress(vec![192, 0, 2, 1].into())));
    has(pdu::ApplicationSyntax::TimeticksValue(pdu::TimeTicks(1 << 31)));
    let least = pdu::SimpleSyntax::IntegerValue(i32::MIN);
    let least = pdu::VarBindComponent2::Value(pdu::ObjectSyntax::Simple(least));
    assert_eq!(values.last(), Some(&least));

    let bytes = message("kerberos", "what is encrypted in that ticket");
    let ticket: kerberos::EncTicketPart<'_> = ber::from_bytes(&bytes, Rules::Der).expect("it");
    assert_eq!(ticket.0.cname.name_string[0].as_bytes(), b"alice");
    assert_eq!((ticket.0.flags.len(), ticket.0.key.keyvalue.len()), (32, 32));

    let bytes = message("ldap", "searchRequest");
    let message: ldap::LDAPMessage<'_> = ber::from_bytes(&bytes, Rules::Ber).expect("it");
    let ldap::LDAPMessageProtocolOp::SearchRequest(search) = message.protocol_op else {
        panic!("{message:?}")
    };
    let ldap::Filter::And(parts) = search.filter else { panic!("{search:?}") };
    assert_eq!((parts.len(), search.attributes.len()), (3, 2));
}
