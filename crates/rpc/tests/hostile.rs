//! Peers that mean harm: what they send is refused within bounds, and what others are owed still comes.

mod support;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fusewire_codec::xdr::{Encoder, from_bytes, to_vec};
use fusewire_codec::{Limits, Problem};
use fusewire_rpc::{
    Arrival, AuthStat, Client, Config, Error, ListenConfig, Patient, RecordConfig, Records, Server,
    Transport, Turn, serve_streams,
};
use support::kinds::kinds_prog::{PROGRAM, kinds_second};
use support::kinds::*;
use support::{everything, services};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// A stream of these bytes, `piece` at a time.
struct Bytes(VecDeque<u8>, usize);

impl Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(self.1);
        self.0.read(&mut out[..len])
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn records(bytes: &[u8], piece: usize, config: RecordConfig) -> Records<Patient<Bytes>> {
    Records::with(Patient(Bytes(bytes.iter().copied().collect(), piece)), config)
}

const LAST: u32 = 1 << 31;

#[test]
fn records_come_whole_from_any_pieces_and_not_beyond_their_bounds() {
    let mut message = Vec::new();
    let bytes =
        [words(&[3]), b"abc".to_vec(), words(&[0]), words(&[LAST | 2]), b"de".to_vec()].concat();
    for piece in 1..8 {
        let mut reader = records(&bytes, piece, RecordConfig::default());
        assert_eq!(reader.receive(&mut message, None).unwrap(), Arrival::Message);
        assert_eq!(message, b"abcde");
        assert_eq!(reader.receive(&mut message, None).unwrap(), Arrival::End);
    }
    for len in 1..bytes.len() {
        let error = records(&bytes[..len], 5, RecordConfig::default()).receive(&mut message, None);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "cut at {len}");
    }
    let config =
        RecordConfig { message_len_max: 1000, fragments_max: 10, ..RecordConfig::default() };
    let refused =
        |bytes: &[u8]| records(bytes, 4096, config).receive(&mut Vec::new(), None).unwrap_err();
    assert_eq!(refused(&words(&[LAST | 1001])).kind(), io::ErrorKind::InvalidData);
    assert_eq!(refused(&words(&[u32::MAX])).kind(), io::ErrorKind::InvalidData);
    let two = [words(&[600]), vec![0; 600], words(&[401])].concat();
    assert_eq!(refused(&two).kind(), io::ErrorKind::InvalidData);
    assert_eq!(refused(&[0; 44]).to_string(), "a record of more than 10 fragments");
}

#[test]
fn what_a_server_answers_to_what_is_wrong() {
    let services = services();
    let answer = |call: &[u8]| {
        let mut reply = Vec::new();
        services.handle(call, None, &mut reply).map(|()| reply)
    };
    let call = |rest: &[u32]| words(&[&[5, 0], rest].concat());
    let good = call(&[2, PROGRAM, 1, 1, 0, 0, 0, 0, 40, 2]);
    assert_eq!(answer(&good).unwrap(), words(&[5, 1, 0, 0, 0, 0, 42]));
    for len in 0..40 {
        assert!(answer(&good[..len]).is_err(), "a header cut at {len} is answered");
    }
    // Arguments cut off, and too many of them.
    assert_eq!(answer(&good[..44]).unwrap(), words(&[5, 1, 0, 0, 0, 4]));
    assert_eq!(answer(&[&good[..], &[0; 4]].concat()).unwrap(), words(&[5, 1, 0, 0, 0, 4]));
    let status = |rest: &[u32]| answer(&call(rest)).unwrap()[8..].to_vec();
    assert_eq!(status(&[3]), words(&[1, 0, 2, 2]));
    assert_eq!(status(&[2, PROGRAM, 2, 0, 0, 0, 0, 0]), words(&[0, 0, 0, 2, 1, 3]));
    assert_eq!(status(&[2, PROGRAM + 1, 1, 0, 0, 0, 0, 0]), words(&[0, 0, 0, 1]));
    assert_eq!(status(&[2, PROGRAM, 1, 2, 0, 0, 0, 0]), words(&[0, 0, 0, 3]));
    // AUTH_SYS that is none; a flavour that nobody here reads, which does not matter to procedure 0.
    assert_eq!(status(&[2, PROGRAM, 1, 1, 1, 4, 7, 0, 0]), words(&[1, 1, 1]));
    assert_eq!(status(&[2, PROGRAM, 1, 1, 6, 0, 0, 0]), words(&[1, 1, 2]));
    assert_eq!(status(&[2, PROGRAM, 1, 0, 6, 0, 0, 0]), words(&[0, 0, 0, 0]));
    // Seventeen groups.
    let groups = [&[2, PROGRAM, 1, 1, 1, 4 * 22, 0, 0, 0, 0, 17][..], &[0; 17], &[0, 0]].concat();
    assert_eq!(status(&groups), words(&[1, 1, 1]));
    assert!(answer(&words(&[5, 1, 0, 0, 0, 0])).is_err(), "a reply is no call");
}

#[test]
fn who_may_call_is_asked_but_for_procedure_0() {
    let services = services().authorized_by(|call| match call.credential {
        fusewire_rpc::Credential::Sys(sys) if sys.uid == 7 => Ok(()),
        _ => Err(AuthStat::TooWeak),
    });
    let answer = |rest: &[u32]| {
        let mut reply = Vec::new();
        services.handle(&words(rest), None, &mut reply).unwrap();
        reply[8..].to_vec()
    };
    assert_eq!(answer(&[5, 0, 2, PROGRAM, 3, 3, 0, 0, 0, 0]), words(&[1, 1, 5]));
    assert_eq!(answer(&[5, 0, 2, PROGRAM, 3, 0, 0, 0, 0, 0]), words(&[0, 0, 0, 0]));
    let sys = [5, 0, 2, PROGRAM, 3, 3, 1, 20, 1, 0, 7, 7, 0, 0, 0];
    assert_eq!(answer(&sys), words(&[0, 0, 0, 0, 7]));
}

/// What a server takes may be less than its interface allows.
#[test]
fn a_server_may_take_less() {
    let services = services().limited_to(Limits { count: 4, ..Limits::default() });
    let status = |entries: usize| {
        let list = [&[1, 0, 0].repeat(entries)[..], &[0]].concat();
        let call = [&[5, 0, 2, PROGRAM, 3, 4, 0, 0, 0, 0][..], &list].concat();
        let mut reply = Vec::new();
        services.handle(&words(&call), None, &mut reply).unwrap();
        reply[20..24].to_vec()
    };
    assert_eq!(status(3), words(&[0]));
    assert_eq!(status(5), words(&[4]), "garbage");
}

#[test]
fn values_that_hold_themselves_and_counts_that_lie_are_bounded() {
    let tree = |depth: u32| {
        let mut bytes = Encoder::new(Vec::new());
        for n in 0..depth {
            [n, 1].into_iter().for_each(|word| bytes.uint(word).unwrap());
        }
        let mut bytes = bytes.into_inner();
        bytes.extend(words(&[0, 0, 0]));
        bytes.extend(words(&vec![0; depth as usize]));
        bytes
    };
    assert!(from_bytes::<Tree>(&tree(20)).is_ok());
    let error = from_bytes::<Tree>(&tree(1_000_000)).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooDeep { bound: 32 });
    // A list of a million elements takes no depth, and ends at the bound on the count.
    let list = words(&[1, 0, 0].repeat(1_000_000));
    let mut from = fusewire_codec::xdr::Decoder::new(
        fusewire_codec::SliceSource::new(&list),
        Limits { count: 1000, ..Limits::default() },
    );
    let error = from.list_of(<Entry as fusewire_codec::xdr::Decode>::decode).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooMany { bound: 1000 });
    let bytes = to_vec(&everything()).unwrap();
    assert_eq!(from_bytes::<Everything>(&bytes).unwrap(), everything());
    for len in 0..bytes.len() {
        assert!(from_bytes::<Everything>(&bytes[..len]).is_err(), "cut at {len}");
    }
    // Any word made enormous, or another number: an answer, and no memory for what is not there.
    for at in (0..bytes.len() / 4).map(|n| 4 * n) {
        for word in [u32::MAX, 0x7fff_ffff, 3] {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            let _ = from_bytes::<Everything>(&bytes);
        }
    }
}

#[test]
fn a_default_arm_does_not_stand_for_another() {
    let error = to_vec(&Outcome::Default(0, 5)).unwrap_err();
    assert!(matches!(error.problem(), Problem::Discriminant { found: 0, type_name: "outcome" }));
    assert!(to_vec(&Outcome::Default(1, 5)).is_ok());
}

/// Both ends of a network that loses, doubles, forges and mixes up messages as told.
struct Lossy {
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    arriving: VecDeque<Vec<u8>>,
    answer: fn(usize, &[u8]) -> Vec<Vec<u8>>,
}

impl Transport for Lossy {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut sent = self.sent.lock().unwrap();
        sent.push(message.to_vec());
        self.arriving.extend((self.answer)(sent.len(), message));
        Ok(())
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        match self.arriving.pop_front() {
            Some(next) => {
                *message = next;
                Ok(Arrival::Message)
            }
            None => {
                std::thread::sleep(patience.unwrap());
                Ok(Arrival::Nothing)
            }
        }
    }

    fn is_reliable(&self) -> bool {
        false
    }

    fn message_len_max(&self) -> usize {
        1000
    }
}

fn lossy(answer: fn(usize, &[u8]) -> Vec<Vec<u8>>) -> (Lossy, Arc<Mutex<Vec<Vec<u8>>>>) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    (Lossy { sent: sent.clone(), arriving: VecDeque::new(), answer }, sent)
}

fn config() -> Config {
    let retransmit = Duration::from_millis(20);
    Config { timeout: Duration::from_millis(400), retransmit, ..Config::default() }
}

#[test]
fn forged_transactions_are_strays() {
    let (transport, _) = lossy(|_, call| {
        let reply = |xid: u32, value| words(&[xid, 1, 0, 0, 0, 0, value]);
        let xid = u32::from_be_bytes(*call.first_chunk().unwrap());
        // Guesses, the call itself, a reply of three bytes; then the reply; then it again with another value.
        let mut all: Vec<_> = (1..=1000).map(|n| reply(xid.wrapping_add(n), 666)).collect();
        all.extend([call.to_vec(), vec![0; 3], reply(xid, 42), reply(xid, 43)]);
        all
    });
    let mut client = kinds_second::Client::with(transport, Config::default());
    assert_eq!(client.kinds_count().unwrap(), 42);
    assert_eq!(client.0.strays(), 1002);
    assert_eq!(client.kinds_count().unwrap(), 42);
    assert_eq!(client.0.strays(), 2 * 1002 + 1);
}

#[test]
fn a_lost_call_is_sent_again_with_its_transaction() {
    let (transport, sent) = lossy(|count, call| match count {
        3 => vec![[&call[..4], &words(&[1, 0, 0, 0, 0, 9])].concat()],
        _ => Vec::new(),
    });
    let patient = Config { timeout: Duration::from_secs(60), ..config() };
    let mut client = kinds_second::Client::with(transport, patient);
    assert_eq!(client.kinds_count().unwrap(), 9);
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|message| *message == sent[0]));
}

#[test]
fn a_call_without_an_answer_ends() {
    let (transport, sent) = lossy(|_, _| Vec::new());
    let mut client = kinds_second::Client::with(transport, Config { calls_max: 2, ..config() });
    let begun = Instant::now();
    assert!(matches!(client.kinds_count(), Err(Error::TimedOut(_))));
    assert!(begun.elapsed() >= Duration::from_millis(400));
    // After 20, 60, 140, 300 ms: doubled each time.
    assert!((2..=6).contains(&sent.lock().unwrap().len()), "{}", sent.lock().unwrap().len());
    let first = client.begin_kinds_count().unwrap();
    let _second = client.begin_kinds_count().unwrap();
    assert!(matches!(client.kinds_count(), Err(Error::TooManyCalls(2))));
    client.0.cancel(first);
    assert_eq!(client.0.in_flight(), 1);
}

#[test]
fn results_that_cannot_be_read_say_where() {
    let (transport, _) = lossy(|_, call| vec![[&call[..4], &words(&[1, 0, 0, 0, 0])].concat()]);
    let mut client = kinds_second::Client::with(transport, config());
    match client.kinds_count() {
        Err(Error::Reply(error)) => assert_eq!(error.offset(), 24),
        other => panic!("{other:?}"),
    }
    let mut other = Client::new(lossy(|_, _| Vec::new()).0, 1, 1, config());
    let call = client.begin_kinds_count().unwrap();
    assert!(matches!(other.wait(call), Err(Error::NoCall)));
}

/// Gives these messages as one caller would.
struct Script(VecDeque<Vec<u8>>, Arc<Mutex<Vec<Vec<u8>>>>);

impl Transport for Script {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.1.lock().unwrap().push(message.to_vec());
        Ok(())
    }
    fn receive(&mut self, message: &mut Vec<u8>, _: Option<Duration>) -> io::Result<Arrival> {
        let Some(next) = self.0.pop_front() else { return Ok(Arrival::End) };
        *message = next;
        Ok(Arrival::Message)
    }
    fn is_reliable(&self) -> bool {
        false
    }
    fn message_len_max(&self) -> usize {
        1000
    }
}

#[test]
fn a_call_that_comes_twice_is_executed_once() {
    struct Counter(Mutex<i32>);
    impl kinds_prog::kinds_first::Server for Counter {
        fn kinds_sum(
            &self,
            _: &fusewire_rpc::Call<'_>,
            of: Pair,
        ) -> Result<i32, fusewire_rpc::Fault> {
            let mut sum = self.0.lock().unwrap();
            *sum += of.a;
            Ok(*sum)
        }
    }
    let services = fusewire_rpc::Services::new()
        .with(kinds_prog::kinds_first::Service(Counter(Mutex::new(0))));
    let call = |xid| words(&[xid, 0, 2, PROGRAM, 1, 1, 0, 0, 0, 0, 10, 0]);
    let replies = Arc::new(Mutex::new(Vec::new()));
    let calls = [call(1), call(1), b"no call".to_vec(), call(2), call(1)];
    Server::new(Script(calls.into(), replies.clone())).run(&services).unwrap();
    let sums: Vec<_> = replies.lock().unwrap().iter().map(|r| r[27]).collect();
    assert_eq!(sums, [10, 10, 20, 10]);
}

#[test]
fn a_slow_peer_and_too_many_of_them_do_not_stay() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let config = ListenConfig {
        connections_max: 2,
        idle: Duration::from_millis(600),
        ..ListenConfig::default()
    };
    let services = Arc::new(services());
    std::thread::spawn(move || {
        serve_streams(|| listener.accept().map(|(stream, _)| stream), &services, &config)
    });
    // One byte every 100 ms: each is in time, the record is not.
    let mut slow = TcpStream::connect(addr).unwrap();
    let mut client = kinds_second::Client::new(Records::new(TcpStream::connect(addr).unwrap()));
    client.null().unwrap();
    let mut third = TcpStream::connect(addr).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match third.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => panic!("a third one stays: {other:?}"),
    }
    let begun = Instant::now();
    slow.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    // A record of 1,000 bytes: it would take 100 seconds.
    for byte in [0x80, 0, 3, 0xe8].into_iter().chain(std::iter::repeat(0)) {
        let _ = slow.write(&[byte]);
        match slow.read(&mut [0]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => break,
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "a slow peer stays");
    }
}

#[test]
fn a_stream_that_carries_no_calls_ends() {
    let bytes = [words(&[LAST | 8]), words(&[1, 1])].concat();
    let mut server = Server::new(records(&bytes, 100, RecordConfig::default()));
    assert_eq!(server.turn(&services(), None).unwrap_err().kind(), io::ErrorKind::InvalidData);
    let mut server = Server::new(records(&[], 100, RecordConfig::default()));
    assert_eq!(server.turn(&services(), None).unwrap(), Turn::End);
}
