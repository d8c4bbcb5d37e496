//! `cargo xtask soak`: the tests that take too long for `cargo xtask test`, which leaves them out.

use crate::shell::{Result, cargo, step};
use crate::{packetdrill, sanitize, suites};

/// Random seeds of the simulated link.
const SEEDS: &str = "10000";

/// The same of groups: each test runs with a share of what is said, as its single run is long. All that follow have as many seeds as
/// the simulated link, but who lies a third of that; together they take a processor some hours.
const GROUP_SEEDS: [(&str, &[&str]); 2] = [
    ("30000", &["group::loss", "group::attacks::forged"]),
    ("100000", &["group::slow::who_is", "group::joining", "group::attacks::who_lies"]),
];

/// Random seeds of the link between two generated ends, of which some go in real time, and of ends and controllers for media.
const CONTRACT_SEEDS: &str = "1000";

/// Runs each of them with optimisation.
pub fn run() -> Result {
    let ignored = |package: &str, test: &str| {
        let mut command = cargo();
        command.args(["test", "--release", "--package", package, "--test", test]);
        command.args(["--", "--ignored", "--nocapture"]);
        command
    };
    let killed = |test: &str, what: &str| {
        let mut command = cargo();
        command.env("FUSEWIRE_ROUNDS", "1000");
        command.args(["test", "--release", "--package", "fusewire-outboard", "--test", test]);
        command.args(["--", what]);
        command
    };
    sanitize::run(&sanitize::Options { runs: Vec::new() })?;
    step("applications killed", &mut killed("kernel", "killed_at_any_moment"))?;
    step("applications and outboards killed within rings", &mut killed("lease_faults", "killed"))?;
    packetdrill::own(true)?;
    let mut many = cargo();
    many.env("FUSEWIRE_PROGRAMS_TIMES", "10").args(["test", "--release", "--package", "fusewire"]);
    many.args(["--test", "programs", "--", "nginx_keeps_many_connections"]);
    step("10,000 connections to nginx over an outboard", &mut many)?;
    suites::run(&suites::Options::default())?;
    let simulated = ["--package", "fusewire-transport", "--test", "simulated", "--test", "xtp"];
    step("generated crates by themselves", &mut ignored("fusewire-generate", "crates"))?;
    let contracts = |packages: &[&str], tests: &[&str]| {
        let mut command = cargo();
        command.env("FUSEWIRE_SEEDS", CONTRACT_SEEDS).args(["test", "--release", "--no-fail-fast"]);
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        command.args(tests.iter().flat_map(|test| ["--test", test]));
        command
    };
    let examples = ["bulk-example", "rpc-example", "conference-example", "telemetry-example"];
    let packages = [&["fusewire-generate-example"][..], &examples].concat();
    step("contracts of generated ends", &mut contracts(&packages, &["contract", "contracts"]))?;
    let datagrams = ["datagram", "datagram_contracts"];
    step("ends over datagrams", &mut contracts(&["fusewire-service"], &datagrams))?;
    step("the media controller", &mut contracts(&["fusewire-transport"], &["media"]))?;
    let mut patient = cargo();
    patient.args(["test", "--release", "--package", "fusewire-service", "--lib"]);
    patient.args(["--", "--ignored", "contract::"]);
    step("contracts of groups that wait", &mut patient)?;
    step("a million files", &mut ignored("fusewire-files", "scale"))?;
    step("rate of the hot path", &mut ignored("fusewire-transport", "hot_path"))?;
    step("the same over XTP", &mut ignored("fusewire-transport", "xtp"))?;
    for (seeds, tests) in GROUP_SEEDS {
        let mut groups = cargo();
        groups.env("FUSEWIRE_SEEDS", seeds).args(["test", "--release", "--no-fail-fast"]);
        groups.args(["--package", "fusewire-transport", "--test", "xtp", "--"]).args(tests);
        step("many seeds of groups", &mut groups)?;
    }
    step(
        "many seeds",
        cargo()
            .env("FUSEWIRE_SEEDS", SEEDS)
            .args(["test", "--release", "--no-fail-fast"])
            .args(simulated),
    )
}
