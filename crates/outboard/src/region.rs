//! Where the words and rings of leases lie: two files of shared memory for each process, each for [`SLOTS`] leases.
//!
//! ```text
//!  rings, which both write            blocks, which the application reads
//!  0       news, a bit a lease        0       the outboard sleeps; 8: on which processor it is
//!  64      words of waiters (64)
//!  4096    words of lease 0 (128)     4096    block of lease 0 (512): Taken, piped, before │ Head, Wants, over │ TCP_INFO
//!  …       of lease 1                 …       of lease 1
//!  16384   rings of lease 0: out, in
//!  …       of lease 1, the last with wide rings
//! ```

use fusewire_device::Shared;
use rustix::thread::sched_getcpu;
use std::sync::atomic::{Ordering, fence};

use crate::news::{self, News};
use crate::ring::{RING_BYTES, Ring, Violation, WIDE_BYTES, Word};
use crate::waiter;
use crate::words::{Placed, Words};

/// Leases of a region.
pub const SLOTS: usize = 52;
/// Those from here on have wide rings.
pub const WIDE_FROM: usize = SLOTS - 4;
/// Bytes of the file with rings.
pub const RINGS_LEN: usize = WIDE_AT + (SLOTS - WIDE_FROM) * 2 * WIDE_BYTES as usize;
/// Bytes of the file with blocks.
pub const BLOCKS_LEN: usize = BLOCKS_AT + SLOTS * BLOCK_LEN;

const RINGS_AT: usize = 16 << 10;
const WIDE_AT: usize = RINGS_AT + WIDE_FROM * 2 * RING_BYTES as usize;
const WORDS_AT: usize = 4096;
const WORDS_LEN: usize = 128;
/// Behind the words of a lease that the application writes: not 0, what does not fill a segment waits (`TCP_CORK`).
const CORK: usize = 8;
/// Behind it: up to where what was committed is pushed; what lies behind is followed by more at once (`MSG_MORE`).
const PUSHED: usize = 16;
/// Beside how far it has read: the number of who waits for it and others, and 1; 0: nobody does.
const WAITER: usize = 72;
/// Those who may wait for several leases of a process at once.
pub const WAITERS: usize = 16;
const WAITERS_AT: usize = 64;
const WAITER_LEN: usize = 64;
const _: () = assert!(WAITERS_AT + WAITERS * WAITER_LEN <= WORDS_AT);
const BLOCKS_AT: usize = 4096;
const BLOCK_LEN: usize = 512;
/// How far ahead of short messages memory is fetched.
const AHEAD: usize = 512;
/// In a block: bytes that the outboard has taken out of the placeholder since the lease began.
const PIPED: usize = 8;
/// In a block: how many lay there when the lease began.
const BEFORE: usize = 16;
/// In a block: how far the outboard has taken what was written, some of which it may need yet ([`Word::Taken`]).
const GIVEN: usize = 24;
/// In a block: what has become of the connection.
const OVER: usize = 80;
/// In a block: how often `TCP_INFO` was written, odd while it is; its length, its bytes.
const INFO: usize = 128;
/// Most bytes of `TCP_INFO`.
pub const INFO_MAX: usize = BLOCK_LEN - INFO - 16;

/// The connection's peer has finished, or the connection is over: behind what the ring has, the placeholder tells.
pub const PEER_FINISHED: u64 = 1;
/// The connection is over: the placeholder tells how.
pub const ENDED: u64 = 2;
/// Nothing more can be sent, and there is something to read yet.
const REFUSES: u64 = 4;

/// A ring of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What the application sends.
    Out,
    /// What it receives.
    In,
}

/// A lease in a region.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The region's rings.
    pub rings: &'a Shared,
    /// Its blocks.
    pub blocks: &'a Shared,
    /// Which of its leases, below [`SLOTS`].
    pub index: usize,
}

/// Bytes of each ring of the lease of this number.
#[inline]
pub fn ring_bytes(index: usize) -> u64 {
    if index < WIDE_FROM { RING_BYTES } else { WIDE_BYTES }
}

/// Where `len` bytes from `position` on lie: in one piece or two, each a place and a length.
#[inline]
pub fn places(index: usize, way: Way, position: u64, len: usize) -> [(usize, usize); 2] {
    let ring = ring_bytes(index) as usize;
    debug_assert!(len <= ring && index < SLOTS);
    let (begin, number) = match index.checked_sub(WIDE_FROM) {
        Some(number) => (WIDE_AT, number),
        None => (RINGS_AT, index),
    };
    let base = begin + (2 * number + usize::from(way == Way::In)) * ring;
    let at = position as usize & (ring - 1);
    let first = len.min(ring - at);
    [(base + at, first), (base, len - first)]
}

impl Slot<'_> {
    fn block(&self) -> usize {
        BLOCKS_AT + self.index * BLOCK_LEN
    }

    /// What a thread writes, or reads, soon behind these bytes is fetched meanwhile: the other side has it in its cache. `free` is
    /// how much there is behind them that the other side does not use.
    #[inline]
    pub fn expect_behind(&self, way: Way, position: u64, len: usize, free: u64) {
        if len <= AHEAD && free >= 2 * AHEAD as u64 {
            let [(at, front), _] = places(self.index, way, position + (len + AHEAD) as u64, len);
            self.rings.expect(at, front, way == Way::Out);
        }
    }

    fn cork_place(&self) -> usize {
        WORDS_AT + self.index * WORDS_LEN + CORK
    }

    /// Whether what does not fill a segment waits. Looked at after [`Word::Sent`], it is as it was when that was committed, or
    /// later.
    pub fn is_corked(&self) -> bool {
        self.rings.load(self.cork_place()) != 0
    }

    /// Sets [`Slot::is_corked`].
    pub fn set_cork(&self, on: bool) {
        self.rings.store(self.cork_place(), u64::from(on));
    }

    /// The position up to which what was committed is not followed by more at once. Looked at after [`Word::Sent`], it is as it
    /// was when that was committed, or later. The application's word: it may be any.
    pub fn pushed(&self) -> u64 {
        self.rings.load(WORDS_AT + self.index * WORDS_LEN + PUSHED)
    }

    /// Sets [`Slot::pushed`]. Who is about to commit up to there does so, and nobody else.
    pub fn set_pushed(&self, position: u64) {
        self.rings.store(WORDS_AT + self.index * WORDS_LEN + PUSHED, position);
    }

    /// Who waits for this lease and others.
    ///
    /// # Errors
    /// The application has named one that cannot be.
    pub fn waiter(&self) -> Result<Option<Waiter<'_>>, Violation> {
        let found = self.rings.load(WORDS_AT + self.index * WORDS_LEN + WAITER);
        match (found as usize).checked_sub(1) {
            None => Ok(None),
            Some(number) if number < WAITERS => Ok(Some(Waiter { rings: self.rings, number })),
            Some(_) => Err(Violation { name: "waiter", found, low: 0, high: WAITERS as u64 }),
        }
    }

    /// From now on this one does, or nobody.
    pub fn set_waiter(&self, number: Option<usize>) {
        let word = number.map_or(0, |number| number as u64 + 1);
        self.rings.store(WORDS_AT + self.index * WORDS_LEN + WAITER, word);
    }

    /// This lease among those of a waiter.
    pub fn bit(&self) -> u64 {
        1 << self.index
    }

    /// Bytes of the application's that came through the placeholder since the lease began.
    pub fn piped(&self) -> u64 {
        self.blocks.load(self.block() + PIPED)
    }

    /// Sets [`Slot::piped`].
    pub fn set_piped(&self, count: u64) {
        self.blocks.store(self.block() + PIPED, count);
    }

    /// How many of them lay there when it began: what the ring has goes behind them.
    pub fn before(&self) -> u64 {
        self.blocks.load(self.block() + BEFORE)
    }

    /// How far the outboard has taken what the application has written; what of it is not free it needs where it lies.
    pub fn given(&self) -> u64 {
        self.blocks.load(self.block() + GIVEN)
    }

    /// Sets [`Slot::given`].
    pub fn set_given(&self, position: u64) {
        self.blocks.store(self.block() + GIVEN, position);
    }

    /// The outboard needs the processor that the caller has: who looks without sleeping keeps it from its work.
    pub fn shares_processor(&self) -> bool {
        shares_processor(self.blocks)
    }

    /// [`PEER_FINISHED`], [`ENDED`]
    pub fn over(&self) -> u64 {
        self.blocks.load(self.block() + OVER) & (PEER_FINISHED | ENDED)
    }

    /// Nothing more can be sent: the placeholder tells why.
    pub fn is_shut(&self) -> bool {
        self.blocks.load(self.block() + OVER) & (ENDED | REFUSES) != 0
    }

    /// Nothing more can be sent from now on.
    pub fn refuse(&self) {
        self.set_over(self.over() | REFUSES);
    }

    /// Sets [`Slot::over`].
    pub fn set_over(&self, over: u64) {
        self.blocks.store(self.block() + OVER, over);
    }

    /// Makes all words those of a lease that begins, whose reader is not rung for, and of whose application's bytes so many
    /// lie in the placeholder yet; it is corked or not.
    pub fn begin(&self, before: u64, is_corked: bool) {
        for word in [Word::Sent, Word::Read, Word::Taken, Word::Head, Word::Wants] {
            self.store(word, 0);
        }
        self.set_waiter(None);
        self.set_cork(is_corked);
        self.set_pushed(0);
        self.set_piped(0);
        self.set_given(0);
        self.blocks.store(self.block() + BEFORE, before);
        self.set_over(0);
        self.blocks.store(self.block() + INFO + 8, 0);
    }

    /// Writes what [`Slot::info`] reads.
    pub fn set_info(&self, info: &[u8]) {
        let (at, info) = (self.block() + INFO, &info[..info.len().min(INFO_MAX)]);
        let count = self.blocks.load(at);
        self.blocks.store(at, count | 1);
        fence(Ordering::Release);
        self.blocks.store(at + 8, info.len() as u64);
        self.blocks.write(at + 16, info);
        self.blocks.store(at, (count | 1).wrapping_add(1));
    }

    /// `TCP_INFO`, as the outboard wrote it last: fills the front of `out` and gives how long it was. `None`: it has not yet,
    /// or is writing all the time.
    pub fn info(&self, out: &mut [u8]) -> Option<usize> {
        let at = self.block() + INFO;
        for _ in 0..64 {
            let before = self.blocks.load(at);
            if before & 1 == 0 {
                let len = (self.blocks.load(at + 8) as usize).min(INFO_MAX);
                let filled = len.min(out.len());
                self.blocks.read(at + 16, &mut out[..filled]);
                fence(Ordering::Acquire);
                if self.blocks.load(at) == before {
                    return (len > 0).then_some(len);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Says that there is news of this lease, after what is new was shown and a [fence](Words::fence); true when the outboard
    /// sleeps and has to be woken.
    pub fn tell(&self) -> bool {
        news::tell(&News { told: self.rings, asleep: self.blocks }, self.bit())
    }
}

impl Ring for Slot<'_> {
    #[inline]
    fn ring_bytes(&self) -> u64 {
        ring_bytes(self.index)
    }
    #[inline]
    fn is_watched(&self) -> bool {
        self.rings.load(WORDS_AT + self.index * WORDS_LEN + WAITER) != 0
    }
}

impl Placed for Slot<'_> {
    type Word = Word;

    #[inline]
    fn place(&self, word: Word) -> (&Shared, usize) {
        let words = WORDS_AT + self.index * WORDS_LEN;
        match word {
            Word::Sent => (self.rings, words),
            Word::Read => (self.rings, words + 64),
            Word::Taken => (self.blocks, self.block()),
            Word::Head => (self.blocks, self.block() + 64),
            Word::Wants => (self.blocks, self.block() + 72),
        }
    }
}

/// Somebody who waits for several leases at once: his words in one region.
#[derive(Clone, Copy, Debug)]
pub struct Waiter<'a> {
    /// The region's rings.
    pub rings: &'a Shared,
    /// Which of [`WAITERS`].
    pub number: usize,
}

impl Waiter<'_> {
    /// What was to wake him was taken away: there is news of all that he has to look at, for which somebody rings if he sleeps.
    pub fn tell_again(&self) {
        self.store(waiter::Word::Asleep, 1);
        fence(Ordering::SeqCst);
        self.rings.fetch_or(0, self.load(waiter::Word::Ready));
    }
}

impl Placed for Waiter<'_> {
    type Word = waiter::Word;

    #[inline]
    fn place(&self, word: waiter::Word) -> (&Shared, usize) {
        (self.rings, WAITERS_AT + self.number * WAITER_LEN + 8 * word as usize)
    }
}

const PROCESSOR: usize = 8;

/// The processor that the calling thread is on, as [`is_on`] says it.
pub fn processor() -> u64 {
    sched_getcpu() as u64 + 1
}

/// The outboard that wrote these blocks, or whatever else begins so, is on the caller's processor.
pub fn shares_processor(blocks: &Shared) -> bool {
    blocks.load(PROCESSOR) == processor()
}

/// Says on which processor the outboard is.
pub fn is_on(blocks: &Shared, processor: u64) {
    blocks.store(PROCESSOR, processor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{self, Progress};
    use fusewire_device::Writers;

    #[test]
    fn rings_lie_beside_each_other() {
        let mut end = RINGS_AT;
        for index in 0..SLOTS {
            let len = ring_bytes(index) as usize;
            for way in [Way::Out, Way::In] {
                assert_eq!(places(index, way, 0, len), [(end, len), (end, 0)]);
                assert_eq!(places(index, way, len as u64 - 1, 3), [(end + len - 1, 1), (end, 2)]);
                end += len;
            }
        }
        assert_eq!(end, RINGS_LEN);
    }

    #[test]
    fn who_is_on_the_outboards_processor_knows_it() {
        use fusewire_device::interface::relay::stay_on;
        let blocks = Shared::create(BLOCKS_LEN, Writers::Maker).unwrap().1;
        let rings = Shared::create(RINGS_LEN, Writers::All).unwrap().1;
        let slot = Slot { rings: &rings, blocks: &blocks, index: 0 };
        assert!(!slot.shares_processor(), "nobody has said so");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if stay_on(0).is_err() {
                    return eprintln!("skipped: it may not choose its processor");
                }
                is_on(&blocks, processor());
                assert!(slot.shares_processor());
                if stay_on(1).is_ok() {
                    assert!(!slot.shares_processor());
                    is_on(&blocks, processor());
                    assert!(slot.shares_processor());
                }
            });
        });
    }

    /// What an application writes through the rings of a lease comes back to it, by an outboard in another thread: for
    /// ThreadSanitizer (`cargo xtask sanitize leases`), too.
    #[test]
    fn no_byte_of_a_lease_is_read_while_it_is_written() {
        const ALL: u64 = 3 * WIDE_BYTES + 77;
        let byte = |at: u64| (at ^ at >> 8 ^ at >> 16) as u8;
        let (_rings, rings) = Shared::create(RINGS_LEN, Writers::All).unwrap();
        let (_blocks, blocks) = Shared::create(BLOCKS_LEN, Writers::Maker).unwrap();
        let application = |slot: Slot<'_>| {
            let (mut taken, mut sent, mut got) = (0, 0, 0);
            while got < ALL {
                let (position, room) = ring::room(&slot, &mut taken, 1).unwrap();
                let len = room.min(ALL - sent).min(3000);
                let bytes: Vec<u8> = (position..position + len).map(byte).collect();
                let [(first, front), (second, _)] =
                    places(slot.index, Way::Out, position, bytes.len());
                rings.write(first, &bytes[..front]);
                rings.write(second, &bytes[front..]);
                ring::commit(&slot, position, len).unwrap();
                sent += len;
                let (read, unread) = ring::unread(&slot).unwrap();
                let len = unread.min(5000);
                let mut bytes = vec![0; len as usize];
                let [(first, front), (second, _)] =
                    places(slot.index, Way::In, read & ring::POSITION, bytes.len());
                rings.read(first, &mut bytes[..front]);
                rings.read(second, &mut bytes[front..]);
                assert!(bytes.iter().zip(got..).all(|(found, at)| *found == byte(at)));
                ring::consume(&slot, read, unread, len).unwrap();
                got += len;
                std::thread::yield_now();
            }
        };
        let outboard = |slot: Slot<'_>| {
            let (mut progress, mut done) = (Progress::default(), 0);
            while done < ALL {
                let (from, len) = progress.written(&slot).unwrap();
                let (to, room) = progress.room(&slot).unwrap();
                let len = len.min(room).min(4000);
                let bytes = places(slot.index, Way::Out, from, len as usize)
                    .map(|(at, len)| rings.slice(at, len))
                    .concat();
                let [(first, front), (second, _)] = places(slot.index, Way::In, to, bytes.len());
                rings.write(first, &bytes[..front]);
                rings.write(second, &bytes[front..]);
                progress.take(&slot, len);
                progress.show(&slot, len);
                done += len;
                std::thread::yield_now();
            }
        };
        for index in [0, WIDE_FROM] {
            let slot = Slot { rings: &rings, blocks: &blocks, index };
            slot.begin(0, false);
            std::thread::scope(|scope| {
                scope.spawn(|| application(slot));
                outboard(slot);
            });
        }
    }

    #[test]
    fn the_first_with_news_wakes_the_outboard_for_all() {
        let (_rings, rings) = Shared::create(RINGS_LEN, Writers::All).unwrap();
        let (_blocks, blocks) = Shared::create(BLOCKS_LEN, Writers::Maker).unwrap();
        let told = News { told: &rings, asleep: &blocks };
        let tell = |index| Slot { rings: &rings, blocks: &blocks, index }.tell();
        assert!(!tell(0), "it is awake");
        assert_eq!(news::hear(&told), 1);
        assert!(news::sleeps(&told, true, !0));
        assert_eq!([3, 5, 3].map(tell), [true, false, false]);
        assert!(!news::sleeps(&told, true, !0), "it has not heard of it");
        assert!(news::sleeps(&told, true, 1 << 4), "nobody's news");
        assert_eq!(news::hear(&told), 1 << 3 | 1 << 5);
        assert!(tell(5));
    }
}
