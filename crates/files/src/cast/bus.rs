//! A group in memory, for tests: one sender, any number of receivers, everything in order.

use super::{Hearing, Sending};
use crate::channel::{ChannelError, Received};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Group {
    /// What each receiver has not taken; nothing for one that was dropped.
    queues: Vec<Option<VecDeque<Vec<u8>>>>,
    is_over: bool,
}

/// The sender's end.
#[derive(Debug)]
pub struct Sender {
    group: Arc<Mutex<Group>>,
    message_len_max: usize,
    /// Messages that a receiver may leave lying before there is no room.
    capacity: usize,
}

/// A receiver's end.
#[derive(Debug)]
pub struct Ear {
    group: Arc<Mutex<Group>>,
    at: usize,
}

/// A group that nobody hears yet: messages of at most `message_len_max` bytes, `capacity` of them at a time.
pub fn group(message_len_max: usize, capacity: usize) -> Sender {
    Sender { group: Arc::default(), message_len_max, capacity }
}

fn lock(group: &Mutex<Group>) -> MutexGuard<'_, Group> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    /// One more receiver, from the next message on.
    pub fn join(&self) -> Ear {
        let mut group = lock(&self.group);
        group.queues.push(Some(VecDeque::new()));
        Ear { group: Arc::clone(&self.group), at: group.queues.len() - 1 }
    }

    /// No message comes any more.
    pub fn end(&self) {
        lock(&self.group).is_over = true;
    }

    /// Sees, and may change, each message that `ear` has not taken.
    pub fn tamper(&self, ear: usize, mut change: impl FnMut(&mut Vec<u8>)) {
        if let Some(Some(queue)) = lock(&self.group).queues.get_mut(ear) {
            queue.iter_mut().for_each(&mut change);
        }
    }

    /// Puts a message of somebody else's before what `ear` has not taken.
    pub fn inject(&self, ear: usize, message: Vec<u8>) {
        if let Some(Some(queue)) = lock(&self.group).queues.get_mut(ear) {
            queue.push_front(message);
        }
    }

    /// Drops a receiver, as one that is too slow.
    pub fn drop_receiver(&self, ear: usize) {
        if let Some(queue) = lock(&self.group).queues.get_mut(ear) {
            *queue = None;
        }
    }
}

impl Sending for &Sender {
    fn message_len_max(&self) -> usize {
        self.message_len_max
    }

    fn room(&mut self) -> usize {
        let group = lock(&self.group);
        let fullest = group.queues.iter().flatten().map(VecDeque::len).max();
        self.capacity.saturating_sub(fullest.unwrap_or(0)) * self.message_len_max
    }

    fn send(&mut self, len: usize, write: &mut dyn FnMut(&mut [u8])) -> Result<bool, ChannelError> {
        if self.room() == 0 {
            return Ok(false);
        }
        let mut message = vec![0; len];
        write(&mut message);
        for queue in lock(&self.group).queues.iter_mut().flatten() {
            queue.push_back(message.clone());
        }
        Ok(true)
    }
}

impl Hearing for &Ear {
    fn recv(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<Received, ChannelError> {
        let mut group = lock(&self.group);
        let is_over = group.is_over;
        let Some(queue) = group.queues.get_mut(self.at).and_then(Option::as_mut) else {
            return Err(ChannelError { reason: "dropped: too slow".into() });
        };
        Ok(match queue.pop_front() {
            Some(message) => {
                take(&message);
                Received::Adu { len: message.len() }
            }
            None if is_over => Received::Finished,
            None => Received::Nothing,
        })
    }
}

impl Hearing for Ear {
    fn recv(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<Received, ChannelError> {
        (&*self).recv(take)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(queue) = lock(&self.group).queues.get_mut(self.at) {
            *queue = None;
        }
    }
}
