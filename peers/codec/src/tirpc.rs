//! libtirpc's XDR, where it could be built.

use crate::{Case, Values};

#[cfg(not(tirpc))]
pub fn cases(_: &Values, _: &mut Vec<Case>) {}

#[cfg(tirpc)]
pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    let ints: Vec<i32> = values.ints.iter().map(|int| *int as i32).collect();
    let strings: Vec<std::ffi::CString> = values
        .strings
        .iter()
        .map(|string| std::ffi::CString::new(string.as_str()).expect("no zero"))
        .collect();
    let pointers: Vec<usize> = strings.iter().map(|string| string.as_ptr() as usize).collect();
    // They are pointed to as long as the process lives.
    std::mem::forget(strings);
    both(cases, 0, "ints32", ints);
    both(cases, 1, "strings", pointers);
    both(cases, 2, "reals", values.reals.clone());
}

#[cfg(tirpc)]
fn both<T: 'static>(cases: &mut Vec<Case>, kind: i32, of: &'static str, mut array: Vec<T>) {
    use std::hint::black_box;
    unsafe extern "C" {
        fn peer_tirpc_encode(
            kind: i32,
            array: *mut T0,
            count: u32,
            room: *mut u8,
            len: usize,
        ) -> usize;
        fn peer_tirpc_decode(kind: i32, bytes: *mut u8, len: usize) -> usize;
    }
    type T0 = core::ffi::c_void;
    let mut room = vec![0u8; 1 << 16];
    let count = array.len();
    // SAFETY: pointers and lengths are of slices; the array's elements are what the filter of its kind takes.
    let len = unsafe {
        peer_tirpc_encode(
            kind,
            array.as_mut_ptr().cast(),
            count as u32,
            room.as_mut_ptr(),
            room.len(),
        )
    };
    assert_ne!(len, 0, "libtirpc refuses {of}");
    let mut bytes = room[..len].to_vec();
    crate::pair(
        cases,
        ("libtirpc XDR", of),
        (count, len),
        move || {
            // SAFETY: as above.
            let len = unsafe {
                let array = black_box(array.as_mut_ptr().cast());
                peer_tirpc_encode(kind, array, count as u32, room.as_mut_ptr(), room.len())
            };
            assert_ne!(black_box(len), 0);
        },
        move || {
            // SAFETY: as above.
            let found =
                unsafe { peer_tirpc_decode(kind, black_box(bytes.as_mut_ptr()), bytes.len()) };
            assert_eq!(found, count);
        },
    );
}
