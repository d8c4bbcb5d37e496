//! Descriptors: small integers of ours, the lowest that is free, from 3 on. They have nothing to do with the
//! kernel's.
#![forbid(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};

use crate::adu::Adus;
use crate::contexts::Contextual;
use crate::errno::{Errno, Result};
use crate::open::Opened;
use crate::socket::Socket;

/// The first: who takes 0 for "none", or mixes them up with the standard streams, breaks nothing.
const FIRST: usize = 3;
/// Descriptors at once.
const MAX: usize = 1 << 16;

/// What a descriptor stands for.
#[derive(Clone)]
pub enum Entry {
    Stack(Arc<Opened>),
    Socket(Arc<Socket>),
    Adus(Arc<Adus>),
    Contexts(Arc<Contextual>),
}

static TABLE: RwLock<Vec<Option<Entry>>> = RwLock::new(Vec::new());

/// A descriptor for `entry`.
///
/// # Errors
/// `EMFILE`.
pub fn insert(entry: Entry) -> Result<i32> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let at = table.iter().position(Option::is_none).unwrap_or(table.len());
    if at >= MAX {
        return Err(Errno(libc::EMFILE));
    }
    if at == table.len() {
        table.push(None);
    }
    table[at] = Some(entry);
    Ok((at + FIRST) as i32)
}

fn index(fd: i32) -> Option<usize> {
    usize::try_from(fd).ok()?.checked_sub(FIRST)
}

/// What a descriptor stands for.
///
/// # Errors
/// `EBADF`.
pub fn entry(fd: i32) -> Result<Entry> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let entry = index(fd).and_then(|at| table.get(at)).cloned().flatten();
    entry.ok_or(Errno(libc::EBADF))
}

/// The socket of a descriptor.
///
/// # Errors
/// `EBADF`; `ENOTSOCK` for what is none.
pub fn socket(fd: i32) -> Result<Arc<Socket>> {
    match entry(fd)? {
        Entry::Socket(socket) => Ok(socket),
        Entry::Stack(_) | Entry::Adus(_) | Entry::Contexts(_) => Err(Errno(libc::ENOTSOCK)),
    }
}

/// What carries ADUs, of a descriptor.
///
/// # Errors
/// `EBADF`; `ENOTSOCK` for what carries none.
pub fn adus(fd: i32) -> Result<Arc<Adus>> {
    match entry(fd)? {
        Entry::Adus(adus) => Ok(adus),
        Entry::Stack(_) | Entry::Socket(_) | Entry::Contexts(_) => Err(Errno(libc::ENOTSOCK)),
    }
}

/// The contexts of a descriptor.
///
/// # Errors
/// `EBADF`; `ENOTSOCK` for what has none.
pub fn contexts(fd: i32) -> Result<Arc<Contextual>> {
    match entry(fd)? {
        Entry::Contexts(contexts) => Ok(contexts),
        Entry::Stack(_) | Entry::Socket(_) | Entry::Adus(_) => Err(Errno(libc::ENOTSOCK)),
    }
}

/// Takes a descriptor out.
///
/// # Errors
/// `EBADF`.
pub fn remove(fd: i32) -> Result<Entry> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let entry = index(fd).and_then(|at| table.get_mut(at)).and_then(Option::take);
    entry.ok_or(Errno(libc::EBADF))
}
