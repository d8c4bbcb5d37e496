//! The rings of a lease, whose words and contents an application writes as it likes, honestly or not: the outboard believes
//! a position that can be, and no other; reads a record that is one, within its ring; and loses count of nothing.
use fusewire_device::{Shared, Writers};
use fusewire_outboard::record::{HEAD_LEN, Head, MESSAGE_MAX};
use fusewire_outboard::region::{BLOCKS_LEN, RINGS_LEN, Slot, WIDE_FROM, Way, places, ring_bytes};
use fusewire_outboard::ring::{self, ARMED, BUSY, POSITION, Progress, REVOKED, RUNG, Ring, Word};
use fusewire_outboard::words::Words;

use crate::Choices;

const STEPS_MAX: usize = 200;

thread_local! {
    /// A region, which takes longer to make than a run.
    static REGION: (Shared, Shared) = (
        Shared::create(RINGS_LEN, Writers::All).expect("memory for rings").1,
        Shared::create(BLOCKS_LEN, Writers::Maker).expect("memory for blocks").1,
    );
}

/// What the outboard must believe: where it is in both rings, and the last positions that could be.
#[derive(Default)]
struct Model {
    taken: u64,
    sent: u64,
    head: u64,
    read: u64,
}

impl Model {
    /// The position that a word has, if it may have it.
    fn look(word: u64, known: &mut u64, most: u64) -> Result<u64, ()> {
        let found = word & POSITION;
        if !(*known..=most).contains(&found) {
            return Err(());
        }
        *known = found;
        Ok(found)
    }

    fn sent(&mut self, slot: &Slot<'_>) -> Result<u64, ()> {
        let most = self.taken + ring_bytes(slot.index);
        Model::look(slot.load(Word::Sent), &mut self.sent, most)
    }

    fn read(&mut self, slot: &Slot<'_>) -> Result<u64, ()> {
        Model::look(slot.load(Word::Read), &mut self.read, self.head)
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let index = [0, WIDE_FROM - 1, WIDE_FROM][usize::from(choices.u8() % 3)];
    REGION.with(|(rings, blocks)| {
        let slot = Slot { rings, blocks, index };
        slot.begin(0, false);
        let (mut progress, mut model) = (Progress::default(), Model::default());
        let mut written = Vec::new();
        for _ in 0..STEPS_MAX {
            if choices.is_empty() {
                break;
            }
            let goes_on = match choices.u8() % 4 {
                0 => lie(&slot, &model, &mut written, &mut choices),
                1 => apply(&slot, &mut choices),
                2 => take(&slot, &mut progress, &mut model, &mut choices),
                _ => show(&slot, &mut progress, &mut model, &mut choices),
            };
            if goes_on.is_err() {
                // The lease ends: what it still owes is what it believed before.
                break;
            }
        }
        end(&slot, &mut progress, &model);
        // The next run finds what this one found.
        for (position, len) in written {
            write(&slot, position, &vec![0; len]);
        }
    });
}

fn write(slot: &Slot<'_>, position: u64, bytes: &[u8]) {
    let [(first, front), (second, _)] = places(slot.index, Way::Out, position, bytes.len());
    slot.rings.write(first, &bytes[..front]);
    slot.rings.write(second, &bytes[front..]);
}

fn u64_of(choices: &mut Choices<'_>) -> u64 {
    u64::from(choices.u32()) << 32 | u64::from(choices.u32())
}

/// The application writes what it likes where it may write.
fn lie(
    slot: &Slot<'_>,
    model: &Model,
    written: &mut Vec<(u64, usize)>,
    choices: &mut Choices<'_>,
) -> Result<(), ()> {
    match choices.u8() % 6 {
        0 => slot.store(Word::Sent, u64_of(choices)),
        1 => slot.store(Word::Read, u64_of(choices)),
        // Steps that an honest one takes, with the flags of any.
        2 => {
            let flags = u64::from(choices.u8()) << 56;
            slot.store(Word::Sent, (model.sent + u64::from(choices.u16())) & POSITION | flags);
        }
        3 => {
            let flags = u64::from(choices.u8()) << 56;
            slot.store(Word::Read, (model.read + u64::from(choices.u16())) & POSITION | flags);
        }
        4 => slot.set_pushed(u64_of(choices)),
        _ => {
            let at = model.taken + u64::from(choices.u8());
            let len = usize::from(choices.u8());
            let bytes = choices.bytes(len);
            write(slot, at, bytes);
            written.push((at, bytes.len()));
        }
    }
    Ok(())
}

/// The application's own calls, on whatever the words say now.
fn apply(slot: &Slot<'_>, choices: &mut Choices<'_>) -> Result<(), ()> {
    let all = slot.ring_bytes();
    match choices.u8() % 6 {
        0 => {
            let mut taken = u64::from(choices.u16());
            if let Ok((position, room)) = ring::room(slot, &mut taken, 1) {
                assert!(room <= all);
                let _ = ring::commit(slot, position, room.min(u64::from(choices.u16())));
            }
        }
        1 => {
            if let Ok((read, unread)) = ring::unread(slot) {
                assert!(unread <= all);
                let _ = ring::consume(slot, read, unread, unread.min(u64::from(choices.u16())));
            }
        }
        2 => drop(ring::arm(slot)),
        3 => {
            if ring::drain(slot) == Ok(true) {
                ring::drained(slot, choices.u8() & 1 == 1);
            }
        }
        4 => ring::disarm(slot),
        _ => drop(ring::give_up(slot)),
    }
    Ok(())
}

/// The outboard looks at what was written, and takes some.
fn take(
    slot: &Slot<'_>,
    progress: &mut Progress,
    model: &mut Model,
    choices: &mut Choices<'_>,
) -> Result<(), ()> {
    let expected = model.sent(slot).map(|sent| (model.taken, sent - model.taken));
    let found =
        progress.written(slot).map_err(|violation| assert!(!violation.to_string().is_empty()));
    assert_eq!(found, expected);
    let (from, len) = found?;
    assert!(len <= ring_bytes(slot.index));
    if len >= HEAD_LEN as u64
        && let Ok(head) = Head::read(slot, Way::Out, from)
    {
        assert!(head.len <= MESSAGE_MAX && head.head_len() <= head.len_in_ring() as usize);
    }
    let len = len.min(u64::from(choices.u16()));
    progress.take(slot, len);
    model.taken += len;
    assert_eq!(slot.load(Word::Taken), model.taken);
    Ok(())
}

/// It lays something down, if there is room, and rings if it must.
fn show(
    slot: &Slot<'_>,
    progress: &mut Progress,
    model: &mut Model,
    choices: &mut Choices<'_>,
) -> Result<(), ()> {
    let all = ring_bytes(slot.index);
    let expected = model.read(slot).map(|read| (model.head, all - (model.head - read)));
    let found = progress.room(slot).map_err(drop);
    assert_eq!(found, expected);
    let (_, room) = found?;
    progress.want_room(slot, choices.u8() & 1 == 1);
    let len = room.min(u64::from(choices.u16()));
    progress.show(slot, len);
    model.head += len;
    assert_eq!(slot.load(Word::Head), model.head);
    let before = slot.load(Word::Read);
    let rings = progress.must_ring(slot).expect("nothing has changed");
    assert_eq!(rings, before & ARMED != 0 && before & REVOKED == 0 && model.read != model.head);
    if rings {
        assert_eq!(slot.load(Word::Read), before & !ARMED | RUNG);
        assert_eq!(progress.must_ring(slot), Ok(false), "once for each arming");
    }
    Ok(())
}

/// The lease is taken back: nothing is committed after it, and what was not read is owed.
fn end(slot: &Slot<'_>, progress: &mut Progress, model: &Model) {
    let left = Progress::revoke(slot);
    assert_eq!(left.is_noisy(), slot.load(Word::Read) & (RUNG | BUSY) != 0);
    assert!(Progress::is_revoked(slot));
    assert!(ring::room(slot, &mut 0, 1).is_err() && ring::unread(slot).is_err());
    Progress::quiet(slot);
    assert!(!Progress::left(slot).is_noisy());
    let (from, owed) = progress.owed();
    assert_eq!((from, owed), (model.read, model.head - model.read));
    progress.skip(owed);
    assert_eq!(progress.owed(), (model.head, 0));
}

/// An honest exchange, one of datagrams, and lies.
pub fn seeds() -> Vec<Vec<u8>> {
    let honest = [0, 1, 0, 0, 0, 0, 1, 2, 0, 1, 3, 0, 0, 1, 1, 1, 0, 0, 1, 2, 3, 1, 1, 1, 3, 1];
    let mut datagram = vec![2, 0, 5, 0, 64];
    datagram.extend([4, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 53, 10, 0, 0, 1]);
    datagram.extend([0; 48]);
    datagram.extend([0, 2, 0, 64, 0, 2, 64, 0]);
    let lies = [1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0, 1, 255, 0, 0, 0, 0, 0, 0, 3, 1, 9, 9];
    vec![honest.to_vec(), datagram, lies.to_vec()]
}
