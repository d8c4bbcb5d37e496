//! What is said of memory is what ends have: a stream's stack, the stream of a group, and what datagrams keep to send again.

use std::path::Path;

use fusewire_generate::choice::rank::STREAM_RING_BYTES;
use fusewire_generate::make::Chosen;
use fusewire_generate::rust::memory::{STREAM_WINDOW_BYTES, datagram_end, group_stream};
use fusewire_generate_example::{again, cast, names, rich, swift};
use fusewire_service::contract::datagrams::alone;
use fusewire_service::datagram::End;
use fusewire_service::profile::Profile;
use fusewire_service::{group, stream};
use fusewire_testkit::counting::{self, Counting};
use fusewire_transport::either::Config;

#[global_allocator]
static COUNTING: Counting = Counting;

fn end<P: Profile>() -> End<P> {
    alone().unwrap()
}

/// ADUs that are kept to be sent again, too.
#[test]
fn datagrams_have_the_memory_that_is_said() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("specifications/again.toml");
    let plan = Chosen::of(&file).unwrap().choice.plan;
    let held = [counting::kept(end::<again::Hand>).0, counting::kept(end::<again::Arm>).0];
    for (role, held) in held.into_iter().enumerate() {
        let said = datagram_end(&plan, role);
        println!("{}: {held} bytes, of {said} that are said", plan.roles[role]);
        let held = u64::try_from(held).unwrap();
        assert!(held <= said && held >= said / 2, "{held} bytes, of {said}");
    }
}

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
