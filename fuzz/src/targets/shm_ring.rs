//! Shared memory with a hostile end: whatever it writes into its words and its ring, and rings on the
//! doorbell, the other reads exactly the frames that are there, within bounds, or ends the connection and
//! believes nothing after.
//!
//! A model beside the reader and the writer says what each call has to give.
use std::io::{self, ErrorKind};
use std::time::Duration;

use fusewire_device::shm::{Hostile, Place, RING_BYTES, Shm, pair};
use fusewire_device::{Device as _, Ecn, RxBatch};

use crate::Choices;

const RING: usize = *RING_BYTES.start();
const LINE: u64 = 64;
const HEADER_LEN: usize = 16;
const FRAME_LEN_MAX: usize = RING / 4 - HEADER_LEN;
const STEPS_MAX: usize = 200;

/// What the hostile end has written, and how far the other must have believed it.
struct Model {
    ring: Vec<u8>,
    head_word: u64,
    tail_word: u64,
    /// The other's reader: released ≤ taken ≤ head.
    released: u64,
    taken: u64,
    head: u64,
    /// The other's writer: tail ≤ published ≤ written.
    tail: u64,
    published: u64,
    written: u64,
    lacked: u64,
    failed: bool,
}

/// A frame that has to come next: where its bytes lie and how many there are.
type Frame = (u64, usize);

fn record_bytes(frame_len: usize) -> u64 {
    ((HEADER_LEN + frame_len) as u64).next_multiple_of(LINE)
}

impl Model {
    fn bytes(&self, position: u64, len: usize) -> Vec<u8> {
        (0..len).map(|i| self.ring[(position as usize + i) % RING]).collect()
    }

    /// Bytes that the reader sees, or a violation.
    fn available(&mut self) -> Result<u64, ()> {
        if self.head == self.taken {
            let bounds = self.head..=self.released + RING as u64;
            if !bounds.contains(&self.head_word) || !self.head_word.is_multiple_of(LINE) {
                self.failed = true;
                return Err(());
            }
            self.head = self.head_word;
        }
        Ok(self.head - self.taken)
    }

    fn take(&mut self) -> Result<Option<Frame>, ()> {
        let available = if self.failed { Err(()) } else { self.available() }?;
        if available == 0 {
            return Ok(None);
        }
        let len = self.bytes(self.taken, 4);
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        if len == 0 || len > FRAME_LEN_MAX.min(available as usize - HEADER_LEN) {
            self.failed = true;
            return Err(());
        }
        let at = self.taken + HEADER_LEN as u64;
        self.taken += record_bytes(len);
        Ok(Some((at, len)))
    }

    /// Whether there is room for so many bytes.
    fn room(&mut self, bytes: u64) -> Result<bool, ()> {
        let free = |tail: u64, written: u64| RING as u64 - (written - tail);
        if free(self.tail, self.written) < bytes {
            let bounds = self.tail..=self.published;
            if !bounds.contains(&self.tail_word) || !self.tail_word.is_multiple_of(LINE) {
                self.failed = true;
                return Err(());
            }
            self.tail = self.tail_word;
        }
        Ok(free(self.tail, self.written) >= bytes)
    }

    fn reserve(&mut self, len: usize) -> Result<bool, ()> {
        if self.failed {
            return Err(());
        }
        let room = self.room(record_bytes(len))?;
        if !room {
            self.lacked = record_bytes(len);
        }
        Ok(room)
    }

    /// Whether there is something to do for who waits.
    fn ready(&mut self, want_write: bool) -> bool {
        if self.failed {
            return true;
        }
        let data = self.available().map(|bytes| bytes > 0);
        let room = self.room(self.lacked);
        match (data, room) {
            (Ok(data), Ok(room)) => data || want_write && room,
            _ => true,
        }
    }
}

/// The error that a violation gives, which must have been expected.
fn violation(error: &io::Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    assert!(!error.to_string().is_empty());
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let (hostile, mut honest) = pair(RING).expect("memory for two rings");
    let mut hostile = Hostile::new(hostile);
    let mut model = Model {
        ring: vec![0; RING],
        head_word: 0,
        tail_word: 0,
        released: 0,
        taken: 0,
        head: 0,
        tail: 0,
        published: 0,
        written: 0,
        lacked: 0,
        failed: false,
    };
    let mut places: Vec<(Place, Frame)> = Vec::new();
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        match choices.u8() % 4 {
            0 => lie(&mut hostile, &mut model, &mut choices),
            1 => read(&mut honest, &mut model, &mut places, &mut choices),
            2 => write(&mut honest, &mut model, &mut choices),
            _ => wait(&mut honest, &mut model, &mut choices),
        }
    }
    end(hostile, honest);
}

/// The hostile end does something.
fn lie(hostile: &mut Hostile, model: &mut Model, choices: &mut Choices<'_>) {
    match choices.u8() % 8 {
        0 => {
            model.head_word = u64::from(choices.u32()) << 32 | u64::from(choices.u32());
            hostile.set_head(model.head_word);
        }
        1 => {
            model.tail_word = u64::from(choices.u32()) << 32 | u64::from(choices.u32());
            hostile.set_tail(model.tail_word);
        }
        // Steps that an honest end could take.
        2 => {
            model.head_word = model.head_word.wrapping_add(LINE * u64::from(choices.u8()));
            hostile.set_head(model.head_word);
        }
        3 => {
            model.tail_word = model.tail_word.wrapping_add(LINE * u64::from(choices.u8()));
            hostile.set_tail(model.tail_word);
        }
        4 => hostile.set_sleep(u64::from(choices.u16())),
        5 => {
            let len = usize::from(choices.u8());
            // An empty message is the socket's end, which comes later.
            hostile.say(&[&[1], choices.bytes(len)].concat());
        }
        6 => {
            let (at, len) = (u64::from(choices.u16()), usize::from(choices.u8()));
            scribble(hostile, model, at, choices.bytes(len));
        }
        // A record where the next is read, and more of its bytes than the input has.
        _ => {
            let len = u32::from(choices.u16());
            let [a, b, c, d] = len.to_le_bytes();
            let at = model.taken + LINE * u64::from(choices.u8() % 4);
            scribble(hostile, model, at, &[a, b, c, d, choices.u8()]);
            scribble(hostile, model, at + HEADER_LEN as u64, &[choices.u8(); 300]);
        }
    }
}

fn scribble(hostile: &mut Hostile, model: &mut Model, position: u64, bytes: &[u8]) {
    hostile.write(position, bytes);
    for (i, byte) in bytes.iter().enumerate() {
        model.ring[(position as usize + i) % RING] = *byte;
    }
}

fn read(
    honest: &mut Shm,
    model: &mut Model,
    places: &mut Vec<(Place, Frame)>,
    choices: &mut Choices<'_>,
) {
    match choices.u8() % 4 {
        0 => {
            honest.release();
            model.released = model.taken;
            places.clear();
        }
        // What was taken shows what lies there now.
        1 => {
            for (place, (at, len)) in &*places {
                assert_eq!(honest.bytes(*place), model.bytes(*at, *len));
            }
        }
        _ => match (honest.take(), model.take()) {
            (Ok(Some(place)), Ok(Some((at, len)))) => {
                assert_eq!(place.frame_len(), len);
                assert_eq!(honest.bytes(place), model.bytes(at, len));
                places.push((place, (at, len)));
            }
            (Ok(None), Ok(None)) => {}
            (Err(error), Err(())) => violation(&error),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        },
    }
}

fn write(honest: &mut Shm, model: &mut Model, choices: &mut Choices<'_>) {
    if choices.u8().is_multiple_of(4) {
        honest.publish();
        model.published = model.written;
        return;
    }
    let len = 1 + usize::from(choices.u16()) % FRAME_LEN_MAX;
    let room = honest.reserve(len).map(|room| room.map(|room| room.fill(0xee)));
    match (room, model.reserve(len)) {
        (Ok(Some(())), Ok(true)) => {
            honest.commit(Ecn::Ect0);
            model.written += record_bytes(len);
        }
        (Ok(None), Ok(false)) => {}
        (Err(error), Err(())) => violation(&error),
        (found, expected) => panic!("room {found:?}, not {expected:?}"),
    }
    assert!(honest.known_room() <= RING);
}

fn wait(honest: &mut Shm, model: &mut Model, choices: &mut Choices<'_>) {
    let want_write = choices.u8() & 1 != 0;
    let ready = honest.wait(Some(Duration::ZERO), want_write).expect("descriptors are there");
    assert_eq!(ready, model.ready(want_write));
}

/// The hostile end goes: what it left is received, as whole frames, and then comes the end.
fn end(hostile: Hostile, mut honest: Shm) {
    drop(hostile);
    // It hears a bounded number of rings at a time.
    let mut turns = 0..=STEPS_MAX / 64;
    assert!(
        turns.any(|_| honest.wait(Some(Duration::ZERO), false).expect("descriptors are there"))
    );
    while turns.next().is_some() {
        honest.wait(Some(Duration::ZERO), false).expect("descriptors are there");
    }
    let mut batch = RxBatch::with_slot_bytes(4, 4096);
    // Who has something to read hears no bell: so it may come to the end only after its last frame.
    let most = RING / LINE as usize + 1 + STEPS_MAX / 64 + 1;
    for _ in 0..most {
        match honest.receive(&mut batch) {
            Ok(_) => {
                assert!(batch.iter().all(|packet| (1..=4096).contains(&packet.bytes.len())));
                honest.wait(Some(Duration::ZERO), false).expect("descriptors are there");
            }
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::InvalidData | ErrorKind::ConnectionAborted));
                assert_eq!(honest.receive(&mut batch).map_err(|e| e.kind()), Err(kind));
                return;
            }
        }
        while honest.poll_event().is_some() {}
    }
    panic!("more frames than a ring holds");
}

/// Frames that an honest end could have sent, round the ring; then every kind of lie.
pub fn seeds() -> Vec<Vec<u8>> {
    // A record of 40 bytes where the next is read, published, taken, looked at, released.
    let frame = [0, 7, 0, 40, 0, 2, 9, 0, 2, 1, 1, 2, 1, 1, 1, 0];
    let mut wrong_len = frame;
    wrong_len[2] = 0xff;
    let full = [0, 7, 63, 240, 0, 2, 9, 0, 2, 251, 1, 2, 1, 2, 1, 0, 3, 1];
    let write = [2, 1, 63, 200, 2, 0, 3, 1];
    let lies: [&[u8]; 4] = [
        &[0, 0, 255, 255, 255, 255, 255, 255, 255, 192, 1, 2],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 65, 3, 0],
        &[0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 63, 200, 2, 1, 63, 200, 3, 1],
        &[0, 6, 0, 0, 4, 1, 1, 1, 1, 0, 4, 0, 7, 0, 5, 3, 1, 2, 3, 1, 2],
    ];
    let mut seeds: Vec<Vec<u8>> = lies.iter().map(|lie| [&frame[..], lie].concat()).collect();
    seeds.push(frame.repeat(5));
    seeds.push(full.repeat(5));
    seeds.push(write.repeat(6));
    // As often as the other has room, which the hostile end then gives back bit by bit.
    seeds.push([write.repeat(5), [0, 3, 255, 2, 1, 63, 200].repeat(3)].concat());
    seeds.push([&frame[..], &wrong_len].concat());
    seeds
}
