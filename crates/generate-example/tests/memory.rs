//! What is said of memory is what ends have: a stream's stack, and the stream of a group.

use std::path::Path;

use fusewire_generate::choice::rank::STREAM_RING_BYTES;
use fusewire_generate::make::Chosen;
use fusewire_generate::rust::memory::{STREAM_WINDOW_BYTES, group_stream};
use fusewire_generate_example::{cast, names, rich, swift};
use fusewire_service::profile::Profile;
use fusewire_service::{group, stream};
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

/// By the longest ADU, and by what is made while a receiver is waited for.
#[test]
fn a_group_has_the_memory_that_is_said() {
    let said = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("specifications");
        let plan = Chosen::of(&folder.join(name)).unwrap().choice.plan;
        usize::try_from(group_stream(&plan)).unwrap()
    };
    let [long, fast] = ["cast.toml", "swift.toml"].map(said);
    assert_eq!(group::memory_of_resent::<cast::Printer>(), long);
    assert_eq!(group::memory_of_resent::<cast::Reader>(), long);
    assert_eq!(group::memory_of_resent::<swift::Exchange>(), fast);
    assert_eq!(group::memory_of_resent::<swift::Trader>(), fast);
    // Neither is the buffer that a specification without a rate or a length would have.
    assert!(long > 4 * 2_000_000 && fast > 7 * cast::Printer::CAST_RATES[0] as usize / 2);
}
