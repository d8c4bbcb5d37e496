//! `cargo xtask test`: everything that must hold before a change lands.

use clap::Args;

use std::process::Command;

use crate::changed::{self, Reach};
use crate::shell::{Result, cargo, has, install, is_root, step, tests};
use crate::{fuzz, packetdrill, tidy, user};

/// How much of it.
#[derive(Args)]
pub struct Options {
    /// How long each fuzz target runs after the tests, which run the kept inputs in any case; 0 for not at all: building
    /// the fuzzers takes as long as all the tests.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    fuzz_seconds: u32,
    /// Only the crates with files that differ from COMMIT, and those that depend on them; without COMMIT, from the last
    /// commit. House rules and format are checked for all.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD")]
    changed: Option<String>,
}

/// The packages that are built and tested: these, or all.
struct Choice(Option<Vec<String>>);

impl Choice {
    fn of(options: &Options) -> Result<Choice> {
        let Some(commit) = &options.changed else { return Ok(Choice(None)) };
        match changed::since(commit, &tidy::metadata()?)? {
            Reach::All(file) => {
                println!("── {file} has changed since {commit}: everything is tested");
                Ok(Choice(None))
            }
            Reach::Packages(names) => {
                let names: Vec<String> = names.into_iter().collect();
                println!("── changed since {commit}, or depending on it: {}", names.join(" "));
                Ok(Choice(Some(names)))
            }
        }
    }

    fn packages(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    fn has(&self, name: &str) -> bool {
        self.packages().is_none_or(|names| names.iter().any(|n| n == name))
    }

    /// Tells cargo.
    fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        choose(command, self.packages())
    }
}

/// The program, and the feature by which it has everything.
const PROGRAM: &str = "fusewire";
const WHOLE: &str = "fusewire/full";

/// Tells cargo of these packages, or of all.
pub fn choose<'a>(command: &'a mut Command, packages: Option<&[String]>) -> &'a mut Command {
    match packages {
        None => command.args(["--workspace", "--features", WHOLE]),
        Some(names) => {
            command.args(names.iter().flat_map(|name| ["--package", name]));
            if names.iter().any(|name| name == PROGRAM) {
                command.args(["--features", WHOLE]);
            }
            command
        }
    }
}

/// Programs, and files by their path, that tests need, and the Debian packages that have them.
const PEERS: [(&str, &str); 16] = [
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
];

/// Runs every step, stops at the first that fails.
pub fn run(options: &Options) -> Result {
    // Before a build puts another of the same contents in its place.
    let ourselves = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    install(&PEERS);
    if !is_root() {
        println!("── not root: what needs root is skipped, each test says so");
    }
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    tidy::run()?;
    let choice = Choice::of(options)?;
    if choice.packages().is_some_and(<[String]>::is_empty) {
        println!("── nothing has changed");
        return Ok(());
    }
    lints(&choice)?;
    let mut command = cargo();
    let ran = tests("tests", choice.apply(command.arg("test")).arg("--no-fail-fast"))?;
    println!("   {ran}");
    if choice.has(PROGRAM) {
        let lean = ["test", "--quiet", "--package", PROGRAM, "--bin", PROGRAM];
        tests("tests of the program without compilers and lab", cargo().args(lean))?;
    }
    if is_root() {
        user::all(&ourselves, choice.packages())?;
    }
    if choice.has("fusewire-packetdrill") {
        packetdrill::own()?;
    }
    let mut documentation = cargo();
    documentation.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links").args([
        "doc",
        "--no-deps",
        "--quiet",
    ]);
    step("documentation", choice.apply(&mut documentation))?;
    match options.fuzz_seconds {
        0 => Ok(()),
        seconds => fuzz::all(seconds),
    }
}

fn lints(choice: &Choice) -> Result {
    let mut lints = cargo();
    choice.apply(lints.arg("clippy")).arg("--all-targets");
    if has("g++") && choice.has("fusewire-fuzz") {
        lints.args(["--features", "fusewire-fuzz/libfuzzer"]);
    }
    step("lints", lints.args(["--", "-D", "warnings"]))?;
    if choice.has(PROGRAM) {
        let lean = ["clippy", "-p", PROGRAM, "--", "-D", "warnings"];
        step("lints of the program without compilers and lab", cargo().args(lean))?;
    }
    if !choice.has("fusewire-codec") {
        return Ok(());
    }
    let bare = ["clippy", "-p", "fusewire-codec", "--no-default-features", "--", "-D", "warnings"];
    step("lints of the codec without an allocator", cargo().args(bare))
}
