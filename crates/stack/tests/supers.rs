//! Bulk over XTP goes to the device in super-packets, as TCP's does: several packets of one length in one call, which UDP has
//! leave, and come, together.

mod support;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fusewire_device::{Device, RxBatch, SuperPacket, TxFrame};
use fusewire_stack::Config;
use fusewire_stack::context::{
    About, Config as ContextsConfig, Contexts, ControlBlock, Event, Kept,
};
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::machine::Secrets;
use support::{content, join, over};

/// Packets of Ethernet's length, so that there are many.
const PACKET: usize = 1452;
const LARGE: usize = PACKET * 9 / 10;
/// Bytes of bulk, in messages of so many.
const BULK: usize = 8 << 20;
const ADU: usize = 64 << 10;

/// Of what had the length of bulk: what left, what left with another of its length in the same call; and what came as one
/// with others.
#[derive(Default)]
struct Seen {
    left: AtomicUsize,
    together: AtomicUsize,
    came_together: AtomicUsize,
}

impl Seen {
    fn left(&self, frames: &[TxFrame<'_>]) {
        for run in frames.chunk_by(|a, b| (a.peer, a.len()) == (b.peer, b.len())) {
            if run[0].len() > LARGE {
                self.left.fetch_add(run.len(), Relaxed);
                self.together.fetch_add(if run.len() > 1 { run.len() } else { 0 }, Relaxed);
            }
        }
    }

    fn came(&self, batch: &RxBatch) {
        let joined =
            |it: &SuperPacket<'_>| it.segment_len > LARGE && it.bytes.len() > it.segment_len;
        let came = batch.iter().filter(joined).map(|it| it.frames().count()).sum();
        self.came_together.fetch_add(came, Relaxed);
    }
}

/// A device that notes how its frames leave and come.
fn noting() -> (impl Device, Arc<Seen>) {
    let seen = Arc::<Seen>::default();
    let (left, came) = (seen.clone(), seen.clone());
    let device = support::shown(
        PACKET,
        move |frames: &[TxFrame<'_>]| left.left(frames),
        move |batch: &RxBatch| came.came(batch),
    );
    (device, seen)
}

/// Whether what leaves one together comes so to the other.
fn joins(ours: &impl Device, theirs: &impl Device) -> bool {
    ours.caps().segmentation_offload && theirs.caps().receive_offload
}

/// Nearly all of bulk leaves in company, and where the kernel joins packets it comes so.
fn assert_together(what: &str, sender: &Seen, receiver: &Seen, joins: bool) {
    let of = |counter: &AtomicUsize| counter.load(Relaxed);
    let (left, together) = (of(&sender.left), of(&sender.together));
    let came = of(&receiver.came_together);
    println!("{what}: {left} packets, {together} of them together; {came} came so");
    assert!(left >= BULK / PACKET, "{what}: {left}");
    assert!(together * 10 >= left * 9, "{what}: {together} of {left}");
    assert!(!joins || came * 2 >= left, "{what}: {came} of {left}");
}

#[test]
fn streams_leave_in_super_packets() {
    let config =
        Config { transport: either::Config::of_records(Protocol::Xtp), ..Config::default() };
    let ((ours, sent), (theirs, came)) = (noting(), noting());
    let joins = joins(&ours, &theirs);
    let pair = join(over(ours, config.clone()), over(theirs, config));
    let (client, server) = pair.connect();
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..BULK / ADU {
                client.send(&content(n, ADU)).unwrap();
            }
            client.finish().unwrap();
        });
        for n in 0..BULK / ADU {
            assert!(server.recv_adu().unwrap().unwrap() == content(n, ADU), "{n}");
        }
        assert_eq!(server.recv_adu().unwrap(), None);
        server.finish().unwrap();
    });
    assert_together("streams", &sent, &came, joins);
}

#[test]
fn contexts_leave_in_super_packets() {
    let ((ours, sent), (theirs, came)) = (noting(), noting());
    let joins = joins(&ours, &theirs);
    let to = theirs.local_addr();
    let contexts =
        |device, seed| Contexts::new(Box::new(device), ContextsConfig::default(), &[seed; 32]);
    let (mut ours, mut theirs) = (contexts(ours, 1), contexts(theirs, 2));
    let block = || ControlBlock { packet_bytes: Some(PACKET), ..ControlBlock::default() };
    theirs.listen(7, block(), &Secrets { isn: [3; 16], cookie: [4; 16] });
    std::thread::scope(|s| {
        s.spawn(|| {
            let context = ours.context(block()).unwrap();
            ours.connect(context, to, 7).unwrap();
            let mut said = 0;
            loop {
                while said < BULK / ADU {
                    let message = content(said, ADU);
                    let about = About::default();
                    if !ours.send(context, &[IoSlice::new(&message)], about).unwrap() {
                        break;
                    }
                    said += 1;
                }
                if said == BULK / ADU {
                    ours.finish(context);
                }
                ours.poll(&mut Kept).unwrap();
                if core::iter::from_fn(|| ours.poll_event())
                    .any(|(_, event)| matches!(event, Event::Closed(_)))
                {
                    break;
                }
                ours.wait(ours.next_timeout()).unwrap();
            }
        });
        let mut told = 0;
        while told < BULK / ADU {
            theirs.poll(&mut Kept).unwrap();
            while let Some((context, event)) = theirs.poll_event() {
                if let Event::Message(message) = event {
                    assert!(
                        theirs.message(context, &message).concat() == content(told, ADU),
                        "{told}"
                    );
                    theirs.release(context, &message);
                    told += 1;
                    if told == BULK / ADU {
                        theirs.finish(context);
                    }
                }
            }
            theirs.wait(theirs.next_timeout()).unwrap();
        }
        // Until the other knows it.
        while theirs.count() > 0 {
            theirs.poll(&mut Kept).unwrap();
            if core::iter::from_fn(|| theirs.poll_event())
                .any(|(_, event)| matches!(event, Event::Closed(_)))
            {
                break;
            }
            theirs.wait(theirs.next_timeout()).unwrap();
        }
    });
    assert_together("contexts", &sent, &came, joins);
}
