//! A stack that can be asked what it does.

use std::io;

use fusewire_device::capture::feed::{Blocks, Options};

use super::*;
use crate::asked::{Asked, Last, Visible};
use crate::generations;
use crate::observe::{Head, Numbers};

impl Stack {
    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire capture`.
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn observe(&mut self) -> io::Result<()> {
        if self.asked.is_none() {
            self.asked = Some(Asked::new(self.device.waker())?);
        }
        Ok(())
    }

    /// What all connections counted, those too that are over.
    pub fn counters(&self) -> Counters {
        let mut all = self.past;
        self.connections.iter().flatten().for_each(|c| all.add(c.machine.counters()));
        all
    }

    fn listener(&self) -> Option<Numbers> {
        let listening = self.listening.as_ref()?;
        // As a connection's, unless what carries it has no ports.
        let mut local = self.device.local_addr();
        if local.port() == 0 {
            local.set_port(listening.port);
        }
        Some(Numbers {
            state: "LISTEN",
            send_queue: listening.listener.half_open() as u64,
            ..Numbers::new(settings(&self.config).name(), "listener".into(), local)
        })
    }
}

impl Visible for Stack {
    fn head(&self) -> Head {
        let (caps, protocol) = (self.device.caps(), settings(&self.config).name());
        let cookies = if protocol == "tcp" { "tcp_syn_cookies" } else { "cookies_given" };
        Head {
            protocol,
            device: caps.name,
            address: self.device.local_addr(),
            mtu: caps.max_datagram,
            dropped: self.dropped(),
            counted: vec![(cookies, self.cookies())],
            past: self.past,
        }
    }

    /// A connection's addresses are those of the datagrams that carry it.
    fn sockets(&self, from: usize, most: usize) -> (Vec<Numbers>, Option<usize>) {
        let protocol = settings(&self.config).name();
        let mut numbers = Vec::with_capacity(most + 1);
        numbers.extend(self.listener().filter(|_| from == 0));
        let most = most + numbers.len();
        for (index, connection) in self.connections.iter().enumerate().skip(from) {
            let Some(connection) = connection else { continue };
            if numbers.len() == most {
                return (numbers, Some(index));
            }
            let (machine, ends) = (&connection.machine, connection.ends);
            let id = self.id(index as u32);
            let info = machine.info();
            let name = format!("{}.{}", id.index, id.generation);
            numbers.push(Numbers {
                remote: Some(ends.remote),
                state: machine.state_name(),
                send_queue: info.unacked,
                names: machine.names(),
                info: Some(info),
                ..Numbers::new(protocol, name, ends.local)
            });
        }
        (numbers, None)
    }

    fn last(&self, name: &str) -> Option<Last> {
        let (index, generation) = generations::parse(name)?;
        let entries = self.trace(ConnectionId { index, generation })?;
        let letters = settings(&self.config).letters();
        Some(Last { entries, letters, now: self.clock.now() })
    }

    fn begin_capture(&mut self, options: Options) -> Option<Blocks> {
        self.capture(options)
    }
}
