//! The ends of a group hold what `EXPLAIN.md` says that they do, and not much less.

use std::path::Path;
use std::sync::Arc;

use fusewire_generate::make::Chosen;
use fusewire_generate::rust::memory;
use fusewire_testkit::counting::{self, Counting};
use telemetry_example::{Allow, Identity, Place, Plant, Viewer};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn an_end_holds_what_is_said() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("telemetry.toml");
    let plan = Chosen::of(&file).unwrap().choice.plan;
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let port = 10_000 + std::process::id() as u16 % 20_000 * 2;
    let place = Place::new("127.0.0.1:0".parse().unwrap(), ([239, 255, 19, 7], port).into());
    let place = Place { interface: Some("lo".into()), ..place };
    let allow = Allow::OwnKey;
    let (first, plant) = counting::kept(|| Plant::open(&place, identity.clone(), allow).unwrap());
    let (at, key) = (plant.local_addr(), identity.fingerprint());
    let (second, viewer) = counting::kept(|| Viewer::join(at, Some("lo"), identity, key).unwrap());
    for (role, held) in [first, second].into_iter().enumerate() {
        let said = memory::of_end(&plan, role);
        println!("{}: {held} bytes, of {said} that are said", plan.roles[role]);
        let held = u64::try_from(held).unwrap();
        assert!(held <= said && held >= said / 2, "{held} bytes, of {said}");
    }
    viewer.leave().unwrap();
}
