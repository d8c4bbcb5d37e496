//! What an engine keeps of its sockets, without a server around it.

use std::sync::{Arc, Mutex};

use fusewire_device::Waker;
use fusewire_device::interface::{Link, memory};
use fusewire_stack::Clock;
use fusewire_stack::ip::Config;

use super::*;
use crate::protocol::{Family, Message, Reply, Request, SocketType};
use crate::server::requests::Asker;
use crate::server::table::Owner;

const OWNER: Owner = Owner { uid: 7, pid: 1, payer: 7 };

fn engine(budget: Budget, clock: &Clock) -> (Engine, Arc<Mutex<Stack>>) {
    let (ours, _theirs) =
        memory::pair(memory::Config { link: Link::Ip, ..memory::Config::default() }).unwrap();
    let net = Stack::net_config(&ours);
    let stack = Stack::new(Box::new(ours), net, Config::default(), [7; 32], clock.now());
    let stack = Arc::new(Mutex::new(stack));
    let xtp = Xtp::new(stack.clone(), clock.clone(), Waker::new().unwrap(), budget.entries());
    (Engine::new(budget, Policy::new(&[], OWNER.uid), xtp).unwrap(), stack)
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
