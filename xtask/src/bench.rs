//! `cargo xtask bench`: the comparison with other people's transports.
//!
//! The peers (QUIC in two implementations) live in `peers/`, a workspace of its own, so that no one
//! who only wants Fusewire builds them.

use clap::Args;

use crate::shell::{Result, cargo, install, root, step};

/// What goes on to `fusewire bench transfer`.
#[derive(Args)]
pub struct Options {
    /// Arguments for `fusewire bench transfer`; or `latency` and arguments for `fusewire bench latency`; `codec` and `generate` likewise.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds product and peers, then runs the bench with the peers in it.
pub fn run(options: &Options) -> Result {
    match options.rest.split_first() {
        Some((first, rest)) if first == "codec" => return codecs(rest),
        Some((first, rest)) if first == "generate" => return generated(rest),
        _ => {}
    }
    let (bench, rest) = match options.rest.split_first() {
        Some((first, rest)) if first == "latency" => ("latency", rest),
        _ => ("transfer", &options.rest[..]),
    };
    if bench == "transfer" {
        install(&[("nginx", "nginx-light"), ("curl", "curl"), ("openssl", "openssl")]);
    }
    let peers = root().join("peers");
    step("peers", cargo().current_dir(&peers).args(["build", "--release"]))?;
    step("program", cargo().args(["build", "--release", "--features", "full"]))?;
    let mut fusewire = std::process::Command::new(root().join("target/release/fusewire"));
    fusewire.env("FUSEWIRE_PEERS", peers.join("target/release/fusewire-peers"));
    step("bench", fusewire.args(["bench", bench]).args(rest))
}

/// Builds the other codecs and the program, then runs `fusewire bench codec` with them in it.
fn codecs(rest: &[String]) -> Result {
    install(&[("asn1c", "asn1c"), ("rpcgen", "libtirpc-dev")]);
    let peers = root().join("peers/codec");
    step("peers", cargo().current_dir(&peers).args(["build", "--release"]))?;
    step("program", cargo().args(["build", "--release", "--features", "full"]))?;
    let mut fusewire = std::process::Command::new(root().join("target/release/fusewire"));
    fusewire.env("FUSEWIRE_CODEC_PEERS", peers.join("target/release/fusewire-codec-peers"));
    step("bench", fusewire.args(["bench", "codec"]).args(rest))
}

/// Builds the examples, over generated ends and over those by hand, and the program, then runs `fusewire bench generate`.
fn generated(rest: &[String]) -> Result {
    let examples = ["-p", "bulk-example", "-p", "rpc-example", "--bins", "--examples"];
    let all = ["build", "--release", "-p", "fusewire", "--features", "fusewire/full"];
    step("programs", cargo().args(all).args(examples))?;
    let mut fusewire = std::process::Command::new(root().join("target/release/fusewire"));
    step("bench", fusewire.args(["bench", "generate"]).args(rest))
}
