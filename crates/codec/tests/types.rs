//! REAL, numbers of any width, characters, and what constraints ask, by themselves.

use fusewire_codec::check;
use fusewire_codec::types::characters::{self, Coding};
use fusewire_codec::types::{Integer, number, real};

fn octets(value: f64) -> Vec<u8> {
    let (octets, len) = real::encode(value);
    octets[real::MAX_LEN - len..].to_vec()
}

#[test]
fn known_forms() {
    assert_eq!(octets(0.0), []);
    assert_eq!(octets(-0.0), [0x43]);
    assert_eq!(octets(1.0), [0x80, 0, 1]);
    assert_eq!(octets(-2.0), [0xc0, 1, 1]);
    assert_eq!(octets(0.15625), [0x80, 0xfb, 5]);
    assert_eq!(octets(f64::from_bits(1)), [0x81, 0xfb, 0xce, 1]);
    assert_eq!(octets(f64::MAX), [0x81, 3, 0xcb, 0x1f, 255, 255, 255, 255, 255, 255]);
    // Base 16 with a scale: 5 * 2^1 * 16^-1.
    assert_eq!(real::decode(&[0xa4, 0xff, 5], false), Ok(0.625));
    assert!(real::decode(&[0xa4, 0xff, 5], true).is_err());
    assert_eq!(real::decode(&[0x83, 4, 0, 0, 0, 1, 3], false), Ok(6.0));
    assert_eq!(real::decode(b"\x01 -00042", false), Ok(-42.0));
    assert_eq!(real::decode(b"\x021,5", false), Ok(1.5));
    assert_eq!(real::decode(b"\x0315.E-1", true), Ok(1.5));
    assert!(real::decode(b"\x031.5E0", true).is_err());
    for bad in [
        &b"\x80"[..],
        b"\x80\0",
        b"\xb0\0\x01",
        b"\x83\0\x01",
        b"\x01",
        b"\x011.0",
        b"\x44",
        b"\x04",
    ] {
        assert!(real::decode(bad, false).is_err(), "{bad:x?}");
    }
}

#[test]
fn long_mantissas_round_to_nearest() {
    // 2^64 + 2^11: a tie that goes to even; one bit further down breaks it.
    assert_eq!(
        real::decode(&[0x80, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0], false),
        Ok(18446744073709551616.0)
    );
    assert_eq!(
        real::decode(&[0x80, 0, 1, 0, 0, 0, 0, 0, 0, 8, 1], false),
        Ok(18446744073709555712.0)
    );
    assert_eq!(
        real::decode(&[0x80, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0, 1], false),
        Ok(18446744073709555712.0 * 256.0)
    );
    assert_eq!(real::decode(&[0x83, 8, 127, 0, 0, 0, 0, 0, 0, 0, 1], false), Ok(f64::INFINITY));
    assert_eq!(real::decode(&[0x83, 8, 128, 0, 0, 0, 0, 0, 0, 0, 1], false), Ok(0.0));
    // Half of the least subnormal is a tie to zero; anything more is the least subnormal.
    assert_eq!(real::decode(&[0x81, 0xfb, 0xcd, 1], false), Ok(0.0));
    assert_eq!(real::decode(&[0x81, 0xfb, 0xcc, 3], false), Ok(f64::from_bits(1)));
}

#[test]
fn numbers_of_every_width_are_what_they_were() {
    for number in [0, 1, -1, 127, 128, -128, -129, i128::MAX, i128::MIN, 1 << 64, -(1 << 64)] {
        let bytes = number::of(number);
        assert_eq!(number::to_i128(&bytes), Some(number));
        assert_eq!(number::to_decimal(&bytes), Some(number.to_string()));
        assert_eq!(number::from_decimal(&number.to_string()), Some(bytes));
    }
    // 2^136 and its neighbours, by bc.
    let above = "87112285931760246646623899502532662132736";
    let mut bytes = vec![0; 18];
    bytes[0] = 1;
    assert_eq!(number::to_decimal(&bytes).as_deref(), Some(above));
    assert_eq!(number::from_decimal(above), Some(bytes));
    let mut below = vec![0; 18];
    below[0] = 0xff;
    assert_eq!(number::to_decimal(&below), Some(format!("-{above}")));
    assert_eq!(number::from_decimal(&format!("-{above}")), Some(below));
    let zeros = format!("1{}", "0".repeat(60));
    assert_eq!(number::to_decimal(&number::from_decimal(&zeros).unwrap()), Some(zeros));
    for wrong in ["", "-", "+1", "1.0", "0x1", "--1"] {
        assert_eq!(number::from_decimal(wrong), None, "{wrong}");
    }
}

#[test]
fn codings_go_both_ways() {
    for (coding, text) in
        [(Coding::Utf8, "aé€"), (Coding::Latin, "aé"), (Coding::Two, "a€😀"), (Coding::Four, "😀")]
    {
        let bytes = characters::encode(coding, text).unwrap();
        assert_eq!(characters::decode(coding, &bytes).as_deref(), Some(text));
    }
    assert_eq!(characters::encode(Coding::Latin, "€"), None);
    assert_eq!(characters::decode(Coding::Two, &[0xd8, 0]), None);
    assert_eq!(characters::decode(Coding::Four, &[0, 0, 0]), None);
}

#[test]
fn integers_of_any_width() {
    const MIN: i128 = i128::MIN;
    const MAX: i128 = i128::MAX;
    let wide = Integer::from_be_bytes(&[1; 20]);
    assert!(check::integer(&wide, &[(0, MAX)]).is_ok());
    assert!(check::integer(&wide, &[(MIN, 5)]).is_err());
    let below = Integer::from_be_bytes(&[0xff, 0x01]);
    assert!(check::integer(&below, &[(-255, -255)]).is_ok());
    assert!(check::integer(&below, &[(-254, MAX)]).is_err());
    let holes = [(MIN, -256), (1, 3), (5, MAX)];
    for (octet, is_in) in [(0, false), (1, true), (3, true), (4, false), (5, true)] {
        let found = check::integer(&Integer::from_be_bytes(&[octet]), &holes);
        assert_eq!(found.is_ok(), is_in, "{octet}");
    }
    assert!(check::integer(&below, &holes).is_err() && check::integer(&wide, &holes).is_ok());
}

#[test]
fn alphabets() {
    let digits = ((1 << 10) - 1) << b'0';
    assert!(check::alphabet(b"0123456789", digits, "NumericString").is_ok());
    for bad in [&b"12a"[..], b" ", b"\xb0"] {
        assert!(check::alphabet(bad, digits, "NumericString").is_err());
    }
    assert!(check::characters("äöü".as_bytes(), 0, &[(0xe4, 0xfc)]).is_ok());
    assert!(check::characters("aä".as_bytes(), 0, &[(0xe4, 0xfc)]).is_err());
    assert!(check::characters(b"\0a\0b", 2, &[(0x61, 0x62)]).is_ok());
    assert!(check::characters(b"\x01a", 2, &[(0x61, 0x62)]).is_err());
    assert_eq!(check::utf8_len("aä€𝄞".as_bytes()), 4);
}
