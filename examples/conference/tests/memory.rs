//! An end holds what `EXPLAIN.md` says that it does, and not much less.

use std::path::Path;

use conference_example::{A, B};
use fusewire_generate::make::Chosen;
use fusewire_generate::rust::memory;
use fusewire_service::contract::datagrams::alone;
use fusewire_service::datagram::End;
use fusewire_service::profile::Profile;
use fusewire_testkit::counting::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

fn end<P: Profile>() -> End<P> {
    alone().unwrap()
}

#[test]
fn an_end_holds_what_is_said() {
    // Tables of the process.
    drop(end::<A>());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("conference.toml");
    let plan = Chosen::of(&file).unwrap().choice.plan;
    let held = [counting::kept(end::<A>).0, counting::kept(end::<B>).0];
    for (role, held) in held.into_iter().enumerate() {
        let said = memory::datagram_end(&plan, role);
        println!("{}: {held} bytes, of {said} that are said", plan.roles[role]);
        let held = u64::try_from(held).unwrap();
        assert!(held <= said && held >= said / 2, "{held} bytes, of {said}");
    }
    assert!(memory::words(&plan).contains("KiB of each end"), "{}", memory::words(&plan));
}
