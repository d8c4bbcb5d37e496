//! What an engine keeps of its sockets, without a server around it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_device::interface::{Link, memory};
use fusewire_device::{Shared, Waker};
use fusewire_stack::Clock;
use fusewire_stack::ip::{self, Config};

use super::*;
use crate::protocol::{
    FAILURE, Family, Handle, KEY_LEN, Message, OptionName, Reply, Request, SocketType,
};
use crate::region::{BLOCKS_LEN, RINGS_LEN, Slot};
use crate::ring::{self, BUSY, Progress, REVOKED, Ring, Word};
use crate::server::requests::Asker;
use crate::server::table::Owner;
use crate::words::Words;

const OWNER: Owner = Owner { uid: 7, pid: 1, payer: 7 };

fn engine(budget: Budget, clock: &Clock) -> (Engine, Arc<Mutex<Stack>>) {
    let (engine, stack, _peer) = engine_and_peer(budget, clock);
    (engine, stack)
}

/// An engine whose stack is 10.0.0.1, and 10.0.0.2.
fn engine_and_peer(budget: Budget, clock: &Clock) -> (Engine, Arc<Mutex<Stack>>, Stack) {
    let (ours, theirs) =
        memory::pair(memory::Config { link: Link::Ip, ..memory::Config::default() }).unwrap();
    let stack = |interface: memory::Memory, host| {
        let mut net = Stack::net_config(&interface);
        net.addresses = vec![format!("10.0.0.{host}/24").parse().unwrap()];
        Stack::new(Box::new(interface), net, Config::default(), [host; 32], clock.now())
    };
    let (peer, stack) = (stack(theirs, 2), Arc::new(Mutex::new(stack(ours, 1))));
    let xtp = Xtp::new(stack.clone(), clock.clone(), Waker::new().unwrap(), budget.entries());
    (Engine::new(budget, Policy::new(&[], OWNER.uid), xtp).unwrap(), stack, peer)
}

/// Lets both work until nothing more happens now.
fn settle(stacks: [&mut Stack; 2], now: Instant) {
    let [one, other] = stacks;
    while one.poll(now).unwrap() | other.poll(now).unwrap() {}
}

/// What the engine answers to the process whose sockets are these.
fn ask(engine: &mut Engine, stack: &mut Stack, now: Instant, request: Request<'_>) -> Message {
    let asker = Asker { guest: 0, owner: OWNER, fd: None };
    engine.answer(stack, now, &request, asker).0
}

/// And the byte of a doorbell is nothing that the peer has sent.
#[test]
fn what_was_left_unread_resets_also_where_it_is_found_before_it_is_shown() {
    let clock = Clock::new();
    for is_unread in [true, false] {
        let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
        let (mut stack, mut now) = (stack.lock().unwrap(), clock.now());
        let listener = peer.tcp_listen(([10, 0, 0, 2], 7).into(), 1).unwrap();
        let id = stack.tcp_connect(now, ([10, 0, 0, 2], 7).into()).unwrap();
        settle([&mut stack, &mut peer], now);
        let (remote, _) = peer.tcp_accept(listener).unwrap().unwrap();
        let of = SocketType { family: Family::V4, kind: Kind::Stream };
        let (handle, p) = engine.open(of, OWNER, State::Stream(id), now).unwrap();
        let index = engine.table.index_of(handle.socket).unwrap();
        engine.shown(index, epoll::EventFlags::OUT);
        let mut comes = |engine: &mut Engine, stack: &mut Stack, now| {
            // What was sent before is acknowledged.
            settle([stack, &mut peer], now);
            assert_eq!(peer.tcp_write(remote, b"bytes"), Ok(5));
            peer.transmit(now).unwrap();
            settle([stack, &mut peer], now);
            engine.turn(stack, now, index).unwrap();
            assert!(rustix::io::ioctl_fionread(&p).unwrap() > 0);
        };
        comes(&mut engine, &mut stack, now);
        if !is_unread {
            recv(&p, &mut [0; 5], RecvFlags::empty()).unwrap();
        }
        let (key, files) = engine.regions.make(0, OWNER.payer, 1).unwrap();
        let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
        let blocks = Shared::adopt(files[1].as_fd(), BLOCKS_LEN, false).unwrap();
        let leased = ask(&mut engine, &mut stack, now, Request::Lease(handle, key));
        let Ok(Reply::Leased(slot)) = Reply::parse(&leased) else { panic!("no lease") };
        if !is_unread {
            // It has read all, and has not taken out the doorbell.
            let slot = Slot { rings: &rings, blocks: &blocks, index: slot as usize };
            assert_eq!(ring::arm(&slot), Ok(ring::After::Rest));
            now += Duration::from_secs(1);
            comes(&mut engine, &mut stack, now);
            let (read, unread) = ring::unread(&slot).unwrap();
            let consumed = ring::consume(&slot, read, unread, 5);
            assert_eq!((unread, consumed), (5, Ok(Some(ring::After::Drain))));
        }
        drop(p);
        // For something that it had sent.
        engine.shown(index, epoll::EventFlags::IN);
        for _ in 0..8 {
            engine.turn(&mut stack, now, index).unwrap();
        }
        stack.transmit(now).unwrap();
        settle([&mut stack, &mut peer], now);
        let end = if is_unread { Err(ip::Error::Reset) } else { Ok(Some(0)) };
        assert_eq!(peer.tcp_read(remote, &mut [0; 9]), end);
    }
}

/// The memory of a region, as its application has it.
fn adopt(files: &[OwnedFd; 2]) -> [Shared; 2] {
    [
        Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap(),
        Shared::adopt(files[1].as_fd(), BLOCKS_LEN, false).unwrap(),
    ]
}

/// A stream to port 7 of the peer's with a lease in the region of that key: which lease that is, and the placeholder's other end.
fn leased(
    (engine, stack, now): (&mut Engine, &mut Stack, Instant),
    peer: &mut Stack,
    key: [u8; KEY_LEN],
) -> (Handle, usize, OwnedFd) {
    let id = stack.tcp_connect(now, ([10, 0, 0, 2], 7).into()).unwrap();
    settle([stack, peer], now);
    let of = SocketType { family: Family::V4, kind: Kind::Stream };
    let (handle, p) = engine.open(of, OWNER, State::Stream(id), now).unwrap();
    let leased = ask(engine, stack, now, Request::Lease(handle, key));
    let Ok(Reply::Leased(slot)) = Reply::parse(&leased) else { panic!("no lease") };
    (handle, slot as usize, p)
}

/// The application writes a message of 64 bytes: how much it has written.
fn writes(slot: &Slot<'_>) -> u64 {
    let (position, _) = ring::room(slot, &mut 0, 64).unwrap();
    ring::commit(slot, position, 64).unwrap();
    position + 64
}

#[test]
fn short_messages_one_behind_the_other_are_taken_together() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, mut now) = (stack.lock().unwrap(), clock.now());
    let listener = peer.tcp_listen(([10, 0, 0, 2], 7).into(), 1).unwrap();
    let (key, files) = engine.regions.make(0, OWNER.payer, 1).unwrap();
    let [rings, blocks] = adopt(&files);
    let (handle, number, _p) = leased((&mut engine, &mut stack, now), &mut peer, key);
    let (remote, _) = peer.tcp_accept(listener).unwrap().unwrap();
    let index = engine.table.index_of(handle.socket).unwrap();
    let slot = Slot { rings: &rings, blocks: &blocks, index: number };
    let writes = || writes(&slot);
    let all = writes();
    assert!(engine.turn(&mut stack, now, index).unwrap());
    assert_eq!(slot.given(), all, "nothing was taken before");
    let before = slot.given();
    for _ in 0..20 {
        writes();
        now += Duration::from_micros(1);
        assert!(!engine.turn(&mut stack, now, index).unwrap(), "it has nothing else to do");
        assert_eq!((slot.given(), engine.gathers()), (before, true));
    }
    let all = writes();
    // Some turns are without a look.
    let turns = (0..10).take_while(|_| !engine.turn(&mut stack, now, index).unwrap()).count();
    assert_eq!((turns < 10, slot.given()), (true, all), "he writes no more");
    engine.hear(now);
    engine.turn(&mut stack, now, index).unwrap();
    assert!(!engine.gathers(), "nothing waits");
    // Who answers does not write on.
    assert_eq!(peer.tcp_write(remote, b"asks"), Ok(4));
    peer.transmit(now).unwrap();
    settle([&mut stack, &mut peer], now);
    engine.turn(&mut stack, now, index).unwrap();
    let all = writes();
    assert!(engine.turn(&mut stack, now, index).unwrap());
    assert_eq!(slot.given(), all);
}

#[test]
fn who_uncorks_or_asks_for_no_delay_does_not_wait_for_more() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    peer.tcp_listen(([10, 0, 0, 2], 7).into(), 1).unwrap();
    let (key, files) = engine.regions.make(0, OWNER.payer, 1).unwrap();
    let [rings, blocks] = adopt(&files);
    let (handle, number, _p) = leased((&mut engine, &mut stack, now), &mut peer, key);
    let index = engine.table.index_of(handle.socket).unwrap();
    let slot = Slot { rings: &rings, blocks: &blocks, index: number };
    let set = |engine: &mut Engine, stack: &mut Stack, level, name| {
        let name = OptionName { level, name };
        let done = ask(engine, stack, now, Request::SetOption(handle, name, &1i32.to_ne_bytes()));
        assert_eq!(Reply::parse(&done), Ok(Reply::Done));
    };
    slot.set_cork(true);
    set(&mut engine, &mut stack, libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    assert!(slot.is_corked(), "nobody has asked for that");
    let all = writes(&slot);
    engine.turn(&mut stack, now, index).unwrap();
    assert_eq!(slot.given(), all, "nothing was taken before");
    let more = writes(&slot);
    engine.turn(&mut stack, now, index).unwrap();
    assert_eq!(slot.given(), all, "it waits, corked or not");
    slot.set_cork(false);
    engine.turn(&mut stack, now, index).unwrap();
    assert_eq!(slot.given(), more);
    let all = writes(&slot);
    engine.turn(&mut stack, now, index).unwrap();
    assert_eq!(slot.given(), more);
    set(&mut engine, &mut stack, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    engine.turn(&mut stack, now, index).unwrap();
    assert_eq!(slot.given(), all);
}

#[test]
fn who_gathers_keeps_nobody_from_being_heard() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, mut now) = (stack.lock().unwrap(), clock.now());
    peer.tcp_listen(([10, 0, 0, 2], 7).into(), 3).unwrap();
    let (key, files) = engine.regions.make(0, OWNER.payer, 2).unwrap();
    let [rings, blocks] = adopt(&files);
    let other = adopt(&engine.regions.make(1, OWNER.payer, 2).unwrap().1);
    let all = [(); 3].map(|()| leased((&mut engine, &mut stack, now), &mut peer, key));
    let [one, two, third] =
        all.each_ref().map(|(_, index, _)| Slot { rings: &rings, blocks: &blocks, index: *index });
    let indices = all.each_ref().map(|(handle, ..)| engine.table.index_of(handle.socket).unwrap());
    let (mut unheard, mut rested) = (0, 0);
    for round in 0..1000 {
        now += Duration::from_micros(1);
        // The other begins later: they rest in different rounds.
        for slot in [Some(one), (round > 10).then_some(two)].into_iter().flatten() {
            writes(&slot);
            slot.tell();
        }
        // Something is acknowledged: who writes has a turn, whether he was heard or not.
        indices[..2].iter().for_each(|index| engine.table.mark(*index));
        third.tell();
        other[0].fetch_or(0, 1);
        engine.hear(now);
        assert_eq!(other[0].load(0), 0, "those of others are not gathered from");
        let is_heard = rings.load(0) & third.bit() == 0;
        unheard = if is_heard { 0 } else { unheard + 1 };
        rested += u32::from(!is_heard);
        assert!(unheard < 3, "in round {round}");
        for _ in 0..engine.table.ready() {
            let index = engine.table.next_ready().unwrap();
            engine.turn(&mut stack, now, index).unwrap();
        }
        settle([&mut stack, &mut peer], now);
    }
    assert!(rested > 100, "in {rested} rounds alone the word was left to who writes it");
}

#[test]
fn a_socket_is_on_the_list_of_those_held_back_once() {
    let clock = Clock::new();
    let (mut engine, stack) = engine(Budget { bytes: 100, ..Budget::default() }, &clock);
    let (of, now) = (SocketType { family: Family::V4, kind: Kind::Stream }, clock.now());
    let mut stack = stack.lock().unwrap();
    let (none, all) = (Charged::default(), Charged { bytes: 100, packets: 0 });
    // To and fro, also of sockets that come in the place of others.
    for _ in 0..10 {
        let (handle, _p) = engine.open(of, OWNER, State::Fresh, now).unwrap();
        let index = engine.table.index_of(handle.socket).unwrap();
        for _ in 0..10 {
            for (before, has) in [(none, all), (all, none)] {
                engine.accounts.charge(7, &before, &has);
                let mut socket = engine.table.take(index).unwrap();
                engine.hold_back(index, &mut socket, &mut stack);
                assert_eq!(socket.is_held_back, has == all);
                engine.table.put(index, socket);
            }
        }
        engine.table.remove(index);
    }
    assert_eq!(engine.held_back.len(), 1);
}

#[test]
fn who_has_half_of_the_ports_or_services_has_sockets_that_take_none() {
    let clock = Clock::new();
    let (mut engine, stack) = engine(Budget::default(), &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    for kind in [Kind::Stream, Kind::Messages] {
        let of = SocketType { family: Family::V4, kind };
        let ask = |engine: &mut Engine, stack: &mut Stack, request: Request<'_>| {
            let asker = Asker { guest: 0, owner: OWNER, fd: None };
            engine.answer(stack, now, &request, asker)
        };
        let made = |(message, files): (Message, [Option<OwnedFd>; 2])| match Reply::parse(&message)
        {
            Ok(Reply::Opened(handle, _)) => (handle, files),
            other => panic!("{other:?}"),
        };
        let done = |(message, _): (Message, [Option<OwnedFd>; 2])| match Reply::parse(&message) {
            Ok(Reply::Done) => Ok(()),
            Ok(Reply::Failed(error)) => Err(Errno::from_raw_os_error(error as i32)),
            other => panic!("{other:?}"),
        };
        // All of half but one.
        while engine.accounts.admit_bound(OWNER.payer, kind).is_ok() {
            engine.accounts.add_bound(OWNER.payer, kind, now);
        }
        engine.accounts.remove_bound(OWNER.payer, kind);
        let bind = |handle| Request::Bind(handle, of.family.unspecified());
        let [first, second, third] =
            [(); 3].map(|()| made(ask(&mut engine, &mut stack, Request::Socket(of))));
        assert_eq!(done(ask(&mut engine, &mut stack, bind(first.0))), Ok(()));
        assert_eq!(done(ask(&mut engine, &mut stack, bind(second.0))), Err(Errno::NOBUFS));
        assert_eq!(
            done(ask(&mut engine, &mut stack, Request::Listen(third.0, 1))),
            Err(Errno::NOBUFS)
        );
        // With its socket the port is free, and what it was of all.
        let index = engine.table.index_of(first.0.socket).unwrap();
        let first = engine.table.remove(index).unwrap();
        engine.end(*first, &mut stack, now, false);
        assert_eq!(done(ask(&mut engine, &mut stack, bind(second.0))), Ok(()));
        assert_eq!(done(ask(&mut engine, &mut stack, bind(third.0))), Err(Errno::NOBUFS));
    }
}

/// A stream with a lease, by hand.
struct Leased {
    p: OwnedFd,
    index: u32,
    /// The peer's end.
    remote: SocketId,
    memory: [Shared; 2],
    slot: usize,
}

impl Leased {
    fn new(engine: &mut Engine, [stack, peer]: [&mut Stack; 2], now: Instant) -> Leased {
        let listener = peer.tcp_listen(([10, 0, 0, 2], 7).into(), 1).unwrap();
        let id = stack.tcp_connect(now, ([10, 0, 0, 2], 7).into()).unwrap();
        settle([stack, peer], now);
        let (remote, _) = peer.tcp_accept(listener).unwrap().unwrap();
        let of = SocketType { family: Family::V4, kind: Kind::Stream };
        let (handle, p) = engine.open(of, OWNER, State::Stream(id), now).unwrap();
        let index = engine.table.index_of(handle.socket).unwrap();
        let (key, files) = engine.regions.make(0, OWNER.payer, 1).unwrap();
        let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
        let blocks = Shared::adopt(files[1].as_fd(), BLOCKS_LEN, false).unwrap();
        let leased = ask(engine, stack, now, Request::Lease(handle, key));
        let Ok(Reply::Leased(slot)) = Reply::parse(&leased) else { panic!("no lease") };
        Leased { p, index, remote, memory: [rings, blocks], slot: slot as usize }
    }

    fn slot(&self) -> Slot<'_> {
        Slot { rings: &self.memory[0], blocks: &self.memory[1], index: self.slot }
    }

    /// The peer sends so much, which comes as far as there is room.
    fn comes(&self, engine: &mut Engine, stacks: [&mut Stack; 2], now: Instant, len: usize) {
        let ([stack, peer], mut left) = (stacks, vec![7; len]);
        for _ in 0..1000 {
            let sent = peer.tcp_write(self.remote, &left).unwrap();
            left.drain(..sent);
            peer.transmit(now).unwrap();
            settle([&mut *stack, &mut *peer], now);
            assert!(comes_to_rest(engine, stack, now));
            if left.is_empty() {
                return;
            }
        }
        panic!("{} bytes have no room", left.len());
    }

    /// The peer resets.
    fn ends(&self, engine: &mut Engine, stacks: [&mut Stack; 2], now: Instant) {
        let [stack, peer] = stacks;
        peer.abort(now, self.remote).unwrap();
        settle([&mut *stack, &mut *peer], now);
        assert!(comes_to_rest(engine, stack, now));
    }

    /// How many bytes come by the placeholder, and whether its end does.
    fn piped(&self, engine: &mut Engine, stack: &mut Stack, now: Instant) -> (usize, bool) {
        let (mut all, mut bytes) = (0, vec![0; 65_536]);
        loop {
            engine.table.mark(self.index);
            assert!(comes_to_rest(engine, stack, now));
            match recv(&self.p, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, len @ 1..)) => all += len,
                Ok(_) | Err(Errno::CONNRESET) => return (all, true),
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN);
                    return (all, false);
                }
            }
        }
    }
}

/// All turns are had, until nothing is told any more; false when there is no end to it.
fn comes_to_rest(engine: &mut Engine, stack: &mut Stack, now: Instant) -> bool {
    let mut events = Vec::with_capacity(16);
    for _ in 0..1000 {
        while let Some((id, event)) = stack.poll_event() {
            engine.happened(id, event);
        }
        let is_ready = engine.table.next_ready();
        if let Some(index) = is_ready {
            engine.turn(stack, now, index).unwrap();
        }
        events.clear();
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&engine.epoll, room, Some(&zero)).unwrap();
        for event in &events {
            engine.shown(event.data.u64() as u32, event.flags);
        }
        if is_ready.is_none() && events.is_empty() {
            return true;
        }
    }
    false
}

/// Whoever says that he is taking a doorbell out, and never does, keeps no processor busy.
#[test]
fn a_lease_that_cannot_be_settled_is_left_in_peace() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
    leased.comes(&mut engine, [&mut stack, &mut peer], now, 5);
    leased.slot().fetch_or(Word::Read, REVOKED | BUSY);
    for _ in 0..3 {
        engine.table.mark(leased.index);
        assert!(comes_to_rest(&mut engine, &mut stack, now));
    }
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (0, false), "a bell may lie there");
    Progress::quiet(&leased.slot());
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (5, false));
    leased.comes(&mut engine, [&mut stack, &mut peer], now, 70_000);
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (70_000, false));
}

/// Its user has all the memory that he may have, of which nothing is freed.
#[test]
fn what_was_written_to_who_resets_holds_back_nothing_that_came() {
    let clock = Clock::new();
    let budget = Budget { bytes: 1 << 30, ..Budget::default() };
    let (mut engine, stack, mut peer) = engine_and_peer(budget, &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
    let slot = leased.slot();
    let all = slot.ring_bytes() as usize + 30_000;
    leased.comes(&mut engine, [&mut stack, &mut peer], now, all);
    let charged = Charged { bytes: 1 << 30, packets: 0 };
    engine.accounts.charge(OWNER.payer, &Charged::default(), &charged);
    ring::commit(&slot, 0, 4).unwrap();
    leased.ends(&mut engine, [&mut stack, &mut peer], now);
    assert!(ring::give_up(&slot));
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (all, true));
}

/// All of it in the ring when the connection is reset, and more than goes at once by the placeholder, which somebody else has then.
#[test]
fn what_came_before_a_reset_is_there_for_another_process() {
    let clock = Clock::new();
    for is_taken_back in [false, true] {
        let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
        let (mut stack, now) = (stack.lock().unwrap(), clock.now());
        let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
        let slot = leased.slot();
        leased.comes(&mut engine, [&mut stack, &mut peer], now, 100_000);
        let q = &engine.table.at(leased.index).unwrap().q;
        rustix::net::sockopt::set_socket_send_buffer_size(q, 4096).unwrap();
        if is_taken_back {
            ring::commit(&slot, 0, 4).unwrap();
            assert!(ring::give_up(&slot));
            engine.table.mark(leased.index);
            assert!(comes_to_rest(&mut engine, &mut stack, now));
            rustix::io::write(&leased.p, b"more").unwrap();
        }
        leased.ends(&mut engine, [&mut stack, &mut peer], now);
        if !is_taken_back {
            assert!(ring::give_up(&slot));
        }
        let piped = leased.piped(&mut engine, &mut stack, now);
        assert_eq!(piped, (100_000, true), "{is_taken_back}");
    }
}

#[test]
fn who_has_read_what_came_before_a_reset_is_at_its_end() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
    let slot = leased.slot();
    leased.comes(&mut engine, [&mut stack, &mut peer], now, 100);
    leased.ends(&mut engine, [&mut stack, &mut peer], now);
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (0, false));
    for len in [60, 40] {
        let (read, unread) = ring::unread(&slot).unwrap();
        assert_eq!(ring::consume(&slot, read, unread, len), Ok(Some(ring::After::Tell)));
    }
    assert_eq!(leased.piped(&mut engine, &mut stack, now), (0, true));
}

/// Of a placeholder that is used neither way any more no last close is seen.
#[test]
fn who_has_shut_down_what_comes_is_told_of_a_reset() {
    let clock = Clock::new();
    let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
    let (mut stack, now) = (stack.lock().unwrap(), clock.now());
    let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
    let handle = engine.table.at(leased.index).unwrap().handle;
    leased.comes(&mut engine, [&mut stack, &mut peer], now, 100);
    rustix::net::shutdown(&leased.p, rustix::net::Shutdown::Read).unwrap();
    leased.ends(&mut engine, [&mut stack, &mut peer], now);
    assert_eq!(error_of(&mut engine, &mut stack, handle, libc::SO_ERROR), libc::ECONNRESET);
}

/// `SO_ERROR`, or the same by another name.
fn error_of(engine: &mut Engine, stack: &mut Stack, handle: Handle, name: i32) -> i32 {
    let name = OptionName { level: libc::SOL_SOCKET, name };
    let answer = ask(engine, stack, Clock::new().now(), Request::Option(handle, name));
    let Ok(Reply::Value(value)) = Reply::parse(&answer) else { panic!("no value") };
    i32::from_ne_bytes(value[..].try_into().unwrap())
}

#[test]
fn who_finishes_and_then_resets_has_broken_the_pipe_of_who_writes_alone() {
    let clock = Clock::new();
    for is_read in [false, true] {
        let (mut engine, stack, mut peer) = engine_and_peer(Budget::default(), &clock);
        let (mut stack, now) = (stack.lock().unwrap(), clock.now());
        let leased = Leased::new(&mut engine, [&mut stack, &mut peer], now);
        let handle = engine.table.at(leased.index).unwrap().handle;
        leased.comes(&mut engine, [&mut stack, &mut peer], now, 100);
        peer.tcp_finish(leased.remote).unwrap();
        peer.transmit(now).unwrap();
        if is_read {
            let slot = leased.slot();
            let (read, unread) = ring::unread(&slot).unwrap();
            assert_eq!(ring::consume(&slot, read, unread, 100), Ok(Some(ring::After::Rest)));
        }
        leased.ends(&mut engine, [&mut stack, &mut peer], now);
        let mut error_of = |name| error_of(&mut engine, &mut stack, handle, name);
        assert_eq!(
            [FAILURE, libc::SO_ERROR, libc::SO_ERROR].map(&mut error_of),
            [0, libc::EPIPE, 0]
        );
    }
}
