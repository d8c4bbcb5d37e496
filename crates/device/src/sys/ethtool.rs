//! What a driver says of its interface (Linux `ethtool.h`).

use std::io;
use std::os::fd::BorrowedFd;

use super::ifreq;

const DRIVER_INFO: u32 = 0x3;
const CHANNELS: u32 = 0x3c;
/// `SIOCETHTOOL`
const REQUEST: libc::Ioctl = 0x8946;

/// Commands and answers are structures of 32-bit words; this is longer than any that is asked for here.
#[repr(C, align(8))]
struct Answer([u8; 256]);

/// Asks one question of the driver. `command` is one whose answer is shorter than [`Answer`].
fn ask(socket: BorrowedFd<'_>, name: &str, command: u32) -> io::Result<Answer> {
    let mut answer = Answer([0; 256]);
    answer.0[..4].copy_from_slice(&command.to_ne_bytes());
    let mut request = ifreq::named(name)?;
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // `answer` lives across the call and is longer than what the kernel writes to it.
    ifreq::ask(socket, request, REQUEST)?;
    Ok(answer)
}

impl Answer {
    fn word(&self, index: usize) -> u32 {
        let at = index * 4;
        u32::from_ne_bytes(std::array::from_fn(|i| self.0[at + i]))
    }
}

/// The driver's name (`ETHTOOL_GDRVINFO`).
pub(crate) fn driver(socket: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let answer = ask(socket, name, DRIVER_INFO)?;
    let bytes = answer.0[4..36].iter().copied().take_while(|b| *b != 0).collect();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// How many queues the interface has in use for receiving (`ETHTOOL_GCHANNELS`).
pub(crate) fn queues(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let answer = ask(socket, name, CHANNELS)?;
    // Four greatest numbers, then those in use: receiving, sending, other, combined.
    Ok((answer.word(5) + answer.word(8)).max(1))
}

/// A switch of the interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Received packets are merged (`ETHTOOL_GGRO`).
    Merging = 0x2b,
}

/// Whether a switch is on.
pub(crate) fn feature(socket: BorrowedFd<'_>, name: &str, feature: Feature) -> io::Result<bool> {
    Ok(ask(socket, name, feature as u32)?.word(1) != 0)
}
