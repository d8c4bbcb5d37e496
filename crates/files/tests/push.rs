//! ADUs that a stack opens straight into memory of the machines', beside ADUs that the machines ask for.

mod support;

use fusewire_base::Instant;
use fusewire_files::channel::{Channel, ChannelError, Received, Sent};
use fusewire_files::client::{get, put};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::{Element, Machine, Scratch};
use std::sync::Arc;
use support::*;

/// Gives nothing: what comes is pushed.
struct Push<'a>(&'a mut MemoryChannel, bool);

impl Channel for Push<'_> {
    fn max_adu(&self) -> usize {
        self.0.max_adu()
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn send(&mut self, adu: &[u8]) -> Result<Sent, ChannelError> {
        self.0.send(adu)
    }

    fn recv(&mut self, _: &mut [u8]) -> Result<Received, ChannelError> {
        Ok(if self.1 { Received::Finished } else { Received::Nothing })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.0.finish()
    }
}

/// Pushes up to `most` ADUs, wiping the memory of every third try as a stack does whose tag was wrong; then
/// turns the machine. True when it is finished.
fn push<M: Machine>(
    machine: &mut M,
    channel: &mut MemoryChannel,
    scratch: &mut Scratch,
    most: usize,
) -> bool {
    let mut ended = false;
    for n in 0..most {
        let Some(memory) = machine.place(&mut scratch.intake).unwrap() else { break };
        if n % 3 == 2 {
            memory[..2000].fill(0);
            machine.dropped(&mut scratch.intake);
            continue;
        }
        match channel.recv(memory).unwrap() {
            Received::Adu { len } => machine.delivered(&mut scratch.intake, len).unwrap(),
            other => {
                ended = other == Received::Finished;
                machine.dropped(&mut scratch.intake);
                break;
            }
        }
    }
    machine.flush(&mut scratch.intake).unwrap();
    machine.turn(&mut Push(channel, ended), scratch, Instant::ZERO).unwrap().finished
}

fn run<M: Machine>(share: &Arc<fusewire_files::server::Share>, mut worker: M, settings: Settings) {
    let (mut server, mut client) = memory::pair(settings);
    let mut session = share.session(Element::Octets);
    let mut scratch = Scratch::new();
    for n in 1..100_000 {
        let finished = push(&mut worker, &mut client, &mut scratch, n % 40);
        if push(&mut session, &mut server, &mut scratch, n % 7) && finished {
            return;
        }
    }
    panic!("stalled");
}

#[test]
fn pushed_adus_make_the_same_files() {
    let (from, there, back) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    for (max_adu, reorder) in [(1408, 0), (1408, 30), (65_000, 3)] {
        let settings = Settings { max_adu, reorder, ..Settings::default() };
        let name = format!("{max_adu}-{reorder}");
        let log = Arc::default();
        let source = put::Source::from_path(from.path()).unwrap();
        let plan = put::Plan::new(source, remote(&name), put::Options::default(), observer(&log));
        let share = share(there.path(), true);
        run(&share, plan.worker(Element::Octets), settings);
        assert_eq!(log.lock().unwrap().failed, []);
        assert_eq!(tree(&there.path().join(&name)), tree(from.path()));
        let (plan, log) = get_plan(&name, &back.path().join(&name), get::Options::default());
        run(&share, plan.worker(Element::Octets), settings);
        assert_eq!(log.lock().unwrap().failed, []);
        assert_eq!(tree(&back.path().join(&name)), tree(from.path()));
    }
}
