//! The sender's side of the group: one file after the other, each block's hash told to the sessions.

use super::Board;
use super::board::Note;
use crate::error::{Error, Violation};
use crate::folder::Last;
use crate::inbox::{Receiver, WINDOW_LEN};
use crate::machine::{Machine, Step, Work};
use crate::message::{Body, Code, Prefix};
use crate::rate::Rate;
use crate::server::Share;
use crate::source::{Job, Outgoing, Progress};
use crate::{Element, RemotePath};
use std::sync::Arc;

/// Sends what is cast to the group: a machine that is finished when it has sent all of it.
pub type Caster = Machine<Casting>;

/// What it does.
#[derive(Debug)]
pub struct Casting {
    share: Arc<Share>,
    board: Arc<Board>,
    /// The number of the next file.
    next: usize,
    reading: Option<Outgoing>,
    /// Where the last file came from.
    parent: Last,
    rate: Rate,
    bytes_done: u64,
    bytes_holes: u64,
    /// Files that could not be read as they were listed: members find out what has become of them.
    failed: Vec<(RemotePath, Error)>,
}

impl Caster {
    /// Of what `board` casts of `share`; at most `bytes_per_s` bytes of contents a second, 0 for no bound.
    pub fn new(share: &Arc<Share>, board: &Arc<Board>, bytes_per_s: u64) -> Caster {
        let casting = Casting {
            share: Arc::clone(share),
            board: Arc::clone(board),
            next: 0,
            reading: None,
            parent: Last::default(),
            rate: Rate::new(bytes_per_s),
            bytes_done: 0,
            bytes_holes: 0,
            failed: Vec::new(),
        };
        Machine::of(casting, Element::Octets, true)
    }

    /// Bytes of contents that were handed to the group.
    pub fn bytes_done(&self) -> u64 {
        self.work.bytes_done
    }

    /// Of these, bytes that lie in holes and were not sent.
    pub fn bytes_holes(&self) -> u64 {
        self.work.bytes_holes
    }

    /// Files that could not be read, since the last call.
    pub fn take_failed(&mut self) -> Vec<(RemotePath, Error)> {
        std::mem::take(&mut self.work.failed)
    }
}

impl Casting {
    /// Opens the next file that is still as it was listed; false when there is none.
    fn open_next(&mut self, max_adu: usize) -> bool {
        while let Some((path, meta)) = self.board.files.get(self.next) {
            let xid = self.next as u32;
            self.next += 1;
            if meta.size == 0 {
                continue;
            }
            let opened = self.share.open_file(&mut self.parent, path);
            let opened = opened.and_then(|(file, found)| match found.version == meta.version {
                true => Ok((file, found)),
                false => Err(Error::local(Code::Changed, path.as_bytes())),
            });
            match opened {
                Ok((file, found)) => {
                    let range = 0..found.size;
                    let job = Job { xid, copies: 1, range, reply_bytes: 0, max_adu, hashes: true };
                    self.reading =
                        Some(Outgoing::new(file, found, path.as_bytes(), job).keeping_hashes());
                    return true;
                }
                Err(error) => self.failed.push((path.clone(), error)),
            }
        }
        false
    }

    /// Tells the hashes of what was sent.
    fn tell(&mut self) {
        let Some(outgoing) = &mut self.reading else { return };
        let file = outgoing.xid();
        for (block, hash) in outgoing.take_hashes() {
            self.board.note(Note { file, block: block as u32, hash: Some(hash) });
        }
    }
}

impl Work for Casting {
    fn receiver(&mut self) -> &mut dyn Receiver {
        self
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let mut sent = 0;
        // Small files share a turn.
        while sent < WINDOW_LEN as u64 {
            if self.reading.is_none() && !self.open_next(step.channel.max_adu()) {
                break;
            }
            let Some(outgoing) = &mut self.reading else { continue };
            let file = outgoing.xid();
            match outgoing.send_within(&mut self.rate, step, Element::Octets) {
                Ok(Progress::Full) => break,
                Ok(Progress::More { bytes, holes }) => {
                    sent += bytes;
                    self.bytes_done += bytes;
                    self.bytes_holes += holes;
                    self.tell();
                }
                Ok(Progress::Done) => {
                    self.tell();
                    step.turn.worked = true;
                    let checked = self.reading.take().map_or(Ok(false), |o| o.check(false));
                    match checked {
                        Ok(_) => self.board.note(Note { file, block: 0, hash: None }),
                        Err(error) => self.fail(file, error),
                    }
                }
                Err(error) if error.is_about_one_file() => {
                    self.reading = None;
                    self.fail(file, error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn ends(&self, _: bool) -> Result<bool, Error> {
        Ok(self.reading.is_none() && self.next >= self.board.files.len())
    }

    fn rest(&mut self) {
        self.parent.forget();
    }
}

impl Casting {
    fn fail(&mut self, file: u32, error: Error) {
        if let Some((path, _)) = self.board.files.get(file as usize) {
            self.failed.push((path.clone(), error));
        }
    }
}

/// Nothing comes from a group.
impl Receiver for Casting {
    fn element(&self) -> Element {
        Element::Octets
    }

    fn message(&mut self, prefix: Prefix, _: Body<'static>) -> Result<(), Error> {
        Err(Violation::Unexpected { kind: prefix.kind }.into())
    }
}
