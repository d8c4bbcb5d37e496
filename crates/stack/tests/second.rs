//! Contexts and a second implementation of XTP, which was written from `docs/xtp.md` alone and loses packets on purpose
//! (`conformance/xtp`, Python): both ways over loopback.

#[path = "support/stranger.rs"]
mod stranger;

use std::io::{IoSlice, Read};
use std::net::SocketAddr;
use std::process::Child;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Ended, Event, Kept, Kind, Retransmission,
};
use fusewire_testkit::namespace::{Need, in_namespace};
use fusewire_transport::machine::Secrets;
use stranger::{port, root, said, start};

const SERVICE: u16 = 7;
/// What is sent each way: messages of 16 KiB.
const MESSAGES: usize = 64;
const MESSAGE: usize = 16_384;
const LIMIT: Duration = Duration::from_secs(200);

/// The peer as a process.
fn peer(arguments: &[&str]) -> Option<Child> {
    start("peer.py", arguments)
}

fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ seed.wrapping_mul(101) ^ (i >> 8)) as u8).collect()
}

fn block() -> ControlBlock {
    ControlBlock { packet_bytes: Some(1400), ..ControlBlock::default() }
}

fn contexts(config: Config) -> Contexts {
    let device = Udp::bind(([127, 0, 0, 1], 0).into(), &udp::Config::default()).unwrap();
    Contexts::new(Box::new(device), config, &[5; 32])
}

fn listening(block: ControlBlock, config: Config) -> Contexts {
    let mut ours = contexts(config);
    ours.listen(SERVICE, block, &Secrets { isn: [3; 16], cookie: [4; 16] });
    ours
}

/// Our end: what was heard, and messages that wait for room.
struct End {
    contexts: Contexts,
    context: Option<Context>,
    echoes: bool,
    messages: Vec<(Option<u64>, Vec<u8>)>,
    to_send: Vec<(Option<u64>, Vec<u8>)>,
    sent: usize,
    finishes: bool,
    missing: u64,
    /// Data of the largest packet that it could send.
    largest: usize,
    ended: Option<Ended>,
}

impl End {
    fn new(contexts: Contexts) -> End {
        End {
            contexts,
            context: None,
            echoes: true,
            messages: Vec::new(),
            to_send: Vec::new(),
            sent: 0,
            finishes: false,
            missing: 0,
            largest: 0,
            ended: None,
        }
    }

    /// One look at what came, and a wait for more.
    fn turn(&mut self) {
        self.contexts.poll(&mut Kept).unwrap();
        while let Some((context, event)) = self.contexts.poll_event() {
            match event {
                Event::Accepted { .. } => self.context = Some(context),
                Event::Message(message) => {
                    let bytes = self.contexts.message(context, &message).concat();
                    self.contexts.release(context, &message);
                    if self.echoes {
                        self.to_send.push((message.tag, bytes.clone()));
                    }
                    self.messages.push((message.tag, bytes));
                }
                Event::Gap(gap) => self.missing += gap.end - gap.start,
                Event::Finished => self.finishes = true,
                Event::Closed(ended) if self.context == Some(context) => self.ended = Some(ended),
                _ => {}
            }
        }
        let Some(context) = self.context else { return self.wait() };
        self.largest = self.largest.max(self.contexts.packet_data(context));
        while let Some((tag, bytes)) = self.to_send.get(self.sent) {
            let about = About { tag: *tag, sort: None };
            if !self.contexts.send(context, &[IoSlice::new(bytes)], about).unwrap() {
                break;
            }
            self.sent += 1;
        }
        if self.finishes && self.sent == self.to_send.len() {
            self.contexts.finish(context);
        }
        self.wait();
    }

    fn wait(&mut self) {
        self.contexts.wait(Some(Duration::from_millis(5))).unwrap();
    }

    /// Until the peer's process has ended, and what it said then.
    fn until_it_ends(&mut self, child: &mut Child) {
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "not done in time: {:?}", self.ended);
            self.turn();
        }
    }
}

/// A stream of 1 MiB that the peer opens and has sent back. Returns what it says, and our end.
fn answered(block: ControlBlock, config: Config, arguments: &[&str]) -> Option<(String, End)> {
    let ours = listening(block, config);
    let (host, to) = (ours.local_addr().ip().to_string(), ours.local_addr().port().to_string());
    let mut child = peer(&[&["connect", &host, &to], arguments].concat())?;
    let mut end = End::new(ours);
    end.until_it_ends(&mut child);
    let said = said(&mut child);
    assert_eq!(end.ended, Some(Ended::InOrder), "{said}");
    assert_eq!(end.messages.len(), MESSAGES);
    for (n, (_, bytes)) in end.messages.iter().enumerate() {
        assert_eq!(*bytes, content(n, MESSAGE), "message {n}");
    }
    for wanted in ["\"messages\": 64", DIGEST] {
        assert!(said.contains(wanted), "{said}");
    }
    Some((said, end))
}

/// SHA-256 of all messages: what the peer says of what came back.
const DIGEST: &str = "99563a06b4f525b116149f40e519a8f916b298779994b825af1d8304f345168b";

#[test]
fn it_reads_and_writes_the_pages_examples() {
    let page = root().join("docs/xtp.md");
    let Some(mut child) = peer(&["examples", page.to_str().unwrap()]) else { return };
    assert!(said(&mut child).contains("\"wrong\": []"));
}

#[test]
fn it_opens_a_stream() {
    let Some((said, _)) = answered(block(), Config::default(), &[]) else { return };
    assert!(said.contains("\"cxor\": false") && said.contains("\"lost\": 0"), "{said}");
}

/// Each loses 3 % of what comes and of what leaves; CXOR and tags.
#[test]
fn it_opens_a_stream_over_a_link_that_loses() {
    let block = ControlBlock { check: Check::Cxor, tags: true, ..block() };
    let arguments = ["--loss", "0.03", "--cxor", "--tags"];
    let Some((said, end)) = answered(block, Config::default(), &arguments) else { return };
    assert!(said.contains("\"cxor\": true") && said.contains("\"tags\": [0, 1, 2]"), "{said}");
    assert!(!said.contains("\"lost\": 0,") && !said.contains("\"again\": 0,"), "{said}");
    assert!(end.messages.iter().map(|(tag, _)| *tag).eq((0..MESSAGES as u64).map(Some)));
}

/// Who does not know CXOR gets no trailer, and who offers it to one that does not either.
#[test]
fn a_trailer_is_agreed_on() {
    let cxor = ControlBlock { check: Check::Cxor, ..block() };
    for (block, arguments) in [(cxor, &[][..]), (block(), &["--cxor"])] {
        let Some((said, _)) = answered(block, Config::default(), arguments) else { return };
        assert!(said.contains("\"cxor\": false"), "{said}");
    }
}

/// With no room for half-open contexts it is told a cookie, and shows it.
#[test]
fn it_shows_a_cookie() {
    // One address may have half of the places.
    let config = Config { backlog: 2, ..Config::default() };
    let arguments = ["--before", "1", "--loss", "0.02", "--seed", "4"];
    let Some((said, _)) = answered(block(), config, &arguments) else { return };
    assert!(said.contains("\"cookie\": true"), "{said}");
}

/// A stream of 1 MiB that we open and it sends back. Returns what it says, and our end.
fn asked(block: ControlBlock, arguments: &[&str], late: bool) -> Option<(String, End)> {
    let mut child = peer(&[&["listen"], arguments].concat())?;
    let (port, mut lines) = port(&mut child);
    let mut end = End::new(contexts(Config::default()));
    let tags = block.tags;
    let context = end.contexts.context(block).unwrap();
    end.contexts.connect(context, SocketAddr::from(([127, 0, 0, 1], port)), SERVICE).unwrap();
    end.context = Some(context);
    end.echoes = false;
    end.finishes = !late;
    end.to_send = (0..MESSAGES).map(|n| (tags.then_some(n as u64), content(n, MESSAGE))).collect();
    end.until_it_ends(&mut child);
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(end.ended, Some(Ended::InOrder), "{said}");
    assert!(said.contains(DIGEST), "{said}");
    assert_eq!(end.messages, end.to_send);
    Some((said, end))
}

#[test]
fn we_open_a_stream() {
    let Some((said, _)) = asked(block(), &[], false) else { return };
    assert!(said.contains("\"lost\": 0"), "{said}");
}

/// By either way of sending again, with trailers and tags.
#[test]
fn we_open_a_stream_over_a_link_that_loses() {
    for retransmission in Retransmission::ALL {
        let block = ControlBlock { check: Check::Cxor, tags: true, retransmission, ..block() };
        let Some((said, _)) = asked(block, &["--loss", "0.02", "--seed", "3"], false) else {
            return;
        };
        assert!(said.contains("\"cxor\": true") && !said.contains("\"lost\": 0,"), "{said}");
    }
}

/// Questions about the path: of ours only where nothing is known of it, which is not so on loopback.
const PATHS: [&str; 4] = ["--ask-path", "100", "700", "1400"];

/// It asks by PATH, whoever opened the stream, and we answer; what does not count is not answered.
#[test]
fn it_asks_about_the_path() {
    let Some((said, _)) = answered(block(), Config::default(), &PATHS) else { return };
    assert!(said.contains("\"sizes\": [100, 700, 1400]"), "{said}");
    let Some((said, _)) = asked(block(), &PATHS, false) else { return };
    assert!(said.contains("\"sizes\": [100, 700, 1400]"), "{said}");
}

/// We ask where the path is not known, and it answers: our packets become as long as it takes.
#[test]
fn we_ask_about_the_path() {
    let name = "we_ask_about_the_path";
    in_namespace(name, Need::Namespace, "ip address add 10.9.9.1/24 dev lo", || {
        let at = SocketAddr::from(([10, 9, 9, 1], 0));
        let device = Udp::bind(at, &udp::Config::default()).unwrap();
        let mut ours = Contexts::new(Box::new(device), Config::default(), &[5; 32]);
        ours.listen(SERVICE, ControlBlock::default(), &Secrets { isn: [3; 16], cookie: [4; 16] });
        let to = ours.local_addr().port().to_string();
        let largest = ["--bind", "10.9.9.1", "--largest", "9000", "--asked-at-least", "8900"];
        let Some(mut child) = peer(&[&["connect", "10.9.9.1", &to], &largest[..]].concat()) else {
            return;
        };
        let mut end = End::new(ours);
        end.until_it_ends(&mut child);
        let said = said(&mut child);
        assert_eq!(end.ended, Some(Ended::InOrder), "{said}");
        assert!(end.largest > 8000, "{} bytes of data in a packet: {said}", end.largest);
    });
}

/// What is nobody's, and what is wrong in one thing: it is told so by DIAG, with the code and val of the page, or by nothing.
#[test]
fn it_hears_what_the_page_says_of_what_is_wrong() {
    let mut ours = End::new(listening(block(), Config::default()));
    let at = ours.contexts.local_addr();
    let arguments = ["stranger", &at.ip().to_string(), &at.port().to_string()];
    let Some(mut child) = peer(&arguments) else { return };
    ours.until_it_ends(&mut child);
    assert!(said(&mut child).contains("\"wrong\": []"));
    assert!(ours.context.is_none(), "a context was made of it");
}

/// The number of a service of one message.
fn service(kind: Kind) -> &'static str {
    match kind {
        Kind::Stream => "4",
        Kind::Datagram => "1",
        Kind::Acknowledged => "2",
        Kind::Transaction => "3",
    }
}

/// Messages of one service, and links that they cross: bytes of the message and of the answer (0: the message again),
/// how late it is answered, and what is lost.
type Singles = (Kind, usize, usize, f64, f64);
const COUNT: usize = 4;
const CLEAN: [Singles; 7] = [
    (Kind::Datagram, 900, 0, 0.0, 0.0),
    (Kind::Acknowledged, 1, 0, 0.0, 0.0),
    (Kind::Acknowledged, 12_000, 0, 0.0, 0.0),
    (Kind::Transaction, 1000, 0, 0.0, 0.0),
    (Kind::Transaction, 12_000, 700, 0.0, 0.0),
    // No packet has the answer; it comes when the request was repeated.
    (Kind::Transaction, 300, 14_000, 0.0, 0.0),
    (Kind::Transaction, 1000, 0, 1.5, 0.0),
];
const LOSSY: [Singles; 2] =
    [(Kind::Acknowledged, 3000, 0, 0.0, 0.1), (Kind::Transaction, 3000, 5000, 0.0, 0.05)];

/// What the peer is told of a case.
fn arguments((kind, message, answer, late, loss): Singles) -> Vec<String> {
    let count = if late > 0.0 { 1 } else { COUNT };
    let linger = if loss > 0.0 { 2.5 } else { 0.2 };
    let all = [
        ("--service", service(kind).to_owned()),
        ("--message", message.to_string()),
        ("--answer", answer.to_string()),
        ("--late-by", late.to_string()),
        ("--loss", loss.to_string()),
        ("--count", count.to_string()),
        ("--linger", linger.to_string()),
    ];
    all.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

fn of(kind: Kind) -> ControlBlock {
    ControlBlock { kind, ..block() }
}

/// The peer's messages of services 1 to 3 are handed over once each, and answered.
#[test]
fn it_asks_by_single_messages() {
    it_asks(&CLEAN);
}

#[test]
fn it_asks_over_a_link_that_loses() {
    it_asks(&LOSSY);
}

fn it_asks(cases: &[Singles]) {
    for &case in cases {
        let (kind, len, answer, late, loss) = case;
        let mut ours = listening(of(kind), Config::default());
        let at = ours.local_addr();
        let (host, to, more) = (at.ip().to_string(), at.port().to_string(), arguments(case));
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let Some(mut child) = peer(&[&["ask", &host, &to], &more[..]].concat()) else { return };
        let (start, mut heard, mut due) = (Instant::now(), 0, Vec::new());
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "not done in time: {case:?}, {heard} messages");
            ours.poll(&mut Kept).unwrap();
            while let Some((context, event)) = ours.poll_event() {
                let Event::Message(message) = event else { continue };
                let bytes = ours.message(context, &message).concat();
                assert_eq!(bytes, content(heard, len), "{case:?}");
                let said = if answer > 0 { content(heard, answer) } else { bytes };
                due.push((Instant::now() + Duration::from_secs_f64(late), context, said));
                heard += 1;
                if kind != Kind::Transaction {
                    ours.release(context, &message);
                    due.clear();
                }
            }
            while due.first().is_some_and(|(at, ..)| *at <= Instant::now()) {
                let (_, context, said) = due.remove(0);
                assert!(ours.send(context, &[IoSlice::new(&said)], About::default()).unwrap());
            }
            ours.wait(Some(Duration::from_millis(5))).unwrap();
        }
        let said = said(&mut child);
        // What nobody acknowledges may be under way still.
        while kind == Kind::Datagram && heard < COUNT && start.elapsed() < LIMIT {
            ours.poll(&mut Kept).unwrap();
            heard += std::iter::from_fn(|| ours.poll_event())
                .filter(|(_, event)| matches!(event, Event::Message(_)))
                .count();
        }
        assert_eq!(heard, if late > 0.0 { 1 } else { COUNT }, "at most once: {case:?}, {said}");
        assert_eq!(said.contains("\"lost\": 0,"), loss == 0.0, "{said}");
    }
}

/// Ours are handed over once each there, and answered.
#[test]
fn we_ask_by_single_messages() {
    we_ask(&CLEAN);
}

#[test]
fn we_ask_over_a_link_that_loses() {
    we_ask(&LOSSY);
}

fn we_ask(cases: &[Singles]) {
    for &case in cases {
        let (kind, len, answer, late, loss) = case;
        let more = arguments(case);
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let Some(mut child) = peer(&[&["answer"], &more[..]].concat()) else { return };
        let (port, mut lines) = port(&mut child);
        let mut ours = contexts(Config::default());
        let count = if late > 0.0 { 1 } else { COUNT };
        for n in 0..count {
            let message = content(n, len);
            let context = ours.context(of(kind)).unwrap();
            ours.connect(context, SocketAddr::from(([127, 0, 0, 1], port)), SERVICE).unwrap();
            let sent = ours.send(context, &[IoSlice::new(&message)], About::default());
            assert!(sent.unwrap());
            let (start, mut answers, mut ended) = (Instant::now(), Vec::new(), None);
            while ended.is_none() {
                assert!(start.elapsed() < LIMIT, "not done in time: {case:?}, message {n}");
                ours.poll(&mut Kept).unwrap();
                while let Some((of, event)) = ours.poll_event() {
                    match event {
                        Event::Message(message) => {
                            answers.push(ours.message(of, &message).concat());
                            ours.release(of, &message);
                        }
                        Event::Closed(why) if of == context => ended = Some(why),
                        _ => {}
                    }
                }
                if ended.is_none() {
                    ours.wait(Some(Duration::from_millis(5))).unwrap();
                }
            }
            assert_eq!(ended, Some(Ended::InOrder), "{case:?}, message {n}");
            let wanted = if answer > 0 { content(n, answer) } else { message };
            let wanted = if kind == Kind::Transaction { vec![wanted] } else { Vec::new() };
            assert!(answers == wanted, "{case:?}, message {n}");
        }
        // The last word of ours may have been lost: it is asked for.
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "not done in time: {case:?}");
            ours.poll(&mut Kept).unwrap();
            ours.wait(Some(Duration::from_millis(5))).unwrap();
        }
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        // It ends well if it was handed so many, and each once.
        assert!(child.wait().unwrap().success(), "{case:?}: {said}");
        assert_eq!(said.contains("\"lost\": 0,"), loss == 0.0, "{said}");
    }
}
