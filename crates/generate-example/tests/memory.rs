//! What is said of a stream's memory is what its stack has.

use fusewire_generate::choice::rank::STREAM_RING_BYTES;
use fusewire_generate::rust::memory::STREAM_WINDOW_BYTES;
use fusewire_generate_example::{names, rich};
use fusewire_service::profile::Profile;
use fusewire_service::stream;
use fusewire_transport::either::Config;

fn has<P: Profile>() {
    let config = stream::config::<P>();
    assert_eq!(config.send_ring_bytes as u64, STREAM_RING_BYTES);
    let window = match config.transport {
        Config::Tcp(tcp) => tcp.recv_window,
        Config::Xtp(xtp) => xtp.recv_window,
    };
    assert_eq!(u64::from(window), STREAM_WINDOW_BYTES);
}

#[test]
fn a_stream_has_the_memory_that_is_said() {
    has::<names::Stream>();
    has::<rich::Asker>();
}
