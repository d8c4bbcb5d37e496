//! `cargo xtask test`: everything that must hold before a change lands.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::changed::{self, Reach};
use crate::only::Which;
use crate::programs;
use crate::shell::{Result, cargo, has, install, is_root, say_what_steps_took, step, tests};
use crate::{fuzz, lean, packetdrill, tidy, user};

/// How much of it.
#[derive(Args)]
pub struct Options {
    /// How long each fuzz target runs after the tests, which run the kept inputs in any case; 0 for not at all: building
    /// the fuzzers takes as long as all the tests.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    fuzz_seconds: u32,
    /// Only the crates with files that differ from COMMIT, and those that depend on them; without COMMIT, from the last
    /// commit. Those that only depend on them are tested, but for what measures, and neither linted nor run without
    /// rights. House rules and format are checked for all.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD")]
    changed: Option<String>,
}

/// Packages that a step is for: these, or all.
struct Choice(Option<Vec<String>>);

/// What the steps are for.
struct Choices {
    /// What has changed.
    changed: Choice,
    /// That, and what depends on it.
    reached: Choice,
}

impl Choices {
    const ALL: Choices = Choices { changed: Choice(None), reached: Choice(None) };

    fn of(options: &Options) -> Result<Choices> {
        let Some(commit) = &options.changed else { return Ok(Choices::ALL) };
        match changed::since(commit, &tidy::metadata()?)? {
            Reach::All(file) => {
                println!("── {file} has changed since {commit}: everything is tested");
                Ok(Choices::ALL)
            }
            Reach::Packages { changed, reached } => {
                let choice = |names: BTreeSet<String>| Choice(Some(Vec::from_iter(names)));
                let choices = Choices { changed: choice(changed), reached: choice(reached) };
                println!("── changed since {commit}: {}", choices.changed);
                println!("── and what depends on it: {}", choices.reached);
                Ok(choices)
            }
        }
    }
}

impl Choice {
    fn packages(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    fn has(&self, name: &str) -> bool {
        self.packages().is_none_or(|names| names.iter().any(|n| n == name))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.packages().map_or("everything".into(), |names| names.join(" ")))
    }
}

/// The program.
const PROGRAM: &str = "fusewire";
/// Packages that have more than they have by default, and the feature by which.
const WHOLE: [(&str, &str); 3] = [
    (PROGRAM, "fusewire/full"),
    (lean::PACKAGE, "fusewire-stack/tokio"),
    ("fusewire-outboard", "fusewire-outboard/tokio"),
];

/// Tells cargo of these packages, or of all, with all that they have.
pub fn choose<'a>(command: &'a mut Command, packages: Option<&[String]>) -> &'a mut Command {
    match packages {
        None => command.arg("--workspace"),
        Some(names) => command.args(names.iter().flat_map(|name| ["--package", name])),
    };
    for (name, feature) in WHOLE {
        if packages.is_none_or(|names| names.iter().any(|chosen| chosen == name)) {
            command.args(["--features", feature]);
        }
    }
    command
}

/// Programs, and files by their path, that tests need, and the Debian packages that have them.
const PEERS: [(&str, &str); 31] = [
    ("tshark", "tshark"),
    ("cc", "gcc"),
    ("g++", "g++"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("bash", "bash"),
    ("curl", "curl"),
    ("iperf3", "iperf3"),
    ("nmap", "nmap"),
    ("ping", "iputils-ping"),
    ("socat", "socat"),
    ("tracepath", "iputils-tracepath"),
    ("rpcgen", "rpcsvc-proto"),
    ("chromium", "chromium"),
    ("valgrind", "valgrind"),
    ("/usr/include/tirpc/rpc/rpc.h", "libtirpc-dev"),
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("memccapable", "libmemcached-tools"),
    ("pgbench", "postgresql"),
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("openssl", "openssl"),
    ("/usr/bin/python3", "python3"),
    ("jq", "jq"),
    ("pgrep", "procps"),
    ("sshd", "openssh-server"),
    ("dnsmasq", "dnsmasq-base"),
    ("dig", "dnsutils"),
];

/// Runs every step, stops at the first that fails, and says what they took.
pub fn run(options: &Options) -> Result {
    let result = steps(options);
    say_what_steps_took();
    result
}

fn steps(options: &Options) -> Result {
    // Before a build puts another of the same contents in its place.
    let ourselves = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    let Some(Choices { changed, reached }) = before_tests(options)? else { return Ok(()) };
    all_tests(&ourselves, &changed, &reached)?;
    if changed.has(PROGRAM) {
        // Of the workspace, so that what it depends on is what all tests have, and not built again; lints see it alone.
        let mut lean = cargo();
        lean.args(["test", "--quiet", "--workspace", "--bin", PROGRAM]);
        let others = WHOLE.iter().filter(|(package, _)| *package != PROGRAM);
        lean.args(others.flat_map(|(_, feature)| ["--features", feature]));
        tests("tests of the program without compilers and lab", &mut lean)?;
    }
    if changed.has(lean::PACKAGE) || changed.has("fusewire-device") {
        lean::run()?;
    }
    if reached.has("fusewire-packetdrill") {
        packetdrill::own(false)?;
    }
    let mut documentation = cargo();
    documentation.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links").args([
        "doc",
        "--no-deps",
        "--quiet",
    ]);
    step("documentation", choose(&mut documentation, None))?;
    match options.fuzz_seconds {
        0 => Ok(()),
        seconds => fuzz::all(seconds),
    }
}

/// Format, house rules and lints, while what tests need is installed: what has changed, if anything.
fn before_tests(options: &Options) -> Result<Option<Choices>> {
    if !is_root() {
        println!("── not root: what needs root is skipped, and listed when the tests have run");
    }
    std::thread::scope(|scope| {
        let has_compilers = ["cc", "g++"].into_iter().all(has);
        let installing = scope.spawn(|| install(&PEERS));
        step("format", cargo().args(["fmt", "--all", "--check"]))?;
        tidy::run()?;
        let choices = Choices::of(options)?;
        if choices.changed.packages().is_some_and(<[String]>::is_empty) {
            println!("── nothing has changed");
            return Ok(None);
        }
        if !has_compilers {
            let _ = installing.join();
        }
        lints(&choices.changed)?;
        Ok(Some(choices))
    })
}

/// Builds all tests and runs those of the packages that have changed, and that depend on them. As root: those that have changed
/// without rights first, and then the programs of which that left something out.
fn all_tests(ourselves: &Path, changed: &Choice, reached: &Choice) -> Result {
    let which = Which { packages: reached.packages(), changed: changed.packages() };
    let mut command = cargo();
    choose(command.arg("test"), None).arg("--no-fail-fast");
    let name = "build of tests, and examples of the documentation";
    let (mut programs, examples) = programs::built(name, &mut command, ourselves, which)?;
    let mut without_rights = Ok(());
    if is_root() {
        let have_changed = programs.iter().filter(|program| changed.has(&program.package));
        match user::all(&have_changed.cloned().collect::<Vec<_>>()) {
            Ok(whole) => programs.retain(|program| !whole.contains(&program.path)),
            Err(failed) => without_rights = Err(failed),
        }
    }
    let ran = programs::run("tests", &programs, |program| {
        let mut command = Command::new(&program.path);
        program.prepare(&mut command);
        command
    });
    let mut all = examples?;
    without_rights?;
    all += ran?.tests;
    println!("   {all}");
    Ok(())
}

fn lints(choice: &Choice) -> Result {
    let mut lints = cargo();
    choose(lints.arg("clippy"), choice.packages()).arg("--all-targets");
    if has("g++") && choice.has("fusewire-fuzz") {
        lints.args(["--features", "fusewire-fuzz/libfuzzer"]);
    }
    step("lints", lints.args(["--", "-D", "warnings"]))?;
    if choice.has(PROGRAM) {
        let lean = ["clippy", "-p", PROGRAM, "--", "-D", "warnings"];
        step("lints of the program without compilers and lab", cargo().args(lean))?;
    }
    if choice.has(lean::PACKAGE) {
        lean::lints()?;
    }
    if !choice.has("fusewire-codec") {
        return Ok(());
    }
    let bare = ["clippy", "-p", "fusewire-codec", "--no-default-features", "--", "-D", "warnings"];
    step("lints of the codec without an allocator", cargo().args(bare))
}
