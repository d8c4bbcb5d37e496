//! `cargo xtask bench`: the comparison with other people's transports.
//!
//! The peers (QUIC in two implementations) live in `peers/`, a workspace of its own, so that no one
//! who only wants Fusewire builds them.

use clap::Args;

use crate::shell::{Result, cargo, install, root, step};

/// What goes on to `fusewire bench transfer`.
#[derive(Args)]
pub struct Options {
    /// Arguments for `fusewire bench transfer`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds product and peers, then runs the bench with the peers in it.
pub fn run(options: &Options) -> Result {
    install(&[("nginx", "nginx-light"), ("curl", "curl"), ("openssl", "openssl")]);
    let peers = root().join("peers");
    step("peers", cargo().current_dir(&peers).args(["build", "--release"]))?;
    step("program", cargo().args(["build", "--release"]))?;
    let mut fusewire = std::process::Command::new(root().join("target/release/fusewire"));
    fusewire.env("FUSEWIRE_PEERS", peers.join("target/release/fusewire-peers"));
    step("bench", fusewire.args(["bench", "transfer"]).args(&options.rest))
}
