//! Running the plan: every method in turn, round after round; medians at the end.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fusewire_files::net::ADU_LEN;
use fusewire_kernels::Level;
use fusewire_model::{Implementation, Machine, choose_transform};
use fusewire_session::Cipher;
use fusewire_stack::Congestion;

use super::veth::{self, Ends, Veth};
use super::worker::{FileCost, Report, Role, Task};
use super::{Carrier, Impairment, Line, Manipulation, Method, Sink, Source, Transport, https};
use crate::cpu::children_cpu_seconds;
use crate::made::{hash_file, make_file};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::stats::{median, range};
use crate::worker;
use crate::{Error, Result};

/// Bytes that a TPDU adds to a record: TCP header with timestamps.
const TPDU_HEADER: usize = 32;
/// Bytes that a record adds to an ADU: header and tag.
const RECORD_OVERHEAD: usize = 32;
/// Largest UDP payload over IPv4.
pub(super) const DATAGRAM_MAX: usize = 65_507;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which methods.
    pub methods: Vec<Method>,
    /// What carries the methods of ours.
    pub carrier: Carrier,
    /// When the data pass of ours runs.
    pub manipulation: Manipulation,
    /// The transports of ours, a row each.
    pub transports: Vec<Transport>,
    /// What lies between both ends of ours.
    pub path: Impairment,
    /// Congestion control of ours.
    pub congestion: Congestion,
    /// Bytes of content for each transfer; a source file's own length counts instead.
    pub bytes: u64,
    /// Sizes of an ADU in bytes, for methods that have ADUs. `None` in the list: as long as fits the datagram.
    pub adu_bytes: Vec<Option<usize>>,
    /// Sizes of a datagram in bytes, for methods that have datagrams. `None`, for ours: as long as the path carries, or
    /// with `measure` as the ADU needs; for QUIC: what Ethernet carries.
    pub datagram_bytes: Vec<Option<usize>>,
    /// The cipher.
    pub cipher: Cipher,
    /// Where the bytes come from.
    pub source: Source,
    /// True: into a file, hashed; false: forgotten.
    pub sink_file: bool,
    /// Rounds; the result is the median.
    pub rounds: usize,
    /// Measure the packet processing time (costs a few per cent), each ADU of ours in a packet of its own.
    pub measure: bool,
    /// What calibration found here, for [`Method::Auto`]; one loop where it has not run.
    pub machine: Option<Machine>,
    /// This program, which runs our workers.
    pub program: PathBuf,
    /// The program that runs the QUIC peers, if it is there.
    pub peers: Option<PathBuf>,
}

/// One thing to measure: a method with its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    method: Method,
    /// Of ours.
    transport: Option<Transport>,
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
    /// Of the sender, its second ones, and of the receiver, for a GiB.
    packets: Option<[f64; 3]>,
    /// Of both sides, for a GiB.
    file: Option<FileCost>,
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
    let bench = Bench {
        plan,
        dir: scratch.path(),
        file: file.as_deref(),
        server,
        veth,
        hash: OnceCell::new(),
    };
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
        if let Some(transport) = self.transport {
            text += &format!(" over {transport}");
        }
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
    let ends = match plan.carrier {
        // Each with the device and with kernel UDP at its ends.
        Carrier::Interface(_) => Ends::beside_udp(plan.carrier).to_vec(),
        Carrier::Veth => vec![Ends::UDP],
        Carrier::Socket(_) | Carrier::Shm => return cases,
    };
    let with = |case: Case| ends.iter().map(move |ends| Case { ends: Some(*ends), ..case });
    cases.into_iter().flat_map(with).collect()
}

/// Every method with every size.
fn sizes(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let over_veth = plan.carrier.is_over_veth();
    let datagram_max = if over_veth { veth::DATAGRAM_MAX } else { DATAGRAM_MAX };
    for &method in &plan.methods {
        let missing = match method {
            _ if method.is_ours() => None,
            _ if method.is_kernel_tcp() && plan.carrier == Carrier::Veth => None,
            _ if over_veth => Some("it knows no network interface"),
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
        let adus = if method.has_records() { &plan.adu_bytes[..] } else { &[None] };
        let shares_memory = method.is_ours() && plan.carrier == Carrier::Shm;
        let has_datagrams = method.has_datagrams() && !shares_memory;
        let datagrams = if has_datagrams { &plan.datagram_bytes[..] } else { &[None] };
        for &adu in adus {
            for &datagram in datagrams {
                let overhead = TPDU_HEADER + RECORD_OVERHEAD;
                let padding = plan.manipulation.record_padding.unwrap_or(1);
                let nothing =
                    Case { method, transport: None, adu: None, datagram: None, ends: None };
                let case = if shares_memory {
                    Case { adu: Some(adu.unwrap_or(ADU_LEN)), ..nothing }
                } else if method.is_ours() {
                    let room = datagram.unwrap_or(datagram_max) - overhead;
                    let adu = adu.unwrap_or(room / padding * padding);
                    let needed = adu.next_multiple_of(padding) + overhead;
                    let auto = if plan.measure { needed } else { datagram_max };
                    let datagram = datagram.unwrap_or(auto).clamp(1200, datagram_max);
                    Case { adu: Some(adu), datagram: Some(datagram), ..nothing }
                } else if method.has_datagrams() {
                    // QUIC has no use for more than fits a 16-bit MTU with its headers.
                    Case { datagram: Some(datagram.unwrap_or(1452).min(65_000)), ..nothing }
                } else {
                    let adu = method.has_records().then(|| adu.unwrap_or(DATAGRAM_MAX - overhead));
                    Case { adu, ..nothing }
                };
                let transports = if method.is_ours() && !shares_memory {
                    plan.transports.iter().copied().map(Some).collect()
                } else {
                    vec![None]
                };
                for transport in transports {
                    let case = Case { transport, ..case };
                    if !cases.contains(&case) {
                        cases.push(case);
                    }
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
    make_file(&path, plan.bytes)?;
    Ok(Some(path))
}

fn line(plan: &Plan, case: &Case, samples: Vec<Sample>) -> Option<Line> {
    let rates = || samples.iter().map(|s| s.bytes_per_s);
    let packets = |which: usize| {
        median(samples.iter().filter_map(|s| s.packets.map(|packets| packets[which])))
    };
    let of_file =
        |part: fn(FileCost) -> f64| median(samples.iter().filter_map(|s| s.file.map(part)));
    let from_file = matches!(plan.source, Source::File(_)) || case.method == Method::Https;
    Some(Line {
        method: case.method,
        execution: (case.method == Method::Auto).then(|| case.worker(plan)),
        receiver_device: case
            .ends
            .filter(|_| case.method.is_ours())
            .map(|ends| ends.receiver.name()),
        transport: case.transport.map(|transport| transport.to_string()),
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
        swap: (case.method.has_records() && plan.manipulation.swap).then_some(true),
        record_padding: plan.manipulation.record_padding.filter(|_| case.method.has_records()),
        bytes_per_s_range: range(rates())?,
        bytes_per_s: median(rates())?,
        cpu_s_per_gib: median(samples.iter().map(|s| s.cpu_s_per_gib))?,
        file_cpu_s_per_gib: of_file(|file| file.io_s),
        hash_cpu_s_per_gib: of_file(|file| file.hash_s),
        send_ns_per_packet: median(samples.iter().filter_map(|s| s.send_ns)),
        receive_ns_per_packet: median(samples.iter().filter_map(|s| s.receive_ns)),
        packets_per_gib: packets(0),
        again_per_gib: packets(1),
        answers_per_gib: packets(2),
    })
}

struct Bench<'a> {
    plan: &'a Plan,
    dir: &'a Path,
    file: Option<&'a Path>,
    server: Option<https::Server>,
    veth: Option<Veth>,
    /// Of the source, once it was asked for.
    hash: OnceCell<blake3::Hash>,
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
            packets: send.packets.zip(receive.packets).map(|([all, again], [answers, _])| {
                [all, again, answers].map(|count| count as f64 / gib)
            }),
            file: send.file.zip(receive.file).map(|(read, written)| FileCost {
                io_s: (read.io_s + written.io_s) / gib,
                hash_s: (read.hash_s + written.hash_s) / gib,
            }),
        })
    }

    /// Of content.
    fn bytes(&self) -> Result<u64> {
        match (&self.plan.source, self.file) {
            (Source::File(_), Some(file)) => {
                Ok(fs::metadata(file).map_err(Error::os("looking at the source"))?.len())
            }
            _ => Ok(self.plan.bytes),
        }
    }

    fn source_hash(&self, source: &Path) -> Result<blake3::Hash> {
        match self.hash.get() {
            Some(hash) => Ok(*hash),
            None => hash_file(source).map(|hash| *self.hash.get_or_init(|| hash)),
        }
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
        let expected = self.bytes()?;
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
            && self.source_hash(source)? != hash_file(sink)?
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
        let source = match (&self.plan.source, self.file) {
            (Source::File(_), Some(file)) => Source::File(file.into()),
            _ => Source::Memory,
        };
        let hash = sink.is_some();
        let mut sender = self.start(case, Role::Send(source), hash)?;
        let connect = sender.address()?;
        let sink = sink.map_or(Sink::Null, |sink| Sink::File(sink.into()));
        let mut receiver = self.start(case, Role::Receive { connect, sink }, hash)?;
        let received = receiver.last_report()?;
        Ok((sender.last_report()?, received))
    }

    fn start(&self, case: &Case, role: Role, hash: bool) -> Result<Process> {
        let (method, name) = (case.method.name(), role.name());
        let is_peer = !case.method.is_ours() && case.method.has_datagrams();
        let command =
            if is_peer { self.peer(case, &role, hash)? } else { self.own(case, role, hash)? };
        Process::spawn(method, name, command)
    }

    fn own(&self, case: &Case, role: Role, hash: bool) -> Result<Command> {
        let (plan, ends) = (self.plan, case.ends);
        let own_end = ends.map(|ends| match role {
            Role::Send(_) => ends.sender,
            Role::Receive { .. } => ends.receiver,
        });
        let (mut command, at) = match &self.veth {
            Some(veth) => veth.command(&plan.program, &role),
            None => (Command::new(&plan.program), None),
        };
        let (interface, bind) = at.unzip();
        let task = Task {
            method: case.worker(plan),
            carrier: own_end.unwrap_or(plan.carrier),
            interface,
            bind,
            manipulation: plan.manipulation,
            transport: case.transport.unwrap_or_default(),
            path: plan.path,
            congestion: plan.congestion,
            role,
            bytes: self.bytes()?,
            adu_bytes: case.adu.unwrap_or(ADU_LEN),
            datagram_bytes: case.datagram.unwrap_or(DATAGRAM_MAX),
            cipher: plan.cipher,
            identity: self.dir.join("key"),
            measure: plan.measure,
            hash,
        };
        worker::Task::Transfer(task).pass_to(&mut command)?;
        Ok(command)
    }

    fn peer(&self, case: &Case, role: &Role, hash: bool) -> Result<Command> {
        let program = self.plan.peers.as_ref();
        let program =
            program.ok_or_else(|| Error::Unsupported("the peers are not built".into()))?;
        let mut command = Command::new(program);
        let peer = if case.method == Method::QuicS2n { "s2n" } else { "quinn" };
        command.args([role.name(), peer]);
        command.arg("--datagram").arg(case.datagram.unwrap_or(1452).to_string());
        command.arg("--certificate").arg(self.dir.join("peer.pem"));
        let file = match role {
            Role::Send(source) => {
                command.arg("--bytes").arg(self.plan.bytes.to_string());
                let from_file = matches!(source, Source::File(_));
                command.args((hash && from_file).then_some("--hash"));
                match source {
                    Source::File(path) => Some(path),
                    Source::Memory => None,
                }
            }
            Role::Receive { connect, sink } => {
                command.arg("--connect").arg(connect.to_string());
                match sink {
                    Sink::File(path) => Some(path),
                    Sink::Null => None,
                }
            }
        };
        if let Some(file) = file {
            command.arg("--file").arg(file);
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_each_other() {
        let plan = plan(vec![Method::Integrated, Method::KernelTcp, Method::KernelTcpRecords]);
        let cases = cases(&plan, &mut |_| {});
        let sizes: Vec<_> = cases.iter().map(|c| (c.method, c.adu, c.datagram)).collect();
        assert_eq!(
            sizes[..4],
            [
                (Method::Integrated, Some(1024), Some(65_507)),
                (Method::Integrated, Some(1024), Some(1452)),
                (Method::Integrated, Some(65_443), Some(65_507)),
                (Method::Integrated, Some(1388), Some(1452)),
            ]
        );
        assert_eq!(sizes.iter().filter(|(m, ..)| *m == Method::KernelTcp).count(), 1);
        assert_eq!(cases[0].worker(&plan), Method::Integrated);
    }

    #[test]
    fn ours_has_a_row_for_each_transport() {
        use fusewire_session::Check;
        use fusewire_stack::transport::{Protocol, Retransmission};
        let each = |protocols: &[_], checks: &[_]| {
            Transport::each(protocols, &Retransmission::ALL, checks)
        };
        let all = each(&Protocol::ALL, &[Check::Internet]).unwrap();
        let [tcp, selective, back] = all.try_into().unwrap();
        let names = |all: Vec<Transport>| all.iter().map(Transport::to_string).collect::<Vec<_>>();
        let all = names(each(&[Protocol::Tcp, Protocol::Xtp], &Check::ALL).unwrap());
        assert_eq!(all[..4], ["tcp", "xtp", "xtp cxor", "xtp no check"]);
        assert_eq!(all[4..], ["xtp go-back-n", "xtp go-back-n cxor", "xtp go-back-n no check"]);
        assert!(each(&[Protocol::Xtp, Protocol::Tcp], &[Check::Cxor]).is_err());
        assert!(each(&[Protocol::Tcp], &[Check::Internet]).is_err(), "go-back-N is XTP's");
        let [cxor] = each(&[Protocol::Xtp], &[Check::Cxor]).unwrap()[..1] else { panic!() };
        assert!(cxor.fits(Cipher::NONE).is_ok() && tcp.fits(Cipher::AES_256_GCM).is_ok());
        assert!(cxor.fits(Cipher::AES_256_GCM).is_err());
        let mut plan = plan(vec![Method::Integrated, Method::KernelTcpRecords]);
        plan.transports = vec![tcp, selective, back];
        plan.adu_bytes = vec![Some(1024)];
        plan.datagram_bytes = vec![None];
        let cases = cases(&plan, &mut |_| {});
        let transports: Vec<_> = cases.iter().map(|c| c.transport).collect();
        assert_eq!(transports, [Some(tcp), Some(selective), Some(back), None]);
        assert_eq!([tcp, back].map(|t| t.to_string()), ["tcp", "xtp go-back-n"]);
    }

    #[test]
    fn auto_is_what_the_model_takes_and_one_loop_where_nothing_is_known() {
        let mut machine: Machine =
            serde_json::from_str(include_str!("../../../model/tests/machine.json")).unwrap();
        for transform in &mut machine.transforms {
            transform.level = Level::detect().name().to_owned();
        }
        let case = Case {
            method: Method::Auto,
            transport: None,
            adu: Some(1408),
            datagram: None,
            ends: None,
        };
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
            transports: vec![Transport::default()],
            path: Impairment::default(),
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
