//! Rules of groups that a transfer over links does not show, packet by packet (`docs/xtp.md`, section 16).

mod receiver;
mod sender;

use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_wire::xtp::{Key, Options};

const NOW: Instant = Instant::from_ms(5000);
const MULTI: Options = Options::MULTI;

fn key(n: u64) -> Key {
    Key::new(n).expect("not zero")
}

fn at(n: u64) -> SocketAddr {
    ([10, 0, 0, n as u8], 4000).into()
}
