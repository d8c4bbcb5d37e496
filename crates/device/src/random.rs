//! Secret random bytes of the kernel's.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// `N` of them.
///
/// # Errors
/// The kernel has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let (mut bytes, mut filled) = ([0; N], 0);
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
