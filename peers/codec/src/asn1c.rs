//! asn1c: DER out, BER in, where it could be built.

use crate::{Case, Values};

#[cfg(not(asn1c))]
pub fn cases(_: &Values, _: &mut Vec<Case>) {}

#[cfg(asn1c)]
pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    let ints = rasn::ber::encode(&values.ints).expect("encodes");
    let strings: Vec<_> = values
        .strings
        .iter()
        .map(|s| rasn::types::PrintableString::try_from(s.as_str()).expect("printable"))
        .collect();
    let strings = rasn::ber::encode(&strings).expect("encodes");
    both(cases, 0, "ints", values.ints.len(), ints);
    both(cases, 1, "strings", values.strings.len(), strings);
    both(cases, 2, "reals", values.reals.len(), values.reals_ber.clone());
}

#[cfg(asn1c)]
fn both(cases: &mut Vec<Case>, kind: i32, of: &'static str, elements: usize, bytes: Vec<u8>) {
    use std::hint::black_box;
    unsafe extern "C" {
        fn peer_asn1c_decode(kind: i32, bytes: *const u8, len: usize) -> *mut core::ffi::c_void;
        fn peer_asn1c_encode(
            kind: i32,
            value: *mut core::ffi::c_void,
            room: *mut u8,
            len: usize,
        ) -> usize;
        fn peer_asn1c_free(kind: i32, value: *mut core::ffi::c_void);
    }
    // SAFETY: pointer and length are of one slice; the value is made, used and freed by asn1c alone.
    let value = unsafe { peer_asn1c_decode(kind, bytes.as_ptr(), bytes.len()) };
    assert!(!value.is_null(), "asn1c refuses {of}");
    let mut room = vec![0u8; 2 * bytes.len()];
    let len = bytes.len();
    crate::pair(
        cases,
        ("asn1c", of),
        (elements, len),
        move || {
            // SAFETY: as above; the value lives as long as the process.
            let len = unsafe { peer_asn1c_encode(kind, value, room.as_mut_ptr(), room.len()) };
            assert_eq!(black_box(len), len);
            assert_ne!(len, 0);
        },
        move || {
            // SAFETY: as above.
            unsafe {
                let value = peer_asn1c_decode(kind, black_box(bytes.as_ptr()), bytes.len());
                assert!(!value.is_null());
                peer_asn1c_free(kind, value);
            }
        },
    );
}
