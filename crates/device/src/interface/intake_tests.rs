//! The queue between the thread that receives and who drives the stack: order, room, sleep, errors, and the end.

use std::sync::atomic::AtomicUsize;

use rustix::event::{PollFd, PollFlags};

use super::super::{Checksum, Link, Segmentation, TxPacket, memory};
use super::*;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Plain;

impl Summing for Plain {
    fn copy(&self, from: &[u8], to: &mut [u8]) -> Sum {
        to.copy_from_slice(from);
        Sum::of(to)
    }

    fn sum(&self, bytes: &[u8]) -> Sum {
        Sum::of(bytes)
    }
}

/// Gives what the test says, `None` being an error, a packet a call, and sleeps by a waker.
struct Script {
    next: mpsc::Receiver<Option<Vec<u8>>>,
    news: Waker,
    /// Packets that were taken.
    taken: Arc<AtomicUsize>,
}

impl Receiver for Script {
    fn batch(&self) -> Arena {
        Arena::new(64, false)
    }

    fn receive(&mut self, into: &mut Arena, summing: &dyn Summing) -> io::Result<()> {
        let Ok(next) = self.next.try_recv() else { return Ok(()) };
        let bytes = &next.ok_or(io::ErrorKind::NotConnected)?;
        let (checksum, segmentation) = (Checksum::InPlace, Segmentation::None);
        into.push(&RxPacket { bytes, checksum, segmentation }, summing);
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn wait(&mut self, waker: &Waker) -> io::Result<()> {
        wake::wait(self.news.as_fd(), waker, None, false)?;
        self.news.drain();
        Ok(())
    }
}

/// What the device of a [`Script`] has.
struct Device {
    packets: mpsc::Sender<Option<Vec<u8>>>,
    news: Waker,
    taken: Arc<AtomicUsize>,
}

impl Device {
    fn has(&self, next: Option<&[u8]>) {
        self.packets.send(next.map(<[u8]>::to_vec)).unwrap();
        self.news.wake();
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

fn config() -> Config {
    Config { cpu: None, spin: Duration::from_micros(20) }
}

fn device() -> (Script, Device) {
    let ((packets, next), news, taken) =
        (mpsc::channel(), Waker::new().unwrap(), Arc::<AtomicUsize>::default());
    let script = Script { next, news: news.clone(), taken: taken.clone() };
    (script, Device { packets, news, taken })
}

fn scripted() -> (Intake, Device) {
    let (script, device) = device();
    (Intake::new(|| Ok(Box::new(script)), Box::new(Plain), config()).unwrap(), device)
}

fn is_readable(intake: &Intake, patience: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(intake.as_fd(), PollFlags::IN)];
    wake::sleep(&mut fds, Some(patience)).unwrap() > 0
}

/// The packets that come next.
fn next(intake: &mut Intake) -> Vec<Vec<u8>> {
    assert!(is_readable(intake, PATIENCE), "nothing came in time");
    let count = intake.receive().unwrap();
    assert!(count > 0, "what can be read tells of packets");
    (0..count).map(|i| intake.packet(i).bytes.to_vec()).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn packets_come_whole_and_in_order_with_their_sums() {
    let all = memory::Config { link: Link::Ip, checksum: true, ..memory::Config::default() };
    let (mut ours, mut theirs) = memory::pair(all).unwrap();
    let mut intake = Intake::new(|| ours.receiver(), Box::new(Plain), config()).unwrap();
    let content = |n: usize| vec![n as u8; 20 + n % 1400];
    let partial = Checksum::Partial { start: 2, offset: 16 };
    let (mut given, mut seen) = (0, 0);
    while seen < 3000 {
        for n in given..(given + 100).min(3000) {
            let checksum = if n % 3 == 0 { partial } else { Checksum::InPlace };
            let packet = TxPacket { header: &content(n), checksum, ..TxPacket::default() };
            assert_eq!(theirs.transmit(&[packet]).unwrap(), 1);
        }
        given = (given + 100).min(3000);
        assert_eq!(ours.receive().unwrap(), 0, "another thread has them");
        let count = intake.receive().unwrap();
        for index in 0..count {
            let RxPacket { bytes, checksum, .. } = intake.packet(index);
            assert_eq!(bytes, content(seen), "packet {seen}");
            let expected = if seen % 3 == 0 { partial } else { Checksum::Summed(Sum::of(bytes)) };
            assert_eq!(checksum, expected, "packet {seen}");
            seen += 1;
        }
    }
}

#[test]
fn what_there_is_no_room_for_stays_with_the_device() {
    let (mut intake, device) = scripted();
    let count = BATCHES * 3;
    (0..count).for_each(|n| device.has(Some(&[n as u8; 40])));
    // A packet a batch, as this device gives them.
    wait_until("all batches are full", || device.taken() == BATCHES);
    let mut came = Vec::new();
    while came.len() < count {
        assert!(device.taken() <= came.len() + BATCHES + 1, "more than there is room for");
        came.extend(next(&mut intake));
    }
    let expected: Vec<_> = (0..count).map(|n| vec![n as u8; 40]).collect();
    assert_eq!(came, expected);
}

#[test]
fn who_sleeps_is_woken_and_whoever_finds_nothing_may_sleep() {
    let (mut intake, device) = scripted();
    for n in 0..50 {
        assert!(!is_readable(&intake, Duration::ZERO), "nothing waits, round {n}");
        assert_eq!(intake.receive().unwrap(), 0);
        device.has(Some(&[n; 60]));
        assert_eq!(next(&mut intake), [[n; 60]]);
    }
    // As long as something waits.
    (0..3).for_each(|n| device.has(Some(&[n; 60])));
    wait_until("they are taken", || device.taken() == 53);
    let mut came = Vec::new();
    while came.len() < 3 {
        came.extend(next(&mut intake));
    }
    assert!(!is_readable(&intake, Duration::ZERO));
}

#[test]
fn what_the_device_says_is_told_behind_what_came_before() {
    let (mut intake, device) = scripted();
    device.has(Some(&[1; 60]));
    device.has(None);
    device.has(Some(&[2; 60]));
    assert_eq!(next(&mut intake), [[1; 60]]);
    assert!(is_readable(&intake, PATIENCE), "an error is news");
    assert_eq!(intake.receive().unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(next(&mut intake), [[2; 60]], "it goes on");
}

#[test]
fn the_thread_ends_wherever_it_sleeps() {
    let (on_the_device, _quiet) = scripted();
    drop(on_the_device);
    let (for_room, device) = scripted();
    (0..BATCHES * 2).for_each(|_| device.has(Some(&[0; 60])));
    wait_until("all batches are full", || device.taken() == BATCHES);
    drop(for_room);
    let (on_its_error, device) = scripted();
    device.has(None);
    assert!(is_readable(&on_its_error, PATIENCE));
    drop(on_its_error);
}

#[test]
fn a_processor_that_is_not_there_is_said_to_be_and_takes_nothing_away() {
    let nowhere = Config { cpu: Some(1 << 20), ..config() };
    let (mut ours, mut theirs) = memory::pair(memory::Config::default()).unwrap();
    let error = Intake::new(|| ours.receiver(), Box::new(Plain), nowhere).err().unwrap();
    assert!(error.to_string().contains("processor 1048576"), "{error}");
    theirs.transmit(&[TxPacket { header: &[1; 60], ..TxPacket::default() }]).unwrap();
    assert_eq!(ours.receive().unwrap(), 1, "who drives the stack has them as before");
}

#[test]
fn one_thread_alone_receives() {
    let (mut ours, mut theirs) = memory::pair(memory::Config::default()).unwrap();
    let mut intake = Intake::new(|| ours.receiver(), Box::new(Plain), config()).unwrap();
    let second = Intake::new(|| ours.receiver(), Box::new(Plain), config()).err().unwrap();
    assert_eq!(second.kind(), io::ErrorKind::Unsupported, "{second}");
    theirs.transmit(&[TxPacket { header: &[1; 60], ..TxPacket::default() }]).unwrap();
    assert_eq!(next(&mut intake), [[1; 60]]);
}

/// Finds nothing but what is malformed, and panics at the third look if it is to.
struct Faulty {
    looks: Arc<AtomicUsize>,
    panics: bool,
}

impl Receiver for Faulty {
    fn batch(&self) -> Arena {
        Arena::new(64, false)
    }

    fn receive(&mut self, into: &mut Arena, _: &dyn Summing) -> io::Result<()> {
        let looks = self.looks.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics || looks < 2, "as the test wants it");
        into.malformed += u64::from(looks < 5);
        Ok(())
    }

    fn wait(&mut self, waker: &Waker) -> io::Result<()> {
        wake::wait(waker.as_fd(), waker, Some(Duration::from_millis(1)), false).map(|_| ())
    }
}

fn faulty(panics: bool) -> (Intake, Arc<AtomicUsize>) {
    let looks = Arc::<AtomicUsize>::default();
    let receiver = Faulty { looks: looks.clone(), panics };
    (Intake::new(|| Ok(Box::new(receiver)), Box::new(Plain), config()).unwrap(), looks)
}

#[test]
fn what_is_malformed_is_counted_before_a_packet_comes() {
    let (intake, looks) = faulty(false);
    wait_until("it looked", || looks.load(Ordering::SeqCst) > 6);
    assert_eq!(intake.malformed(), 5);
}

#[test]
fn a_thread_that_panics_is_said_to_be_gone() {
    let (mut intake, _) = faulty(true);
    assert!(is_readable(&intake, PATIENCE), "nobody was told");
    for _ in 0..3 {
        assert_eq!(intake.receive().unwrap_err().kind(), io::ErrorKind::Other);
    }
    assert!(is_readable(&intake, Duration::ZERO));
}
