//! Which transport machine carries the encapsulated connections: the one place that says so. Everything around a
//! connection, from [`Stack`](crate::Stack) to [`Path`](crate::path::Path), is written against
//! [`fusewire_transport::machine`] alone.
//!
//! That this is so the compiler proves: the unit tests of this crate are built over a machine of their own
//! ([`toy`]), which has nothing of TCP's but the traits. (`ip` is ordinary TCP over IP, and says so.)

use fusewire_base::Sum;
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_transport::either;
use fusewire_transport::machine::{self, Header as _, Protocol};

use crate::config::Config;
use crate::drops::Cause;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

#[cfg(not(test))]
pub use fusewire_transport::either::Config as Settings;
#[cfg(test)]
pub use toy::Settings;

pub type Transport = <Settings as Protocol>::Connection;
pub type Listener = <Settings as Protocol>::Listener;
pub type ListenerAction = machine::ListenerAction<Settings>;
pub type Header = <Settings as Protocol>::Header;
pub type Flow = <Header as machine::Header>::Flow;
pub type Ends = machine::Ends<Flow>;

/// Room for a header before each record.
pub const HEADROOM: usize = Header::HEADROOM;

/// The machine's settings within those of a stack.
#[cfg(not(test))]
#[inline]
pub fn settings(config: &Config) -> &Settings {
    &config.transport
}

#[cfg(test)]
pub fn settings(_: &Config) -> &Settings {
    &toy::SETTINGS
}

/// The settings of XTP, if that is what is driven.
#[cfg(not(test))]
pub fn xtp_settings(settings: &Settings) -> Option<&fusewire_transport::xtp::Config> {
    match settings {
        Settings::Xtp(xtp) => Some(xtp),
        Settings::Tcp(_) => None,
    }
}

#[cfg(test)]
pub fn xtp_settings(_: &Settings) -> Option<&fusewire_transport::xtp::Config> {
    None
}

/// CXOR is offered, and agreed on, or is not.
#[cfg(not(test))]
pub fn set_trailers(settings: &mut Settings, on: bool) {
    if let Settings::Xtp(xtp) = settings {
        xtp.cxor = on;
    }
}

#[cfg(test)]
pub fn set_trailers(_: &mut Settings, _: bool) {}

/// A header as one of XTP's, if it is.
#[cfg(not(test))]
#[inline]
pub fn as_xtp(header: &Header) -> Option<&fusewire_transport::xtp::Header> {
    match header {
        Header::Xtp(xtp) => Some(xtp),
        Header::Tcp(_) => None,
    }
}

#[cfg(test)]
pub fn as_xtp(_: &Header) -> Option<&fusewire_transport::xtp::Header> {
    None
}

/// Refuses a packet that opens a connection to `service` by the transport that `settings` does not use: the settings and
/// the header of the answer, and its text, which names the transport in use. `None` if `frame` is anything else.
#[cfg(not(test))]
pub fn refusal_of_other(
    settings: &Settings,
    level: fusewire_kernels::Level,
    frame: &[u8],
    service: u16,
) -> Option<(Settings, Header, &'static str)> {
    let other = settings.other();
    let header = other.parse(frame).ok()?;
    if header.service() != Some(service) || !header.opens() || header.trailer_len() > 0 {
        return None;
    }
    let (head, payload) = frame.split_at_checked(header.header_len())?;
    let mut sum = header_sum(&other, head.get(..header.summed_len())?, frame.len());
    if header.sums_payload() {
        sum += fusewire_kernels::sum(level, payload);
    }
    let text = settings.name();
    let refusal = header.refusal(payload.len() as u32)?.with_text(text.len() as u32);
    // Not longer than what is answered: the sender's address is not proven.
    let fits = refusal.emit_len() + text.len() <= frame.len();
    (sum.verifies() && fits).then_some((other, refusal, text))
}

#[cfg(test)]
pub fn refusal_of_other(
    _: &Settings,
    _: fusewire_kernels::Level,
    _: &[u8],
    _: u16,
) -> Option<(Settings, Header, &'static str)> {
    None
}

/// The transport that the text of a refusal names, and the one that the refused packet used, if they differ.
pub fn named_transport(header: &Header, text: &[u8]) -> Option<[&'static str; 2]> {
    let served = std::str::from_utf8(text).ok()?.parse::<either::Protocol>().ok()?;
    let used = used(header)?;
    (served != used).then(|| [served.name(), used.name()])
}

#[cfg(not(test))]
fn used(header: &Header) -> Option<either::Protocol> {
    Some(match header {
        Header::Tcp(_) => either::Protocol::Tcp,
        Header::Xtp(_) => either::Protocol::Xtp,
    })
}

#[cfg(test)]
fn used(_: &Header) -> Option<either::Protocol> {
    None
}

/// The cause under which a packet that is nobody's is counted: a FIRST or JCNTL may be right but for its form, which it is
/// answered with.
pub fn stray<S>(header: &fusewire_wire::xtp::Header<S>) -> Cause {
    match header.body {
        fusewire_wire::xtp::Body::Unfit(_) => Cause::Malformed,
        _ => Cause::Stray,
    }
}

/// The sum over what the checksum covers besides the payload: `head`, whose length is a multiple of four, and the
/// pseudo-header of a TPDU of `len` bytes, where the protocol has one.
#[inline]
pub fn header_sum(settings: &Settings, head: &[u8], len: usize) -> Sum {
    let (words, _) = head.as_chunks::<4>();
    let sum = Sum::from_words(words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum());
    if settings.sums_pseudo_header() {
        pseudo_header_sum(settings.number(), len) + sum
    } else {
        sum
    }
}

/// Writes a header with its checksum; `payload_sum` is over the `payload_len` bytes after it, where the checksum covers
/// them.
pub fn emit(
    settings: &Settings,
    header: &Header,
    room: &mut [u8],
    payload_sum: Sum,
    payload_len: usize,
) -> usize {
    let len = header.emit(room);
    let sum = match header.sums_payload() {
        true => header_sum(settings, &room[..len], len + payload_len) + payload_sum,
        false => header_sum(settings, &room[..header.summed_len()], len + payload_len),
    };
    room[Header::CHECKSUM_AT..][..2].copy_from_slice(&sum.checksum().to_be_bytes());
    len
}
