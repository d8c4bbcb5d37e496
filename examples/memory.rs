//! What ends over streams hold of memory, beside what `EXPLAIN.md` says: `tests/memory.rs` of the examples.

use std::path::Path;

use fusewire_generate::make::Chosen;
use fusewire_generate::rust::memory;
use fusewire_service::profile::{Profile, len_max, of_number};
use fusewire_service::stream;
use fusewire_transport::either::Config;

/// Calls of one connection, at most (`fusewire_stack`, `calls`).
const CALLS: u64 = 256;

/// Bytes that the stack may hold for one connection: its ring, its window, and its calls.
pub fn at_most<P: Profile>() -> u64 {
    let config = stream::config::<P>();
    let window = match config.transport {
        Config::Tcp(tcp) => tcp.recv_window,
        Config::Xtp(xtp) => xtp.recv_window,
    };
    let longest = len_max(P::SENDS).max(len_max(P::TAKES)) as u64;
    let calls = P::SENDS.iter().chain(P::TAKES).filter_map(|asks| {
        let answer = asks.answered_by?;
        let answer = of_number(P::SENDS, answer).or(of_number(P::TAKES, answer))?;
        Some((asks.len_max + answer.len_max) as u64)
    });
    let ring = (config.send_ring_bytes as u64).max(longest);
    ring + u64::from(window).max(longest) + CALLS * calls.max().unwrap_or(0)
}

/// New ends hold so many bytes of a thread's, and the stack so many more at most: no more than the plan says, and not much less.
pub fn assert_is_said(specification: &str, ends: [(i64, u64); 2]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(specification);
    let plan = Chosen::of(&file).unwrap().choice.plan;
    for (role, (held, most)) in ends.into_iter().enumerate() {
        let said = memory::of_end(&plan, role);
        println!("{}: {held} bytes when new, {most} at most, of {said}", plan.roles[role]);
        assert!(u64::try_from(held).unwrap() <= said, "{held} bytes, of {said}");
        assert!(most <= said && most >= said / 2, "{most} bytes, of {said}");
    }
}
