//! The table of ciphers: names, numbers, and what is offered.
//!
//! Not in the crate: whoever names the table has all its loops compiled, which are the crate's own to compile, once.

use fusewire_kernels::Cipher;
use fusewire_kernels::suites::{KEY_LEN_MAX, NONCE_LEN_MAX, Standing, TAG_LEN_MAX};

#[test]
fn names_and_codes_round_trip() {
    let all = Cipher::ALL.into_iter().flat_map(|cipher| match cipher.code()[1] {
        0 => vec![cipher],
        _ => (0..=u8::MAX).filter_map(|parameter| cipher.with(parameter)).collect(),
    });
    let mut count = 0;
    for cipher in all {
        assert_eq!(cipher.to_string().parse::<Cipher>().unwrap(), cipher);
        assert_eq!(Cipher::from_code(cipher.code()), Some(cipher));
        assert_eq!(cipher.is_insecure(), cipher.id >= 0x80);
        assert_eq!(cipher.is_insecure(), cipher.tag_len == 0);
        assert_eq!(cipher.warning().is_some(), cipher.standing != Standing::Standard);
        assert!(cipher.key_len <= KEY_LEN_MAX && cipher.nonce_len <= NONCE_LEN_MAX);
        assert!(cipher.tag_len <= TAG_LEN_MAX);
        count += 1;
    }
    let known = (0..=u16::MAX).filter(|c| Cipher::from_code(c.to_be_bytes()).is_some()).count();
    assert_eq!(known, count);
    assert!(Cipher::ALL.is_sorted_by_key(|cipher| cipher.id));
    for bad in ["", "aes", "safer-k64:0", "safer-k64:14", "safer-k64:", "safer-k64:-1", "NONE"] {
        assert!(bad.parse::<Cipher>().is_err(), "{bad}");
    }
    assert_eq!("safer-k64:6".parse(), Ok(Cipher::SAFER_K64));
    assert!("none:0".parse::<Cipher>().is_err());
}

#[test]
fn what_is_offered_unasked_is_a_standard() {
    assert!(Cipher::DEFAULT.iter().all(|cipher| cipher.standing == Standing::Standard));
}

/// Kernels' own, which no two sides agree on.
#[test]
fn ciphers_without_a_number_are_not_offered() {
    for cipher in [Cipher::SAFER_SK64, Cipher::SAFER_SK128] {
        assert_eq!(cipher.id, 0);
        assert!(!Cipher::ALL.contains(&cipher) && cipher.name.parse::<Cipher>().is_err());
    }
    assert_eq!(Cipher::from_code([0, 0]), None);
}
