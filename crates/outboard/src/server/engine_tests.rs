//! What an engine keeps of its sockets, without a server around it.

use std::sync::{Arc, Mutex};

use fusewire_device::Waker;
use fusewire_device::interface::{Link, memory};
use fusewire_stack::Clock;
use fusewire_stack::ip::Config;

use super::*;
use crate::protocol::{Family, SocketType};
use crate::server::table::Owner;

#[test]
fn a_socket_is_on_the_list_of_those_held_back_once() {
    let clock = Clock::new();
    let (ours, _theirs) =
        memory::pair(memory::Config { link: Link::Ip, ..memory::Config::default() }).unwrap();
    let net = Stack::net_config(&ours);
    let stack = Stack::new(Box::new(ours), net, Config::default(), [7; 32], clock.now());
    let stack = Arc::new(Mutex::new(stack));
    let xtp = Xtp::new(stack.clone(), clock.clone(), Waker::new().unwrap());
    let budget = Budget { bytes: 100, ..Budget::default() };
    let mut engine = Engine::new(budget, Policy::new(&[], 7), xtp).unwrap();
    let (of, now) = (SocketType { family: Family::V4, kind: Kind::Stream }, clock.now());
    let owner = Owner { uid: 7, pid: 1, payer: 7 };
    let mut stack = stack.lock().unwrap();
    let (none, all) = (Charged::default(), Charged { bytes: 100, packets: 0 });
    // To and fro, also of sockets that come in the place of others.
    for _ in 0..10 {
        let (handle, _p) = engine.open(of, owner, State::Fresh, now).unwrap();
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
