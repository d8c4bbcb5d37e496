//! A stack over a machine that is not TCP: handshake, ADUs both ways, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_device::memory::{self, Network};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_transport::machine::Secrets;

use crate::{Clock, Config, ConnectionId, Event, Keep, Stack};

const SERVICE: u16 = 7;

struct Side {
    stack: Stack,
    id: Option<ConnectionId>,
    is_connected: bool,
    has_finished: bool,
    is_over: bool,
    sent: usize,
    got: usize,
}

fn adu(n: usize) -> Vec<u8> {
    (0..[100, 1100, 9000, 0][n % 4]).map(|at| (at * 7 + n) as u8).collect()
}

impl Side {
    fn turn(&mut self, count: usize) {
        while self.stack.poll(&mut Keep).unwrap() {}
        // What has come is gone with the event that the connection is over.
        while let Some((index, body)) = self.id.and_then(|id| self.stack.recv(id)) {
            assert_eq!((index, &body), (self.got as u64, &adu(self.got)));
            self.got += 1;
        }
        while let Some((id, event)) = self.stack.poll_event() {
            self.id = Some(id);
            match event {
                Event::Connected { .. } => self.is_connected = true,
                Event::Finished => self.has_finished = true,
                Event::Closed(error) => {
                    assert!(error.is_none(), "{error:?}");
                    self.is_over = true;
                }
                Event::Readable | Event::Writable | Event::Called | Event::Answered => {}
            }
        }
        let Some(id) = self.id.filter(|_| self.is_connected) else { return };
        while self.sent < count && self.stack.send(id, &adu(self.sent)).unwrap() {
            self.sent += 1;
            if self.sent == count {
                self.stack.finish(id);
            }
        }
        self.stack.flush();
    }
}

#[test]
fn a_stack_runs_over_any_machine() {
    const COUNT: usize = 200;
    let network = Network::new(memory::Config { coalesce: true, ..memory::Config::default() });
    let ns = Arc::new(AtomicU64::new(1));
    let [mut client, mut server] = ["192.0.2.1:1", "192.0.2.2:2"].map(|address| {
        let device = network.attach(address.parse().unwrap()).unwrap();
        let config = Config { clock: Clock::virtual_ns(ns.clone()), ..Config::default() };
        let stack = Stack::new(Box::new(device), config, &[1; 32]);
        let (is_connected, has_finished, is_over) = (false, false, false);
        Side { stack, id: None, is_connected, has_finished, is_over, sent: 0, got: 0 }
    });
    let identity = Arc::new(Identity::ephemeral().unwrap());
    let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
    server.stack.listen(SERVICE, ServerConfig::new(identity.clone()), &secrets);
    let pinned = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    let to = server.stack.local_addr();
    client.stack.connect(to, SERVICE, &pinned).unwrap();
    for _ in 0..10_000 {
        ns.fetch_add(100_000, Ordering::Relaxed);
        client.turn(COUNT);
        server.turn(COUNT);
        if client.is_over && server.is_over {
            break;
        }
    }
    for side in [&client, &server] {
        assert!(side.has_finished && side.is_over);
        assert_eq!((side.sent, side.got), (COUNT, COUNT));
        assert!(side.stack.drops().named().all(|(_, n)| n == 0));
    }
}
