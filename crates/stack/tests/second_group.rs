//! Groups and a second implementation of XTP, which was written from `docs/xtp.md` alone and loses packets on purpose
//! (`conformance/xtp/group.py`, Python): each side with strangers on the other, on this host's loopback.

#[path = "second_group/carriers.rs"]
mod carriers;
#[path = "support/groups.rs"]
mod groups;
#[path = "support/stranger.rs"]
mod stranger;

use std::net::SocketAddr;
use std::ops::Range;
use std::process::Child;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_device::Device;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::udp::Udp;
use fusewire_stack::Clock;
use fusewire_stack::group::{
    AskId, Leaving, Reason, Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig,
    SenderEvent,
};
use groups::{fill, is_right};
use stranger::{assert_said, number, said, start};

const LIMIT: Duration = Duration::from_secs(100);
const TURN: Duration = Duration::from_millis(5);
const MESSAGES: usize = 200;

/// A group of this test's own.
fn group(n: u16) -> SocketAddr {
    let pid = std::process::id();
    ([239, 255, (pid >> 8) as u8, pid as u8], 21_000 + n).into()
}

fn stranger(what: &str, group: SocketAddr, arguments: &[&str]) -> Option<Child> {
    let (host, port) = (group.ip().to_string(), group.port().to_string());
    start("group.py", &[&[what, &host, &port], arguments].concat())
}

/// A stranger that drops nobody for what a busy machine does to him: any other floor he misses who stands still for a second.
const PATIENT: [&str; 4] = ["--floor", "0", "--silence", "20"];

/// Lengths of messages: of one packet and of many.
fn len(n: usize) -> usize {
    1 + n * 7919 % 20_000
}

/// Our sender, and what happened to it.
struct Ours<D = Udp> {
    sender: Sender<D>,
    sent: Vec<Range<u64>>,
    /// Who asks, and is not answered yet.
    asks: Vec<AskId>,
    begins: Vec<u64>,
    left: Vec<Leaving>,
    done: usize,
    start: Instant,
}

impl Ours {
    fn new(config: SenderConfig) -> Ours {
        let sender = SenderConfig {
            interface: Some("lo".into()),
            local: ([127, 0, 0, 1], 0).into(),
            ..config
        };
        Ours::over(Sender::open(&sender).unwrap())
    }
}

impl<D: Device> Ours<D> {
    fn over(sender: Sender<D>) -> Ours<D> {
        Ours {
            sender,
            sent: Vec::new(),
            asks: Vec::new(),
            begins: Vec::new(),
            left: Vec::new(),
            done: 0,
            start: Instant::now(),
        }
    }

    fn turn(&mut self) {
        assert!(
            self.start.elapsed() < LIMIT,
            "not done in time: {:?} {:?}",
            self.begins,
            self.left
        );
        self.sender.drive(Some(TURN)).unwrap();
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Asked { ask, .. } => self.asks.push(ask),
                SenderEvent::Joined { begins_at, .. } => self.begins.push(begins_at),
                SenderEvent::Left { why, .. } => self.left.push(why),
                SenderEvent::Done { .. } => self.done += 1,
                _ => {}
            }
        }
    }

    fn until(&mut self, is_done: impl Fn(&Ours<D>) -> bool) {
        while !is_done(self) {
            self.turn();
        }
    }

    /// Takes in who asks until so many are members that know it.
    fn admit(&mut self, count: usize) {
        while self.begins.len() < count {
            self.turn();
            for ask in std::mem::take(&mut self.asks) {
                self.sender.accept(ask).unwrap();
            }
        }
    }

    fn send(&mut self, count: usize, len: impl Fn(usize) -> usize) {
        for _ in 0..count {
            let len = len(self.sent.len());
            let range = loop {
                match self.sender.send(len, fill).unwrap() {
                    Some(range) => break range,
                    None => self.turn(),
                }
            };
            self.sent.push(range);
        }
    }

    /// Ends the stream, and answers until the strangers' processes have ended; what they said.
    fn finish(&mut self, strangers: Vec<Child>) -> Vec<String> {
        self.sender.finish();
        self.until(|ours| ours.sender.has_ended());
        self.say_goodbye(strangers)
    }

    fn say_goodbye(&mut self, mut strangers: Vec<Child>) -> Vec<String> {
        while strangers.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            self.turn();
        }
        strangers.iter_mut().map(said).collect()
    }
}

/// Three that join, of which two lose packets both ways, get all, and say so.
#[test]
fn strangers_hear_our_stream() {
    let group = group(1);
    let losses = [&[][..], &["--loss", "0.03", "--seed", "2"], &["--loss", "0.05", "--seed", "3"]];
    let mut strangers = Vec::new();
    for loss in losses {
        let Some(child) = stranger("receive", group, loss) else { return };
        strangers.push(child);
    }
    let mut ours = Ours::new(SenderConfig::new(group));
    ours.admit(3);
    ours.send(MESSAGES, len);
    let all = ours.finish(strangers);
    assert_eq!((ours.done, &ours.left[..]), (3, &[][..]));
    for (said, loss) in all.iter().zip(losses) {
        assert_said(
            said,
            &["\"outcome\": \"finished\"", "\"state\": \"over\"", "\"messages\": 200,"],
        );
        assert_eq!(number(said, "gaps") > 0, !loss.is_empty(), "{said}");
    }
    let mut delays: Vec<u64> = all.iter().map(|said| number(said, "delay")).collect();
    delays.sort();
    assert_eq!(delays, [0, 20, 40], "evenly spread, in microseconds");
}

/// Who comes in the middle of the stream begins at a message's first byte, and has all from there.
#[test]
fn a_stranger_that_comes_late_begins_at_a_message() {
    let group = group(2);
    let Some(first) = stranger("receive", group, &[]) else { return };
    let mut ours = Ours::new(SenderConfig::new(group));
    ours.admit(1);
    ours.send(50, len);
    let Some(late) = stranger("receive", group, &["--loss", "0.02"]) else { return };
    while ours.begins.len() < 2 {
        ours.send(1, len);
        ours.turn();
        for ask in std::mem::take(&mut ours.asks) {
            ours.sender.accept(ask).unwrap();
        }
    }
    ours.send(50, len);
    let all = ours.finish(vec![first, late]);
    let begin = ours.begins[1];
    assert!(begin > ours.sent[49].start, "{begin}");
    assert!(
        ours.sent.iter().any(|range| range.start == begin),
        "{begin} is no message's first byte"
    );
    assert_eq!(number(&all[1], "begin"), begin);
    for (said, from) in all.iter().zip(&ours.begins) {
        let count = ours.sent.iter().filter(|range| range.start >= *from).count();
        assert_said(said, &["\"outcome\": \"finished\"", &format!("\"messages\": {count},")]);
    }
}

/// One may not join, for one there is no place.
#[test]
fn strangers_are_refused() {
    let group = group(3);
    let Some(denied) = stranger("receive", group, &[]) else { return };
    let mut ours = Ours::new(SenderConfig { members_max: 1, ..SenderConfig::new(group) });
    ours.until(|ours| !ours.asks.is_empty());
    let ask = ours.asks.remove(0);
    ours.sender.deny(ask);
    let denied = ours.say_goodbye(vec![denied]);
    let Some(member) = stranger("receive", group, &[]) else { return };
    ours.admit(1);
    let Some(too_many) = stranger("receive", group, &[]) else { return };
    let too_many = ours.say_goodbye(vec![too_many]);
    ours.send(3, len);
    let all = [denied, too_many, ours.finish(vec![member])].concat();
    for (said, outcome) in all.iter().zip(["refused 13", "refused 9", "finished"]) {
        assert_said(said, &[&format!("\"outcome\": \"{outcome}\"")]);
    }
}

/// One leaves, one says nothing any more, one takes nothing: the group goes on without them, and the two that are dropped
/// are told so.
#[test]
fn strangers_leave_or_are_dropped() {
    let group = group(4);
    let ways = [&[][..], &["--leave-after", "100000"], &["--silent-after", "300000"], &["--deaf"]];
    let outcomes = ["finished", "left", "dropped 6", "dropped 6"];
    // Who is silent while others wait for it is slow, too.
    let (silent, slow) = (Leaving::Silent, Leaving::Slow);
    let whys: [&[Leaving]; 4] = [&[], &[Leaving::Left], &[silent, slow], &[slow]];
    for ((way, outcome), why) in ways.into_iter().zip(outcomes).zip(whys) {
        let Some(stays) = stranger("receive", group, &[]) else { return };
        let Some(goes) = stranger("receive", group, way) else { return };
        let mut ours = Ours::new(SenderConfig { floor: 200_000, ..SenderConfig::new(group) });
        ours.admit(2);
        ours.send(MESSAGES, len);
        let all = ours.finish(vec![stays, goes]);
        assert_said(&all[0], &["\"outcome\": \"finished\"", "\"messages\": 200,"]);
        assert_said(&all[1], &[&format!("\"outcome\": \"{outcome}\"")]);
        let is_right = |left: &[Leaving]| left.len() == 1 && why.contains(&left[0]);
        assert!(ours.left[..] == *why || is_right(&ours.left), "{:?}: {}", ours.left, all[1]);
    }
}

/// Service 5: what is lost is lost, and nothing else is; where messages prove themselves not even the next one.
#[test]
fn strangers_read_our_stream_without_answers() {
    for (n, nocheck) in [(5, false), (6, true)] {
        let group = group(n);
        let more = if nocheck { "--nocheck" } else { "--seed=1" };
        let Some(all) = stranger("receive", group, &[more]) else { return };
        let Some(some) = stranger("receive", group, &["--loss", "0.05", more]) else { return };
        let mut strangers = vec![all, some];
        let mut ours = Ours::new(SenderConfig {
            reliable: false,
            rate: Some(2_000_000),
            nocheck,
            ..SenderConfig::new(group)
        });
        // Nobody says that he hears: FIRST goes out each second.
        std::thread::scope(|scope| {
            let hear = scope.spawn(|| strangers.iter_mut().for_each(stranger::hears));
            ours.until(|_| hear.is_finished());
        });
        ours.send(1000, |n| if nocheck { 64 } else { 1 + len(n) / 10 });
        let all = ours.finish(strangers);
        for said in &all {
            assert_said(said, &["\"outcome\": \"finished\"", "\"wrong\": 0"]);
        }
        assert_said(&all[0], &["\"messages\": 1000,", "\"missing\": 0,"]);
        let (messages, missing) = (number(&all[1], "messages"), number(&all[1], "missing"));
        assert!(missing > 0 && (600..1000).contains(&messages), "{}", all[1]);
        if nocheck {
            assert_eq!(messages, 1000 - missing / 64, "{}", all[1]);
        }
    }
}

/// JCNTLs that are wrong in one thing are answered by DIAG 5 with the page's val, or by nothing.
#[test]
fn our_sender_says_what_the_page_says_of_a_wrong_jcntl() {
    let group = group(7);
    // Who joins in between says nothing more.
    let silence = Duration::from_secs(60);
    let mut ours = Ours::new(SenderConfig { silence, ..SenderConfig::new(group) });
    let Some(mut child) = stranger("stranger", group, &[]) else { return };
    while child.try_wait().unwrap().is_none() {
        ours.turn();
        for ask in std::mem::take(&mut ours.asks) {
            ours.sender.accept(ask).unwrap();
        }
    }
    assert_said(&said(&mut child), &["\"wrong\": []"]);
}

/// What one of our receivers got: where its messages lie, and what happened.
type Got = (Vec<Range<u64>>, Vec<ReceiverEvent>);

/// What one does beside reading all.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Stays,
    Leaves,
    /// Does nothing for four seconds when it has read some.
    Sleeps,
}

/// Joins what it hears, and takes all.
fn hear<D: Device>(
    receiver: &mut Receiver<D>,
    key: u64,
    way: Way,
    tells: &mpsc::Sender<()>,
) -> Got {
    let (mut ranges, mut events) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while !receiver.is_over() {
        assert!(start.elapsed() < LIMIT, "{} {events:?}", ranges.len());
        receiver.drive(Some(Duration::from_millis(20))).unwrap();
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = &event {
                receiver.join(heard, key).unwrap();
            }
            if let ReceiverEvent::Joined { .. } = &event {
                let _ = tells.send(());
            }
            events.push(event);
        }
        while let Some(range) = receiver.recv(|offset, bytes| {
            assert!(is_right(offset, bytes), "at {offset}");
            offset..offset + bytes.len() as u64
        }) {
            ranges.push(range);
            match way {
                Way::Leaves if ranges.len() == 20 => receiver.leave(),
                Way::Sleeps if ranges.len() == 20 => std::thread::sleep(Duration::from_secs(4)),
                _ => {}
            }
        }
    }
    while let Some(event) = receiver.poll_event() {
        events.push(event);
    }
    (ranges, events)
}

/// One of ours in a thread, which loses so much both ways.
fn joins(group: SocketAddr, key: u64, loss: f64, way: Way, nocheck: bool) -> JoinHandle<Got> {
    joins_and_tells(group, key, loss, way, nocheck).0
}

/// And something to wait for until it is a member.
fn joins_and_tells(
    group: SocketAddr,
    key: u64,
    loss: f64,
    way: Way,
    nocheck: bool,
) -> (JoinHandle<Got>, mpsc::Receiver<()>) {
    let config =
        ReceiverConfig { interface: Some("lo".into()), nocheck, ..ReceiverConfig::new(group) };
    let device = config.udp_device().unwrap();
    let (rules, clock) = (Rules { loss, ..Rules::NONE }, Clock::new());
    let device = Impair::new(device, rules, rules, key, move || clock.now());
    let (tells, joined) = mpsc::channel();
    let hears = move || hear(&mut Receiver::over(device, &config), key, way, &tells);
    (std::thread::spawn(hears), joined)
}

/// The ranges follow each other, from one end to the other.
fn assert_all(ranges: &[Range<u64>], whole: Range<u64>) {
    assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (whole.start, whole.end));
    assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
}

/// Ours get all that a stranger sends, over links that lose at both ends.
#[test]
fn ours_hear_a_strangers_stream() {
    let group = group(8);
    let more = [&["--members", "3", "--loss", "0.03", "--linger", "4"][..], &PATIENT].concat();
    let Some(mut sender) = stranger("send", group, &more) else { return };
    let ours = [(1, 0.0), (2, 0.03), (3, 0.05)];
    let ours = ours.map(|(key, loss)| joins(group, key, loss, Way::Stays, false));
    let got = ours.map(|one| one.join().unwrap());
    let said = said(&mut sender);
    assert_said(&said, &["\"done\": 3", "\"gone\": []"]);
    assert!(number(&said, "again") > 0, "{said}");
    let (begin, end) = (number(&said, "begin"), number(&said, "end"));
    for (ranges, events) in got {
        assert_eq!(ranges.len(), MESSAGES);
        assert_all(&ranges, begin..end);
        let joined = ReceiverEvent::Joined { begins_at: begin };
        assert!(events.contains(&joined), "{events:?}");
        let last = [ReceiverEvent::Finished { offset: end }, ReceiverEvent::Ended];
        assert!(events.ends_with(&last), "{events:?}");
    }
}

/// One of ours begins late; one leaves.
#[test]
fn ours_come_late_and_leave() {
    let group = group(9);
    let more = [&["--members", "2", "--members-late", "1"][..], &PATIENT].concat();
    let Some(mut sender) = stranger("send", group, &more) else { return };
    let first = joins(group, 1, 0.0, Way::Stays, false);
    let leaves = joins(group, 2, 0.0, Way::Leaves, false);
    let (some, events) = leaves.join().unwrap();
    assert_eq!((some.len(), events.last()), (20, Some(&ReceiverEvent::Ended)));
    let (late, _) = joins(group, 3, 0.02, Way::Stays, false).join().unwrap();
    let (all, _) = first.join().unwrap();
    let said = said(&mut sender);
    assert_said(&said, &["\"done\": 2", "\"left\": 1"]);
    let (begin, end) = (number(&said, "begin"), number(&said, "end"));
    assert_all(&all, begin..end);
    assert_all(&late, late[0].start..end);
    assert_all(&some, begin..some[19].end);
    assert!(late.len() < all.len() && all.ends_with(&late), "it begins with a message");
}

/// Who is told another delay in the middle answers that much later from then on.
#[test]
fn ours_take_another_delay() {
    const DELAY_US: u64 = 100_000;
    let (group, delay) = (group(16), DELAY_US.to_string());
    let more =
        [&["--members", "2", "--messages", "60", "--delay-us", &delay][..], &PATIENT].concat();
    let Some(mut sender) = stranger("send", group, &more) else { return };
    let got =
        [1, 2].map(|key| joins(group, key, 0.0, Way::Stays, false)).map(|one| one.join().unwrap());
    let said = said(&mut sender);
    assert_said(&said, &["\"done\": 2", "\"gone\": []"]);
    assert!(got.iter().all(|(ranges, _)| ranges.len() == 60));
    // What one answer says no other does before the delay is over again.
    assert!(number(&said, "spacing_us") > DELAY_US * 9 / 10, "{said}");
}

/// One of ours is denied, one finds no place, one is dropped by who sends, one is dropped for its silence.
#[test]
fn ours_are_refused_and_dropped() {
    let cases = [
        (&["--deny", "2"][..], Way::Stays, ReceiverEvent::Refused(Reason::JoinDenied)),
        (&["--members-max", "1"], Way::Stays, ReceiverEvent::Refused(Reason::NoResource)),
        (&["--members", "2", "--drop"], Way::Stays, ReceiverEvent::Dropped(Reason::Unspecified)),
        (
            &["--members", "2", "--linger", "4"],
            Way::Sleeps,
            ReceiverEvent::Dropped(Reason::Traffic),
        ),
    ];
    let refused = |n, (more, way, outcome): (&[&str], Way, ReceiverEvent)| {
        let group = group(n);
        // So slow that who comes second still hears of it.
        let more = [more, &["--rate", "600000"]].concat();
        let Some(mut sender) = stranger("send", group, &more) else { return };
        let (first, joined) = joins_and_tells(group, 1, 0.0, Way::Stays, false);
        joined.recv().unwrap();
        let (_, events) = joins(group, 2, 0.0, way, false).join().unwrap();
        assert_eq!(events.last(), Some(&outcome), "{events:?}");
        let (all, _) = first.join().unwrap();
        assert_eq!(all.len(), MESSAGES);
        assert_said(&said(&mut sender), &["\"done\": 1"]);
    };
    // They wait for most of their time.
    std::thread::scope(|scope| {
        (10..).zip(cases).for_each(|(n, case)| drop(scope.spawn(move || refused(n, case))));
    });
}

/// Service 5 of a stranger's.
#[test]
fn ours_read_a_strangers_stream_without_answers() {
    let read = |n, nocheck| {
        let group = group(n);
        let more = ["--unanswered", "--members", "0", "--rate", "1000000", "--linger", "3"];
        let kind =
            if nocheck { ["--nocheck", "--longest=64"] } else { ["--seed=1", "--longest=2000"] };
        let Some(mut sender) = stranger("send", group, &[&more[..], &kind].concat()) else {
            return;
        };
        let all = joins(group, 1, 0.0, Way::Stays, nocheck);
        let some = joins(group, 2, 0.05, Way::Stays, nocheck);
        let ((all, events), (some, lost)) = (all.join().unwrap(), some.join().unwrap());
        let said = said(&mut sender);
        assert_all(&all, number(&said, "begin")..number(&said, "end"));
        assert_eq!((all.len(), events.last()), (MESSAGES, Some(&ReceiverEvent::Ended)));
        assert!((140..MESSAGES).contains(&some.len()), "{}", some.len());
        assert!(lost.iter().any(|event| matches!(event, ReceiverEvent::Lost(_))), "{lost:?}");
        if !nocheck {
            assert!(some.iter().all(|range| all.contains(range)), "what came was a message");
        }
    };
    std::thread::scope(|scope| {
        for (n, nocheck) in [(14, false), (15, true)] {
            scope.spawn(move || read(n, nocheck));
        }
    });
}
