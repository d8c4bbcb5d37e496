//! Which programs, how each is started, and what puts load on it.

use std::net::SocketAddr;
use std::path::Path;

use crate::named::named;

/// Bytes of the file that is asked for again and again.
const SMALL_BYTES: usize = 1024;
/// And of the large one.
const LARGE_BYTES: usize = 16 << 20;

/// Requests that a load of a number of them has for each second that it is to last: about what a processor does.
const REDIS_PER_S: f64 = 60_000.0;
const PIPELINED_PER_S: f64 = 600_000.0;
/// Of each of its connections.
const MEMCACHED_PER_S: f64 = 2_500.0;
const MEMCACHED_CONNECTIONS: usize = 20;

named! {
    /// What is asked for.
    Load {
        /// redis-benchmark, 50 connections: SET.
        RedisSet = "redis-set",
        /// GET.
        RedisGet = "redis-get",
        /// 16 SETs at a time of each connection.
        RedisSetPipelined = "redis-set-pipelined",
        /// GETs likewise.
        RedisGetPipelined = "redis-get-pipelined",
        /// wrk, 50 connections that are kept alive, a file of 1 KiB.
        NginxSmall = "nginx-small",
        /// Four connections, a file of 16 MiB.
        NginxLarge = "nginx-large",
        /// memcslap, 20 connections: get.
        Memcached = "memcached",
        /// iperf3, one stream to the server.
        IperfReceive = "iperf3-receive",
        /// And one from it.
        IperfSend = "iperf3-send",
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Redis,
    Nginx,
    Memcached,
    Iperf3,
}

impl Program {
    pub const ALL: [Program; 4] =
        [Program::Redis, Program::Nginx, Program::Memcached, Program::Iperf3];

    /// Programs without which there is nothing to measure.
    pub fn needs(self) -> [&'static str; 2] {
        match self {
            Program::Redis => ["redis-server", "redis-benchmark"],
            Program::Nginx => ["nginx", "wrk"],
            Program::Memcached => ["memcached", "memcslap"],
            Program::Iperf3 => ["iperf3", "iperf3"],
        }
    }

    pub fn port(self) -> u16 {
        match self {
            Program::Redis => 6379,
            Program::Nginx => 8080,
            Program::Memcached => 11_211,
            Program::Iperf3 => 5201,
        }
    }

    /// Files that it takes, by name.
    pub fn files(self) -> Vec<(&'static str, Vec<u8>)> {
        match self {
            Program::Nginx => vec![
                ("nginx.conf", configuration(self.port()).into_bytes()),
                ("small", vec![b's'; SMALL_BYTES]),
                ("large", vec![b'l'; LARGE_BYTES]),
            ],
            _ => Vec::new(),
        }
    }

    /// Its command, with a folder of its own.
    pub fn command(self, folder: &Path) -> Vec<String> {
        let folder = folder.to_string_lossy();
        let line = match self {
            Program::Redis => {
                format!(
                    "redis-server --protected-mode no --bind 0.0.0.0 --save  --dir {folder} --loglevel warning"
                )
            }
            Program::Nginx => format!("nginx -p {folder} -c nginx.conf -e error.log"),
            Program::Memcached => "memcached -u root -t 1 -U 0".into(),
            Program::Iperf3 => "iperf3 --server".into(),
        };
        // An empty word is one, too.
        line.split(' ').map(str::to_owned).collect()
    }

    /// A request, and what its answer ends with, by which it is known to serve what it should.
    pub fn question(self) -> Option<(&'static str, String)> {
        match self {
            Program::Redis => {
                Some(("SET question 42\r\nGET question\r\n", "+OK\r\n$2\r\n42\r\n".into()))
            }
            Program::Nginx => {
                let small = "s".repeat(SMALL_BYTES);
                Some(("GET /small HTTP/1.0\r\n\r\n", format!("\r\n\r\n{small}")))
            }
            Program::Memcached => Some((
                "set question 0 0 2\r\n42\r\nget question\r\n",
                "STORED\r\nVALUE question 0 2\r\n42\r\nEND\r\n".into(),
            )),
            // What it received it says itself.
            Program::Iperf3 => None,
        }
    }
}

/// One process, which ends when it is killed.
fn configuration(port: u16) -> String {
    format!(
        "master_process off; daemon off; pid nginx.pid; error_log error.log;\n\
         events {{ worker_connections 1000; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; root .;\n\
         server {{ listen {port}; }} }}\n"
    )
}

impl Load {
    /// What it asks.
    pub(super) fn program(self) -> Program {
        match self {
            Load::RedisSet | Load::RedisGet | Load::RedisSetPipelined | Load::RedisGetPipelined => {
                Program::Redis
            }
            Load::NginxSmall | Load::NginxLarge => Program::Nginx,
            Load::Memcached => Program::Memcached,
            Load::IperfReceive | Load::IperfSend => Program::Iperf3,
        }
    }

    /// What is counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Load::NginxLarge | Load::IperfReceive | Load::IperfSend => "bytes",
            _ => "requests",
        }
    }

    /// Its command, for about so many seconds.
    pub(super) fn command(self, at: SocketAddr, seconds: f64) -> Vec<String> {
        let (ip, port) = (at.ip(), at.port());
        let redis = |test: &str, per_s: f64, more: &str| {
            let count = (per_s * seconds).ceil().max(1000.0);
            format!("redis-benchmark -h {ip} -p {port} --csv -t {test} -c 50 -n {count}{more}")
        };
        // Those that know whole ones alone.
        let whole = seconds.ceil().max(1.0);
        let line = match self {
            Load::RedisSet => redis("set", REDIS_PER_S, ""),
            Load::RedisGet => redis("get", REDIS_PER_S, ""),
            Load::RedisSetPipelined => redis("set", PIPELINED_PER_S, " -P 16"),
            Load::RedisGetPipelined => redis("get", PIPELINED_PER_S, " -P 16"),
            Load::NginxSmall => format!("wrk -t 1 -c 50 -d {whole} http://{at}/small"),
            Load::NginxLarge => format!("wrk -t 1 -c 4 -d {whole} http://{at}/large"),
            Load::Memcached => format!(
                "memcslap --servers={at} --test=get --concurrency={MEMCACHED_CONNECTIONS} --execute-number={}",
                memcached_requests(seconds)
            ),
            Load::IperfReceive => format!("iperf3 --json --time {whole} --client {ip}"),
            Load::IperfSend => format!("iperf3 --json --time {whole} --reverse --client {ip}"),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    /// What it says of a run, a second; `None`, if it does not or something went wrong.
    pub(super) fn rate(self, said: &str) -> Option<f64> {
        let after = |word: &str| said.split(word).nth(1);
        let number = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
        let is_right = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let rate = match self.program() {
            // "SET","65789.47","0.400",…
            Program::Redis => {
                let is_set = matches!(self, Load::RedisSet | Load::RedisSetPipelined);
                let test = if is_set { "\"SET\",\"" } else { "\"GET\",\"" };
                after(test)?.split('"').next()?.parse().ok()
            }
            Program::Nginx if said.contains("Socket errors") || said.contains("Non-2xx") => None,
            Program::Nginx if self == Load::NginxSmall => number(after("Requests/sec:")?),
            Program::Nginx => size(after("Transfer/sec:")?.split_whitespace().next()?),
            Program::Memcached => {
                // Time to get            5000 keys by   20 threads:     0.440 seconds.
                let got = after("Time to get")?;
                Some(number(got)? / number(got.split("threads:").nth(1)?)?)
            }
            Program::Iperf3 => {
                let json: serde_json::Value = serde_json::from_str(said).ok()?;
                Some(json["end"]["sum_received"]["bits_per_second"].as_f64()? / 8.0)
            }
        };
        rate.filter(is_right)
    }
}

/// Of each connection.
fn memcached_requests(seconds: f64) -> usize {
    (MEMCACHED_PER_S * seconds).ceil().max(50.0) as usize
}

/// Bytes, as wrk says them: `1.25GB`, of powers of 1024.
fn size(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "B" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * f64::from(1u32 << factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_load_programs_say_is_read() {
        let redis = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"65789.47\",\"0.4\"\n";
        assert_eq!(Load::RedisSetPipelined.rate(redis), Some(65_789.47));
        assert_eq!(Load::RedisGet.rate(redis), None);
        let wrk = "  4 requests in 1.00s, 20.02MB read\nRequests/sec:     39.51\nTransfer/sec:   1.50GB\n";
        assert_eq!(Load::NginxSmall.rate(wrk), Some(39.51));
        assert_eq!(Load::NginxLarge.rate(wrk), Some(1.5 * f64::from(1 << 30)));
        let failed = format!("{wrk}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert_eq!(Load::NginxSmall.rate(&failed), None);
        let slap = "Time to set  250 keys:  0.1 seconds.\n\
                    Time to get    50000 keys by   20 threads:  0.500 seconds.\n";
        assert_eq!(Load::Memcached.rate(slap), Some(100_000.0));
        let iperf = "{\"end\":{\"sum_received\":{\"bits_per_second\":8e9}}}";
        assert_eq!(Load::IperfSend.rate(iperf), Some(1e9));
        assert_eq!(Load::IperfSend.rate("{\"error\":\"no route\"}"), None);
    }
}
