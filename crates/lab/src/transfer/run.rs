//! Running the plan: every method in turn, round after round; medians at the end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_files::net::ADU_LEN;
use fusewire_kernels::Level;
use fusewire_model::{Implementation, Machine, choose_transform};
use fusewire_session::Cipher;
use fusewire_stack::Congestion;
use rustix::process::{Pid, Signal, kill_process};

use super::veth::{self, Ends, Veth};
use super::worker::Report;
use super::{Carrier, Line, Manipulation, Method, Source, https};
use crate::cpu::children_cpu_seconds;
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Longest that one transfer may take before it counts as stalled.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that a TPDU adds to a record: TCP header with timestamps.
const TPDU_HEADER: usize = 32;
/// Bytes that a record adds to an ADU: header and tag.
const RECORD_OVERHEAD: usize = 32;
/// Largest UDP payload over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which methods.
    pub methods: Vec<Method>,
    /// What carries the methods of ours.
    pub carrier: Carrier,
    /// When the data pass of ours runs.
    pub manipulation: Manipulation,
    /// Congestion control of ours.
    pub congestion: Congestion,
    /// Bytes of content for each transfer; a source file's own length counts instead.
    pub bytes: u64,
    /// Sizes of an ADU in bytes, for methods that have ADUs. `None` in the list: as long as fits the datagram.
    pub adu_bytes: Vec<Option<usize>>,
    /// Sizes of a datagram in bytes, for methods that have datagrams. `None`: as long as the ADU needs.
    pub datagram_bytes: Vec<Option<usize>>,
    /// The cipher.
    pub cipher: Cipher,
    /// Where the bytes come from.
    pub source: Source,
    /// True: into a file, hashed; false: forgotten.
    pub sink_file: bool,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// Measure the packet processing time (costs a few per cent).
    pub measure: bool,
    /// What calibration found here, for [`Method::Auto`]; one loop where it has not run.
    pub machine: Option<Machine>,
    /// This program, which runs our workers.
    pub program: PathBuf,
    /// The program that runs the QUIC peers, if it is there.
    pub peers: Option<PathBuf>,
}

/// One thing to measure: a method with its sizes.
#[derive(Clone, Copy, Debug)]
struct Case {
    method: Method,
    adu: Option<usize>,
    datagram: Option<usize>,
    /// What carries it at either end, over veth; elsewhere the plan says it.
    ends: Option<Ends>,
}

/// What one transfer gave.
struct Sample {
    bytes_per_s: f64,
    cpu_s_per_gib: f64,
    send_ns: Option<f64>,
    receive_ns: Option<f64>,
}

/// Runs the plan. `progress` hears of each transfer before it begins.
///
/// # Errors
/// What failed first. Methods whose programs are missing are left out, and `progress` hears why.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let scratch = Scratch::new()?;
    let cases = cases(plan, progress);
    let file = source_file(plan, &cases, scratch.path())?;
    let wants_https = cases.iter().any(|c| c.method == Method::Https);
    let server = match (&file, wants_https) {
        (Some(file), true) => {
            let root = file.parent().unwrap_or(Path::new("/"));
            Some(https::Server::start(root, scratch.path())?)
        }
        _ => None,
    };
    let over_veth = cases.iter().any(|case| case.ends.is_some());
    let veth = over_veth.then(Veth::new).transpose()?;
    let bench = Bench { plan, dir: scratch.path(), file: file.as_deref(), server, veth };
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            progress(&format!("round {} of {}: {}", round + 1, plan.rounds, case.describe()));
            match bench.transfer(case) {
                Ok(sample) => samples.push(sample),
                // A peer that stalls is a result of the peer, not of the bench.
                Err(error) if !case.method.is_ours() => {
                    progress(&format!("{}: {error}", case.describe()))
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(cases.iter().zip(samples).filter_map(|(case, samples)| line(plan, case, samples)).collect())
}

impl Case {
    /// The method that a worker is told.
    fn worker(&self, plan: &Plan) -> Method {
        if self.method != Method::Auto {
            return self.method;
        }
        let (cipher, level) = (plan.cipher.to_string(), Level::detect().name());
        let bytes = self.adu.unwrap_or(ADU_LEN) as f64;
        let choose = |machine| choose_transform(machine, &cipher, 1, level, bytes);
        match plan.machine.as_ref().and_then(choose) {
            Some(Implementation::Blocked) => Method::Blocked,
            Some(Implementation::Sequential) => Method::Sequential,
            Some(Implementation::Integrated) | None => Method::Integrated,
        }
    }

    fn describe(&self) -> String {
        let mut text = self.method.name().to_string();
        if let Some(adu) = self.adu {
            text += &format!(", ADUs of {adu} bytes");
        }
        if let Some(datagram) = self.datagram {
            text += &format!(", datagrams of {datagram} bytes");
        }
        if let Some(Ends { sender, receiver }) = self.ends {
            text += &format!(", from {} to {}", sender.name(), receiver.name());
        }
        text
    }
}

fn cases(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Vec<Case> {
    let cases = sizes(plan, progress);
    let Carrier::Interface(_) = plan.carrier else { return cases };
    // Each with the device and with kernel UDP at its ends.
    let ends = Ends::beside_udp(plan.carrier);
    let with = |case: Case| ends.map(|ends| Case { ends: Some(ends), ..case });
    cases.into_iter().flat_map(with).collect()
}

/// Every method with every size.
fn sizes(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let over_veth = matches!(plan.carrier, Carrier::Interface(_));
    let datagram_max = if over_veth { veth::DATAGRAM_MAX } else { DATAGRAM_MAX };
    for &method in &plan.methods {
        let missing = match method {
            _ if over_veth && !method.is_ours() => Some("it knows no network interface"),
            Method::Https if !https::available() => {
                Some("nginx, curl and openssl are not all installed")
            }
            Method::QuicS2n | Method::QuicQuinn if plan.peers.is_none() => {
                Some("its peer is not built: run `cargo xtask bench`")
            }
            _ => None,
        };
        if let Some(why) = missing {
            progress(&format!("{method} is left out: {why}"));
            continue;
        }
        let adus = if method.has_adus() { &plan.adu_bytes[..] } else { &[None] };
        let shares_memory = method.is_ours() && plan.carrier == Carrier::Shm;
        let has_datagrams = method.has_datagrams() && !shares_memory;
        let datagrams = if has_datagrams { &plan.datagram_bytes[..] } else { &[None] };
        for &adu in adus {
            for &datagram in datagrams {
                let overhead = TPDU_HEADER + RECORD_OVERHEAD;
                let nothing = Case { method, adu: None, datagram: None, ends: None };
                let case = if shares_memory {
                    Case { adu: Some(adu.unwrap_or(ADU_LEN)), ..nothing }
                } else if method.is_ours() {
                    let adu = adu.unwrap_or(datagram.unwrap_or(datagram_max) - overhead);
                    let datagram = datagram.unwrap_or(adu + overhead).clamp(1200, datagram_max);
                    Case { adu: Some(adu), datagram: Some(datagram), ..nothing }
                } else if method.has_datagrams() {
                    // QUIC has no use for more than fits a 16-bit MTU with its headers.
                    Case { datagram: Some(datagram.unwrap_or(1452).min(65_000)), ..nothing }
                } else {
                    let adu = method.has_adus().then(|| adu.unwrap_or(DATAGRAM_MAX - overhead));
                    Case { adu, ..nothing }
                };
                let same = |c: &Case| {
                    (c.method, c.adu, c.datagram) == (case.method, case.adu, case.datagram)
                };
                if !cases.iter().any(same) {
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// The file to send: the plan's, or a made one for HTTPS, which knows no other source.
fn source_file(plan: &Plan, cases: &[Case], dir: &Path) -> Result<Option<PathBuf>> {
    if let Source::File(path) = &plan.source {
        return path.canonicalize().map(Some).map_err(Error::os("looking for the source"));
    }
    if !cases.iter().any(|c| c.method == Method::Https) {
        return Ok(None);
    }
    let path = dir.join("source");
    let file = fs::File::create(&path).map_err(Error::os("making a source"))?;
    let chunk: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(31) % 251) as u8).collect();
    let mut left = plan.bytes;
    while left > 0 {
        let len = left.min(chunk.len() as u64) as usize;
        std::io::Write::write_all(&mut &file, &chunk[..len])
            .map_err(Error::os("making a source"))?;
        left -= len as u64;
    }
    Ok(Some(path))
}

fn line(plan: &Plan, case: &Case, samples: Vec<Sample>) -> Option<Line> {
    let rates: Vec<f64> = samples.iter().map(|s| s.bytes_per_s).collect();
    let optional = |pick: fn(&Sample) -> Option<f64>| {
        let all: Vec<f64> = samples.iter().filter_map(pick).collect();
        (!all.is_empty()).then(|| median(all))
    };
    if rates.is_empty() {
        return None;
    }
    let from_file = matches!(plan.source, Source::File(_)) || case.method == Method::Https;
    Some(Line {
        method: case.method,
        execution: (case.method == Method::Auto).then(|| case.worker(plan)),
        receiver_device: case.ends.map(|ends| ends.receiver.name()),
        device: match case.method {
            method if method.is_ours() => case.ends.map_or(plan.carrier, |ends| ends.sender).name(),
            method if method.has_datagrams() => "udp",
            _ => "kernel-tcp",
        },
        source: if from_file { "file" } else { "memory" },
        sink: if plan.sink_file { "file" } else { "null" },
        cipher: match case.method {
            Method::KernelTcp => "none".into(),
            Method::Https | Method::QuicS2n | Method::QuicQuinn => "aes-256-gcm".into(),
            _ => plan.cipher.to_string(),
        },
        adu_bytes: case.adu,
        datagram_bytes: case.datagram,
        ahead: (case.method.is_ours() && plan.manipulation.ahead).then_some(true),
        early: (case.method.is_ours() && plan.manipulation.early).then_some(true),
        bytes_per_s_range: [
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        ],
        bytes_per_s: median(rates),
        cpu_s_per_gib: median(samples.iter().map(|s| s.cpu_s_per_gib).collect()),
        send_ns_per_packet: optional(|s| s.send_ns),
        receive_ns_per_packet: optional(|s| s.receive_ns),
    })
}

/// The middle one, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n % 2 == 1 { values[n / 2] } else { (values[n / 2 - 1] + values[n / 2]) / 2.0 }
}

struct Bench<'a> {
    plan: &'a Plan,
    dir: &'a Path,
    file: Option<&'a Path>,
    server: Option<https::Server>,
    veth: Option<Veth>,
}

impl Bench<'_> {
    fn transfer(&self, case: &Case) -> Result<Sample> {
        let sink = self.dir.join("sink");
        let sink = if self.plan.sink_file { Some(sink.as_path()) } else { None };
        let (send, receive) = match case.method {
            Method::Https => self.https(sink)?,
            _ => self.pair(case, sink)?,
        };
        self.verify(case, &send, &receive, sink)?;
        let gib = receive.bytes as f64 / f64::from(1 << 30);
        Ok(Sample {
            bytes_per_s: receive.bytes as f64 / receive.seconds,
            cpu_s_per_gib: (send.cpu_s + receive.cpu_s) / gib,
            send_ns: send.ns_per_packet,
            receive_ns: receive.ns_per_packet,
        })
    }

    /// Bytes are counted, and compared where there is a file.
    fn verify(
        &self,
        case: &Case,
        send: &Report,
        receive: &Report,
        sink: Option<&Path>,
    ) -> Result<()> {
        let wrong = |what: String| Error::Wrong { method: case.method.to_string(), what };
        let expected = match (&self.plan.source, self.file) {
            (Source::File(_), Some(file)) => {
                fs::metadata(file).map_err(Error::os("looking at the source"))?.len()
            }
            _ => self.plan.bytes,
        };
        if send.bytes != expected || receive.bytes != expected {
            return Err(wrong(format!("{} of {expected} bytes arrived", receive.bytes)));
        }
        if let (Some(sent), Some(received)) = (&send.hash, &receive.hash)
            && sent != received
        {
            return Err(wrong("the content is not what was sent".into()));
        }
        if let (Some(sink), Some(source), true) =
            (sink, self.file, matches!(self.plan.source, Source::File(_)))
            && !same(source, sink)?
        {
            return Err(wrong("the file is not what was sent".into()));
        }
        Ok(())
    }

    fn https(&self, sink: Option<&Path>) -> Result<(Report, Report)> {
        let (Some(server), Some(file)) = (&self.server, self.file) else {
            return Err(Error::Unsupported("https needs a file".into()));
        };
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or("source");
        let before = children_cpu_seconds();
        let (send, mut receive) = server.fetch(name, sink.unwrap_or(Path::new("/dev/null")))?;
        receive.cpu_s = children_cpu_seconds() - before;
        Ok((send, receive))
    }

    /// Two processes of one program.
    fn pair(&self, case: &Case, sink: Option<&Path>) -> Result<(Report, Report)> {
        let is_peer = !case.method.is_ours() && case.method.has_datagrams();
        let mut send = if is_peer { self.peer(case, "send")? } else { self.own(case, "send") };
        if let (Source::File(_), Some(file)) = (&self.plan.source, self.file) {
            send.arg("--file").arg(file);
            if sink.is_some() {
                send.arg("--hash");
            }
        }
        send.arg("--bytes").arg(self.plan.bytes.to_string());
        let mut sender = Worker::spawn(case.method, "send", send)?;
        let address = sender.address()?;
        let mut receive =
            if is_peer { self.peer(case, "receive")? } else { self.own(case, "receive") };
        receive.arg("--connect").arg(address);
        if let Some(sink) = sink {
            receive.arg("--file").arg(sink);
        }
        let mut receiver = Worker::spawn(case.method, "receive", receive)?;
        let received = receiver.report()?;
        Ok((sender.report()?, received))
    }

    fn own(&self, case: &Case, role: &str) -> Command {
        let (mut command, told) = match &self.veth {
            Some(veth) => {
                let (command, told) = veth.command(&self.plan.program, role);
                (command, told.to_vec())
            }
            None => (Command::new(&self.plan.program), Vec::new()),
        };
        let method = case.worker(self.plan).name();
        command.args(["transfer-worker", role, "--method", method]).args(told);
        let carrier = match case.ends {
            Some(ends) if role == "send" => ends.sender,
            Some(ends) => ends.receiver,
            None => self.plan.carrier,
        };
        command.args(["--device", carrier.name()]);
        command.arg("--adu-bytes").arg(case.adu.unwrap_or(ADU_LEN).to_string());
        command.arg("--datagram-bytes").arg(case.datagram.unwrap_or(DATAGRAM_MAX).to_string());
        command.arg("--cipher").arg(self.plan.cipher.to_string());
        command.arg("--identity").arg(self.dir.join("key"));
        command.arg("--congestion").arg(self.plan.congestion.name());
        let Manipulation { ahead, early } = self.plan.manipulation;
        let flags = [("--measure", self.plan.measure), ("--ahead", ahead), ("--early", early)];
        command.args(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| flag));
        command
    }

    fn peer(&self, case: &Case, role: &str) -> Result<Command> {
        let program = self
            .plan
            .peers
            .as_ref()
            .ok_or_else(|| Error::Unsupported("the peers are not built".into()))?;
        let mut command = Command::new(program);
        command.args([role, if case.method == Method::QuicS2n { "s2n" } else { "quinn" }]);
        command.arg("--datagram").arg(case.datagram.unwrap_or(1452).to_string());
        command.arg("--certificate").arg(self.dir.join("peer.pem"));
        Ok(command)
    }
}

/// A process that prints where it listens and one JSON line.
struct Worker {
    method: Method,
    role: &'static str,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn spawn(method: Method, role: &'static str, mut command: Command) -> Result<Worker> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::os("starting a worker"))?;
        let output = BufReader::new(
            child.stdout.take().ok_or_else(|| Error::Unsupported("no output".into()))?,
        );
        Ok(Worker { method, role, child, output })
    }

    fn failed(&mut self, message: &str) -> Error {
        let _ = self.child.kill();
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        let said = said.trim();
        let message = if said.is_empty() { message.to_string() } else { said.to_string() };
        Error::Worker { method: self.method.to_string(), role: self.role, message }
    }

    /// One line of output; a process that says nothing for too long is ended.
    fn line(&mut self) -> Result<String> {
        let pid = Pid::from_child(&self.child);
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let started = Instant::now();
            if waiting.recv_timeout(PATIENCE).is_err() && started.elapsed() >= PATIENCE {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let _ = done.send(());
        let _ = watchdog.join();
        match read {
            Ok(n) if n > 0 => Ok(line),
            _ => Err(self.failed("ended without a word (or stalled)")),
        }
    }

    fn address(&mut self) -> Result<String> {
        let line = self.line()?;
        match line.trim().strip_prefix("LISTEN ") {
            Some(address) => Ok(address.to_string()),
            None => Err(self.failed(&line)),
        }
    }

    fn report(&mut self) -> Result<Report> {
        let line = self.line()?;
        let report = serde_json::from_str(&line).map_err(|_| self.failed(&line))?;
        let status = self.child.wait().map_err(Error::os("waiting for a worker"))?;
        if status.success() { Ok(report) } else { Err(self.failed("failed after its report")) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn same(a: &Path, b: &Path) -> Result<bool> {
    let hash = |path: &Path| -> Result<blake3::Hash> {
        let mut file = fs::File::open(path).map_err(Error::os("reading back"))?;
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut file, &mut hasher).map_err(Error::os("reading back"))?;
        Ok(hasher.finalize())
    };
    Ok(hash(a)? == hash(b)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn sizes_follow_from_each_other() {
        let plan = plan(vec![Method::Integrated, Method::KernelTcp, Method::KernelTcpRecords]);
        let cases = cases(&plan, &mut |_| {});
        let sizes: Vec<_> = cases.iter().map(|c| (c.method, c.adu, c.datagram)).collect();
        assert_eq!(
            sizes[..4],
            [
                (Method::Integrated, Some(1024), Some(1200)),
                (Method::Integrated, Some(1024), Some(1452)),
                (Method::Integrated, Some(65_443), Some(65_507)),
                (Method::Integrated, Some(1388), Some(1452)),
            ]
        );
        assert_eq!(sizes.iter().filter(|(m, ..)| *m == Method::KernelTcp).count(), 1);
        assert_eq!(cases[0].worker(&plan), Method::Integrated);
    }

    #[test]
    fn auto_is_what_the_model_takes_and_one_loop_where_nothing_is_known() {
        let mut machine: Machine =
            serde_json::from_str(include_str!("../../../model/tests/machine.json")).unwrap();
        for transform in &mut machine.transforms {
            transform.level = Level::detect().name().to_owned();
        }
        let case = Case { method: Method::Auto, adu: Some(1408), datagram: None, ends: None };
        let mut plan = plan(vec![Method::Auto]);
        assert_eq!(case.worker(&plan), Method::Integrated);
        // In the fixture aes-256-gcm is fastest sequential.
        plan.machine = Some(machine);
        assert_eq!(case.worker(&plan), Method::Sequential);
    }

    fn plan(methods: Vec<Method>) -> Plan {
        Plan {
            methods,
            carrier: Carrier::UDP,
            manipulation: Manipulation::default(),
            congestion: Congestion::default(),
            bytes: 1,
            adu_bytes: vec![Some(1024), None],
            datagram_bytes: vec![None, Some(1452)],
            cipher: Cipher::AES_256_GCM,
            source: Source::Memory,
            sink_file: false,
            rounds: 1,
            measure: false,
            machine: None,
            program: PathBuf::new(),
            peers: None,
        }
    }
}
