//! Ends of a group of which one does what no application can have it do: keys that come late, or never; a session that is many; a
//! member that takes nothing.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;

use fusewire_session::DataPass;
use fusewire_stack::Connection;
use fusewire_stack::group::{ReceiverConfig, ReceiverEvent};

use super::*;
use crate::group::{Counters, Receiver, TURN, visit, wire};
use crate::profile::{Machine, Order};

const SAMPLE: Adu = Adu {
    order: Order::Newest,
    deadline: Some(Duration::from_millis(200)),
    is_resent: false,
    len_max: 100,
    ..Adu::new("Sample", 0)
};
const EVENT: Adu =
    Adu { order: Order::None, is_resent: false, len_max: 100, ..Adu::new("Event", 1) };
const ALARM: Adu =
    Adu { deadline: Some(Duration::from_secs(8)), len_max: 3000, ..Adu::new("Alarm", 2) };
const ALL: &[Adu] = &[SAMPLE, EVENT, ALARM];

macro_rules! end {
    ($name:ident: $sends:expr, $takes:expr) => {
        pub(in crate::group) struct $name;

        impl Profile for $name {
            const NAME: &'static str = "tested";
            const MACHINE: Machine = Machine::Group;
            const SENDS: &'static [Adu] = $sends;
            const TAKES: &'static [Adu] = $takes;
            const MTU: usize = 1000;
            const RECEIVERS: (usize, usize) = (1, 8);
            const CAST_RATES: [u32; 2] = [400_000, 100_000];
        }
    };
}

end!(Plant: ALL, &[]);
end!(Viewer: &[], ALL);

pub(in crate::group) struct Host {
    sender: Sender<Plant>,
    place: Place,
    identity: Arc<Identity>,
}

/// What a receiver was handed, how it ended, and what it counted.
type Taken = (Vec<(u8, u8)>, Result<()>, Counters);

impl Host {
    pub(in crate::group) fn new() -> Host {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let (pid, next) = (std::process::id(), NEXT.fetch_add(2, Ordering::Relaxed));
        let group = ([239, 254, (pid >> 8) as u8, pid as u8], 21_000 + next);
        let place = Place {
            interface: Some("lo".into()),
            ..Place::new(([127, 0, 0, 1], 0).into(), group.into())
        };
        let identity = Arc::new(Identity::ephemeral().unwrap());
        let sender = Sender::open(&place, identity.clone(), Allow::OwnKey).unwrap();
        Host { sender, place, identity }
    }

    fn key(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    /// A receiver that has not heard the group yet.
    pub(in crate::group) fn come(&self) -> Receiver<Viewer> {
        let at = self.sender.local_addr();
        Receiver::join(at, Some("lo"), self.identity.clone(), self.key()).unwrap()
    }

    /// While `does` does, the sender's thread does nothing.
    pub(in crate::group) fn hold<T>(&self, does: impl FnOnce() -> T) -> T {
        let _state = self.sender.shared.lock();
        does()
    }

    /// A receiver, which is there.
    fn join(&self) -> Receiver<Viewer> {
        let (before, mut receiver) = (self.sender.receivers(), self.come());
        while self.sender.receivers() == before {
            is_elapsed(&receiver.recv(Some(Duration::from_millis(5)), |_, _| true));
        }
        receiver
    }

    /// A session that says it is a receiver by this key, and was told where the group is and its keys.
    fn visit(&self, key: u64) -> Connection {
        let session = self.knock(key);
        for _ in 0..2 {
            session.recv_adu_timeout(Duration::from_secs(5)).unwrap().unwrap();
        }
        session
    }

    /// One that has said so, and was told nothing yet.
    fn knock(&self, key: u64) -> Connection {
        let at = self.sender.local_addr();
        visit::<Viewer>(at, self.identity.clone(), self.key(), Some(key)).unwrap()
    }

    /// What asks to be a member of what is sent again, by this key, as soon as it is driven.
    fn asks(&self, key: u64, buffer: usize) -> stack::group::Receiver {
        let interface = Some("lo".to_owned());
        let config = ReceiverConfig { interface, buffer, ..ReceiverConfig::new(self.place.group) };
        let mut receiver = stack::group::Receiver::open(&config).unwrap();
        loop {
            receiver.drive(Some(Duration::from_millis(20))).unwrap();
            if let Some(ReceiverEvent::Heard(heard)) = receiver.poll_event() {
                receiver.join(&heard, key).unwrap();
                return receiver;
            }
        }
    }

    fn members(&self) -> usize {
        self.sender.shared.lock().members()
    }

    /// Takes what comes until the sender has ended.
    fn take_all(self, mut receiver: Receiver<Viewer>) -> Taken {
        thread::scope(|scope| {
            scope.spawn(|| self.sender.finish(Duration::from_secs(10)).unwrap());
            let mut taken = Vec::new();
            let ended = loop {
                match receiver.recv(Some(Duration::from_secs(10)), |_, _| true) {
                    Ok(Some((number, body))) => taken.push((number, body[0])),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            (taken, ended, receiver.counters())
        })
    }
}

#[track_caller]
fn is_elapsed<T: std::fmt::Debug>(result: &Result<Option<T>>) {
    assert!(matches!(result, Err(Error::Stack(stack::Error::Elapsed))), "{result:?}");
}

fn cast(state: &mut State, adu: &Adu, n: u8) {
    let sent = state.clock.now();
    assert!(state.cast(stream_of(adu), adu.number, sent, &&[n; 8][..]).unwrap());
}

/// Both streams go on in an epoch that nobody is told of.
fn renew_untold(state: &mut State) {
    for (key, cast) in state.keys.epochs.iter_mut().zip(state.casts.iter_mut().flatten()) {
        *key = draw(key.epoch + 1, key.cipher).unwrap();
        cast.seals.renew(key).unwrap();
    }
}

/// What a member makes up goes to what must arrive in the place of the next that is genuine, as of that epoch.
fn forge(state: &mut State, epoch: u32, count: u8) {
    let cipher = state.keys.epochs[RESENT].cipher;
    let key = GroupKey::new(epoch, cipher, [7; 32]);
    let forged = GroupSender::new(&key, 4000, DataPass::detect()).unwrap();
    let cast_of = |state: &mut State, seals| {
        std::mem::replace(&mut state.casts[RESENT].as_mut().unwrap().seals, seals)
    };
    let genuine = cast_of(state, forged);
    (0..count).for_each(|n| cast(state, &ALARM, n));
    cast_of(state, genuine);
}

/// Somebody leaves before each ADU, and no thread has a turn between: each is of another epoch, all are told in order, and who
/// stays reads all, though it was away.
#[test]
fn each_epoch_is_told_before_the_next() {
    let host = Host::new();
    let stays = host.join();
    let mut state = host.sender.shared.lock();
    for n in 0..100 {
        state.casts.iter_mut().flatten().for_each(|cast| cast.is_stale = true);
        cast(&mut state, &EVENT, n);
        cast(&mut state, &ALARM, n);
    }
    assert_eq!(state.keys.epochs.each_ref().map(|key| key.epoch), [101, 101]);
    drop(state);
    thread::sleep(Duration::from_millis(500));
    let (taken, ended, counters) = host.take_all(stays);
    ended.unwrap();
    for adu in [EVENT, ALARM] {
        let its: Vec<_> = taken.iter().filter(|(number, _)| *number == adu.number).collect();
        assert!(its.iter().map(|(_, n)| *n).eq(0..100), "{}: {its:?}", adu.name);
    }
    assert_eq!((counters.lost, counters.refused), (0, 0));
}

/// However often somebody leaves while there is no room, nothing is told that nothing is sealed in.
#[test]
fn no_epoch_begins_in_which_nothing_is_sealed() {
    let host = Host::new();
    let _stays = host.join();
    let mut state = host.sender.shared.lock();
    let sends = |state: &mut State| {
        let sent = state.clock.now();
        state.casts[RESENT].as_mut().unwrap().is_stale = true;
        state.cast(RESENT, ALARM.number, sent, &&[1; 3000][..]).unwrap()
    };
    let sent = (0..10_000).take_while(|_| sends(&mut state)).count() as u32;
    assert!((100..10_000).contains(&sent), "{sent}");
    assert_eq!((0..50).filter(|_| sends(&mut state)).count(), 0);
    assert_eq!(state.keys.epochs[RESENT].epoch, 1 + sent);
}

/// More epochs begin than can be kept, before what is sealed in them is asked for: the session waits, and nothing is missed.
#[test]
fn who_is_behind_hears_of_more_epochs_later() {
    let host = Host::new();
    let mut stays = host.join();
    for n in 0..12 {
        let mut state = host.sender.shared.lock();
        for _ in 0..100 {
            state.casts[RESENT].as_mut().unwrap().is_stale = true;
            cast(&mut state, &ALARM, n);
        }
        drop(state);
        thread::sleep(Duration::from_millis(30));
        let came = stays.recv(Some(Duration::from_secs(5)), |_, _| true).unwrap();
        assert_eq!(came.map(|(number, body)| (number, body[0])), Some((ALARM.number, 0)));
    }
    let (taken, ended, counters) = host.take_all(stays);
    ended.unwrap();
    assert_eq!((taken.len(), counters.refused), (1200 - 12, 0));
}

/// Nor is it passed over as what was sealed before this end came.
#[test]
fn what_is_forged_as_of_an_old_epoch_is_missed() {
    let host = Host::new();
    let receiver = host.join();
    let mut state = host.sender.shared.lock();
    forge(&mut state, 0, 1);
    cast(&mut state, &ALARM, 1);
    drop(state);
    let (taken, ended, counters) = host.take_all(receiver);
    assert_eq!((taken, counters.refused), (vec![(ALARM.number, 1)], 1));
    assert!(matches!(ended, Err(Error::Group("has ended, and not all has come"))), "{ended:?}");
}

/// However many of them there are.
#[test]
fn what_is_forged_as_of_a_later_epoch_holds_up_once() {
    let host = Host::new();
    let mut receiver = host.join();
    let mut state = host.sender.shared.lock();
    forge(&mut state, 500, 3);
    cast(&mut state, &ALARM, 9);
    drop(state);
    let begun = Instant::now();
    let came = receiver.recv(Some(Duration::from_secs(18)), |_, _| true);
    let came = came.map(|came| came.map(|(number, body)| (number, body[0])));
    assert!(matches!(came, Ok(Some((2, 9)))), "{came:?}");
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    assert_eq!(receiver.counters().refused, 3);
}

#[test]
fn what_comes_before_its_keys_waits_for_them() {
    let host = Host::new();
    let mut receiver = host.join();
    let mut state = host.sender.shared.lock();
    renew_untold(&mut state);
    for n in 0..5 {
        cast(&mut state, &EVENT, n);
        cast(&mut state, &ALARM, n);
    }
    drop(state);
    is_elapsed(&receiver.recv(Some(Duration::from_millis(150)), |_, _| true));
    let mut state = host.sender.shared.lock();
    let State { door, keys, .. } = &mut *state;
    door.owe(keys);
    drop(state);
    let (taken, ended, counters) = host.take_all(receiver);
    ended.unwrap();
    assert_eq!((taken.len(), counters.lost, counters.refused), (10, 0, 0));
}

/// Who comes while what was sealed before its keys is still on its way misses nothing that is its own.
#[test]
fn what_was_sealed_before_one_came_spoils_nothing() {
    assert!((0..5).any(|_| one_comes_in_time()), "whoever came, all had arrived");
}

/// False: when it was there nothing was on its way any more.
fn one_comes_in_time() -> bool {
    let host = Host::new();
    let mut stays = host.join();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = stays.recv(Some(Duration::from_millis(5)), |_, _| true).map(drop);
            }
        });
        // More than two seconds of the stream's rate.
        for _ in 0..330 {
            assert!(host.sender.send_message(&ALARM, &&[1; 3000][..]).unwrap());
        }
        let mut state = host.sender.shared.lock();
        state.casts.iter_mut().flatten().for_each(|cast| cast.is_stale = true);
        state.renew_if_stale(RESENT).unwrap();
        drop(state);
        let comes = host.join();
        let mut state = host.sender.shared.lock();
        let is_in_time = state.casts[RESENT].as_ref().is_some_and(|c| c.sender.acked() < c.end);
        cast(&mut state, &ALARM, 2);
        assert_eq!(state.keys.epochs[RESENT].epoch, 2);
        drop(state);
        let (taken, ended, counters) = host.take_all(comes);
        is_over.store(true, Ordering::Relaxed);
        ended.unwrap();
        assert_eq!((taken, counters.refused), (vec![(ALARM.number, 2)], 0));
        is_in_time
    })
}

/// What nobody can open is waited for a while, and then is missing: of what must arrive that is no end in order.
#[test]
fn what_nobody_was_told_the_keys_of_is_missing() {
    let host = Host::new();
    let receiver = host.join();
    let mut state = host.sender.shared.lock();
    renew_untold(&mut state);
    cast(&mut state, &EVENT, 1);
    cast(&mut state, &ALARM, 1);
    if let Some(cast) = &mut state.casts[ONCE] {
        cast.is_stale = true;
    }
    // The next keys of the one stream have the untold ones of the other with them: they are to be others.
    state.keys.epochs[RESENT] = draw(1, state.keys.epochs[RESENT].cipher).unwrap();
    cast(&mut state, &EVENT, 2);
    drop(state);
    let (taken, ended, counters) = host.take_all(receiver);
    assert_eq!(taken, [(EVENT.number, 2)]);
    assert!(matches!(ended, Err(Error::Group("has ended, and not all has come"))), "{ended:?}");
    assert_eq!(counters.refused, 1);
}

/// Who asks from many places by the key of one session is one member, though all ask before any is answered.
#[test]
fn a_session_is_one_member() {
    let host = Host::new();
    let _session = host.visit(77);
    let mut all: Vec<_> = (0..4).map(|_| host.asks(77, 1 << 16)).collect();
    let state = host.sender.shared.lock();
    all.iter_mut().for_each(|one| one.drive(Some(Duration::ZERO)).unwrap());
    drop(state);
    thread::sleep(Duration::from_millis(300));
    let state = host.sender.shared.lock();
    let members: Vec<_> =
        state.casts[RESENT].iter().flat_map(|cast| cast.sender.members()).collect();
    let known = state.door.sessions()[0].member;
    assert_eq!(members.iter().map(|member| Some(member.id)).collect::<Vec<_>>(), [known]);
}

/// Who has not joined what is sent again hears nothing, whatever it says.
#[test]
fn who_does_not_hear_is_no_receiver() {
    let host = Host::new();
    let says = host.visit(77);
    says.send(&wire::READY).unwrap();
    let told = says.recv_adu_timeout(Duration::from_secs(5)).map(drop);
    assert!(matches!(told, Err(stack::Error::PeerClosed { code: code::WRONG, .. })), "{told:?}");
    assert_eq!(host.sender.receivers(), 0);
}

/// Whoever comes when too many have come waits for his turn, and is let in.
#[test]
fn who_comes_while_many_do_waits() {
    let host = Host::new();
    let (begun, wait) = (Instant::now(), Duration::from_millis(1500));
    {
        let admissions = &mut host.sender.shared.lock().door.admissions;
        (admissions.left, admissions.since) = (0, begun + wait);
    }
    let receivers = [host.join(), host.join()];
    assert!(begun.elapsed() > wait, "{:?}", begun.elapsed());
    assert_eq!(host.sender.receivers(), receivers.len());
}

/// Who comes and goes again and again is told keys as often as it may be, and then nothing.
#[test]
fn who_comes_and_goes_begins_few_epochs() {
    let host = Host::new();
    let mut stays = host.join();
    host.sender.shared.lock().door.admissions.left = 2;
    let visits = |n: u64| {
        host.visit(1000 + n);
        host.sender.send_message(&ALARM, &&[1; 8][..]).unwrap();
    };
    (0..2).for_each(visits);
    stays.recv(Some(Duration::from_secs(5)), |_, _| true).unwrap();
    let (begun, wait) = (Instant::now(), Duration::from_millis(1500));
    {
        let admissions = &mut host.sender.shared.lock().door.admissions;
        (admissions.left, admissions.since) = (0, begun + wait);
    }
    visits(2);
    assert!(begun.elapsed() > wait, "{:?}", begun.elapsed());
}

/// Whose turn does not come is let go: a place is not kept by waiting.
#[test]
fn who_waits_too_long_for_its_turn_is_let_go() {
    let host = Host::new();
    let begun = Instant::now();
    {
        let admissions = &mut host.sender.shared.lock().door.admissions;
        (admissions.left, admissions.since) = (0, begun + Duration::from_secs(3600));
    }
    let session = host.knock(79);
    let waits = |session: &Session| session.key.is_some();
    while host.sender.shared.lock().door.session(waits).is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    // It is not let go before.
    let early = session.recv_adu_timeout(Duration::from_millis(500)).map(drop);
    assert!(matches!(early, Err(stack::Error::Elapsed)), "{early:?}");
    let long_ago = begun.checked_sub(TURN).expect("the machine has run for so long");
    host.sender.shared.lock().door.session(waits).expect("it waits").waits = Some(long_ago);
    let told = session.recv_adu_timeout(Duration::from_secs(5)).map(drop);
    assert!(matches!(told, Err(stack::Error::PeerClosed { code: code::LET_GO, .. })), "{told:?}");
}

/// Nor does it keep a place by saying nothing.
#[test]
fn who_does_not_say_that_it_hears_is_let_go() {
    let host = Host::new();
    let told = host.visit(78).recv_adu_timeout(Duration::from_secs(12)).map(drop);
    assert!(matches!(told, Err(stack::Error::PeerClosed { code: code::LET_GO, .. })), "{told:?}");
}

/// Whether or not the specification has a floor.
#[test]
fn who_takes_nothing_holds_nobody() {
    let host = Host::new();
    let mut good = host.join();
    let visited = Instant::now();
    let (_session, mut bad) = (host.visit(77), host.asks(77, 8 << 10));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                bad.drive(Some(Duration::from_millis(5))).unwrap();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = good.recv(Some(Duration::from_millis(5)), |_, _| true).map(drop);
            }
        });
        while host.members() < 2 && visited.elapsed() < Duration::from_secs(3) {
            thread::sleep(Duration::from_millis(5));
        }
        let before = host.members();
        // More than the end that takes has memory for.
        let mut sent = (0..600).map(|n| host.sender.send_message(&ALARM, &&[n as u8; 3000][..]));
        let stands = sent.find(|sent| !matches!(sent, Ok(true)));
        is_over.store(true, Ordering::Relaxed);
        assert!(stands.is_none(), "{stands:?}");
        assert_eq!(before, 2);
        // Its session ends ten seconds after it has come in any case, as it does not say that it hears.
        assert!(visited.elapsed() < Duration::from_secs(9), "{:?}", visited.elapsed());
        assert_eq!(host.members(), 1);
    });
}

/// The newest waits until all has been opened that came behind it; that counts.
#[test]
fn what_has_waited_is_late() {
    let host = Host::new();
    let mut receiver = host.join();
    let mut state = host.sender.shared.lock();
    for adu in [SAMPLE, EVENT, EVENT] {
        cast(&mut state, &adu, 0);
    }
    drop(state);
    thread::sleep(Duration::from_millis(100));
    for _ in 0..2 {
        let came = receiver.recv(Some(Duration::from_secs(5)), |_, _| true).unwrap();
        assert_eq!(came.map(|(number, _)| number), Some(EVENT.number));
        thread::sleep(Duration::from_millis(150));
    }
    let (taken, ended, counters) = host.take_all(receiver);
    ended.unwrap();
    assert_eq!((taken, counters.expired, counters.delivered), (vec![], 1, 2));
}

#[test]
fn no_stream_waits_for_the_other_to_be_empty() {
    let host = Host::new();
    let receiver = host.join();
    let mut state = host.sender.shared.lock();
    cast(&mut state, &EVENT, 0);
    (0..20).for_each(|n| cast(&mut state, &ALARM, n));
    drop(state);
    thread::sleep(Duration::from_millis(300));
    let (taken, ended, _) = host.take_all(receiver);
    ended.unwrap();
    let at = taken.iter().position(|(number, _)| *number == EVENT.number);
    assert!(taken.len() == 21 && at.is_some_and(|at| at < 3), "{taken:?}");
}

#[test]
fn packets_are_no_longer_than_the_path_takes() {
    let place = Host::new().place;
    let config = config::<Plant>(&place, RESENT, 3000, 1);
    assert_eq!((config.packet_len, config.carried_by, config.floor), (1000 - 28, 28, 1));
}

/// A newer ADU takes the place of an older one of its key, and of no other.
#[test]
fn newest_is_judged_by_its_key() {
    for (keys, expected, overtaken) in [(1, vec![19], 19), (4, vec![16, 17, 18, 19], 16)] {
        let host = Host::new();
        let mut receiver = host.join();
        let mut state = host.sender.shared.lock();
        (0..20).for_each(|n| cast(&mut state, &SAMPLE, n));
        drop(state);
        // All of it lies in the socket before the receiver looks.
        thread::sleep(Duration::from_millis(200));
        let mut taken = Vec::new();
        let key_of = |_: u8, bytes: &[u8]| Some(u64::from(bytes[0]) % keys);
        while let Ok(Some((_, bytes))) = receiver.recv_by(Some(Duration::from_millis(200)), key_of)
        {
            taken.push(bytes[0]);
        }
        assert_eq!((taken, receiver.counters().overtaken), (expected, overtaken), "{keys} keys");
    }
}

/// Values that differ have other keys, in one process always the same.
#[test]
fn keys_are_those_of_values() {
    let key = |text: &str| crate::group::key_of(&text);
    assert_eq!(key("A"), key("A"));
    assert_ne!(key("A"), key("B"));
    assert_ne!(crate::group::key_of(&1), crate::group::key_of(&2));
}
