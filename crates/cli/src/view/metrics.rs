//! `fusewire metrics`.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use clap::Args;
use fusewire_view::{http, prometheus};

use super::reports;
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result};
use crate::url::named_addr;

/// Prometheus text of running stacks: once, or for a scraper.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Metrics {
    /// Only these processes [default: all that this user may ask].
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// Serve it over HTTP at /metrics until interrupted. Whoever reaches the address may read it.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:9294", value_parser = address)]
    listen: Option<SocketAddr>,
}

/// Parses `ADDRESS[:PORT]`.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    named_addr(text, 9294)
}

/// Prints or serves them.
pub fn run(metrics: &Metrics) -> Result {
    let text = |pids: &[u32]| -> Result<String> {
        let reports: Vec<_> = reports(pids)?.into_iter().map(|(_, report)| report).collect();
        Ok(prometheus::text(&reports))
    };
    let Some(address) = metrics.listen else {
        std::io::stdout().lock().write_all(text(&metrics.pids)?.as_bytes())?;
        return Ok(());
    };
    let listener = TcpListener::bind(address)
        .map_err(|e| Failure::new(Code::Failed, format!("cannot listen on {address}: {e}")))?;
    eprintln!("metrics      http://{}/metrics", listener.local_addr()?);
    let pids = metrics.pids.clone();
    http::serve(&listener, move |path| match (path, text(&pids)) {
        ("/metrics", Ok(text)) => {
            http::Answer { status: "200 OK", media: prometheus::MEDIA, body: text.into_bytes() }
        }
        ("/metrics", Err(error)) => {
            http::Answer::text("503 Service Unavailable", &format!("{error}\n"))
        }
        _ => http::Answer::text("404 Not Found", "there is /metrics\n"),
    })?;
    Ok(())
}
