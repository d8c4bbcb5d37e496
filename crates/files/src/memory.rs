//! Two channel ends joined in memory, for tests and for trying things out: bounded, and if asked for, ADUs
//! overtake one another within a window, as they do on a connection that delivers out of order.

use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use fusewire_codec::pipeline::{Marshal, Unmarshal, marshal, unmarshal};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a pair of channel ends behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of the largest ADU that is one TPDU.
    pub max_adu: usize,
    /// ADUs on the way in each direction before sending says full.
    pub capacity: usize,
    /// An ADU may overtake up to this many others; 0 keeps them in order.
    pub reorder: usize,
    /// Seed of the order.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { max_adu: 1408, capacity: 64, reorder: 0, seed: 1 }
    }
}

#[derive(Debug, Default)]
struct OneWay {
    adus: VecDeque<Vec<u8>>,
    finished: bool,
    broken: bool,
    /// Memory of ADUs that were received, to be used again.
    spare: Vec<Vec<u8>>,
    random: u64,
}

/// One end.
#[derive(Debug)]
pub struct MemoryChannel {
    settings: Settings,
    out: Arc<Mutex<OneWay>>,
    back: Arc<Mutex<OneWay>>,
}

/// Two ends: what one sends the other receives.
pub fn pair(settings: Settings) -> (MemoryChannel, MemoryChannel) {
    let direction = |seed| Arc::new(Mutex::new(OneWay { random: seed, ..OneWay::default() }));
    let (a, b) = (direction(settings.seed | 1), direction(settings.seed.rotate_left(17) | 1));
    let end = |out: &Arc<Mutex<OneWay>>, back: &Arc<Mutex<OneWay>>| MemoryChannel {
        settings,
        out: Arc::clone(out),
        back: Arc::clone(back),
    };
    (end(&a, &b), end(&b, &a))
}

fn lock(direction: &Mutex<OneWay>) -> MutexGuard<'_, OneWay> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OneWay {
    fn check(&self) -> Result<(), ChannelError> {
        if self.broken { Err(ChannelError { reason: "broken on purpose".into() }) } else { Ok(()) }
    }

    /// xorshift64.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl MemoryChannel {
    /// Breaks both directions; what was on the way is lost.
    pub fn cut(&self) {
        for direction in [&self.out, &self.back] {
            let mut direction = lock(direction);
            direction.broken = true;
            direction.adus.clear();
        }
    }

    /// Changes ADUs on the way to the other end, for tests of hostile peers: `change` sees each one.
    pub fn tamper(&self, mut change: impl FnMut(&mut Vec<u8>)) {
        lock(&self.out).adus.iter_mut().for_each(&mut change);
    }
}

impl Channel for MemoryChannel {
    fn max_adu(&self) -> usize {
        self.settings.max_adu
    }

    fn room(&mut self) -> usize {
        self.settings.capacity.saturating_sub(lock(&self.out).adus.len())
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        let len = message.marshalled_len();
        assert!(len <= MAX_ADU_LEN, "an ADU of {len} bytes");
        let mut direction = lock(&self.out);
        direction.check()?;
        if direction.adus.len() >= self.settings.capacity {
            return Ok(Sent::Full);
        }
        let mut copy = direction.spare.pop().unwrap_or_default();
        copy.resize(len, 0);
        assert!(marshal(message, &mut copy), "a message is as long as it says");
        direction.adus.push_back(copy);
        Ok(Sent::Taken)
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        let mut direction = lock(&self.back);
        direction.check()?;
        let ahead = direction.adus.len().min(self.settings.reorder + 1);
        if ahead == 0 {
            return Ok(if direction.finished { Received::Finished } else { Received::Nothing });
        }
        let index = (direction.next_random() % ahead as u64) as usize;
        let Some(adu) = direction.adus.remove(index) else { return Ok(Received::Nothing) };
        unmarshal(&adu, into);
        let len = adu.len();
        direction.spare.push(adu);
        Ok(Received::Adu { len })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        let mut direction = lock(&self.out);
        direction.check()?;
        direction.finished = true;
        Ok(())
    }
}

impl Drop for MemoryChannel {
    /// The other end may still receive what was sent; after that its connection is finished.
    fn drop(&mut self) {
        lock(&self.out).finished = true;
    }
}
