//! `cargo xtask test`: everything that must hold before a change lands.

use clap::Args;

use crate::shell::{Result, cargo, has, install, is_root, step, tests};
use crate::{fuzz, packetdrill, tidy, user};

/// How much of it.
#[derive(Args)]
pub struct Options {
    /// How long each fuzz target runs after the tests, which run the kept inputs in any case; 0 for not at all: building
    /// the fuzzers takes as long as all the tests.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    fuzz_seconds: u32,
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
    let mut lints = cargo();
    lints.args(["clippy", "--workspace", "--all-targets"]);
    if has("g++") {
        lints.args(["--features", "fusewire-fuzz/libfuzzer"]);
    }
    step("lints", lints.args(["--", "-D", "warnings"]))?;
    let bare = ["clippy", "-p", "fusewire-codec", "--no-default-features", "--", "-D", "warnings"];
    step("lints of the codec without an allocator", cargo().args(bare))?;
    let ran = tests("tests", cargo().args(["test", "--workspace", "--no-fail-fast"]))?;
    println!("   {ran}");
    if is_root() {
        user::all(&ourselves)?;
    }
    packetdrill::own()?;
    step(
        "documentation",
        cargo().env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links").args([
            "doc",
            "--workspace",
            "--no-deps",
            "--quiet",
        ]),
    )?;
    match options.fuzz_seconds {
        0 => Ok(()),
        seconds => fuzz::all(seconds),
    }
}
