//! iperf3, where it is installed: the measure that others use.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use super::Direction;
use crate::namespace::{Killed, Namespace};
use crate::{Error, Result};

/// What it says of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Iperf {
    /// Bits a second that arrived.
    pub bits_per_s: f64,
    /// Processor seconds a GiB of the side that is far.
    pub cpu_s_per_gib: f64,
}

/// Who talks, where, and for how long.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    /// Where its server is.
    pub near: &'a Namespace,
    /// Where its client is.
    pub far: &'a Namespace,
    /// The server's address.
    pub at: IpAddr,
    /// Seconds, of which it takes whole ones.
    pub seconds: f64,
}

/// One TCP stream between the kernels near and far, each side on its processor; the far side sends or
/// receives. With `zero_copy` it sends a file's pages as they are (`sendfile`).
///
/// # Errors
/// It is not installed, or failed.
pub fn run(between: &Between<'_>, direction: Direction, zero_copy: bool) -> Result<Iperf> {
    let mut server = between.near.command("iperf3");
    server.args(["--server", "--one-off", "--forceflush", "--affinity", "0"]);
    server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Killed(server.spawn().map_err(Error::os("starting iperf3"))?);
    if let Some(output) = server.0.stdout.take() {
        // It says where it listens, between two rules.
        let _ = BufReader::new(output).lines().take(3).count();
    }
    let mut client = between.far.command("timeout");
    client.args(["20", "iperf3", "--json", "--affinity", "1", "--omit", "0", "--client"]);
    client.arg(between.at.to_string());
    let seconds = Duration::from_secs_f64(between.seconds).as_secs().max(1);
    client.arg("--time").arg(seconds.to_string());
    if direction == Direction::Receive {
        client.arg("--reverse");
    }
    if zero_copy {
        client.arg("--zerocopy");
    }
    let output = client.stdin(Stdio::null()).output().map_err(Error::os("starting iperf3"))?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| Error::Unsupported("iperf3 did not answer in JSON".into()))?;
    let end = &json["end"];
    let received = &end["sum_received"];
    let number = |value: &serde_json::Value| {
        value.as_f64().ok_or_else(|| Error::Unsupported(format!("iperf3: {}", json["error"])))
    };
    let percent = number(&end["cpu_utilization_percent"]["host_total"])?;
    let bytes = number(&received["bytes"])?;
    let cpu_s = percent / 100.0 * number(&received["seconds"])?;
    Ok(Iperf {
        bits_per_s: number(&received["bits_per_second"])?,
        cpu_s_per_gib: cpu_s * f64::from(1 << 30) / bytes,
    })
}
