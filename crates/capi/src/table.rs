//! Descriptors: small integers of ours, the lowest that is free, from 3 on. They have nothing to do with the
//! kernel's.
#![forbid(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};

use crate::adu::Adus;
use crate::contexts::Contextual;
use crate::epoll::Epoll;
use crate::errno::{Errno, Result};
use crate::open::Side;
use crate::outboard;
use crate::posix::Posix;
use crate::socket::Socket;

/// The first: who takes 0 for "none", or mixes them up with the standard streams, breaks nothing.
const FIRST: usize = 3;
/// Descriptors at once.
const MAX: usize = 1 << 16;

/// What a descriptor stands for.
#[derive(Clone)]
pub enum Entry {
    Stack(Side),
    Socket(Arc<Socket>),
    Outboard(Arc<outboard::Socket>),
    Adus(Arc<Adus>),
    Contexts(Arc<Contextual>),
    Epoll(Arc<Epoll>),
}

static TABLE: RwLock<Vec<Option<Entry>>> = RwLock::new(Vec::new());

/// A descriptor for `entry`.
///
/// # Errors
/// `EMFILE`.
pub fn insert(entry: Entry) -> Result<i32> {
    insert_from(entry, 0)
}

/// A descriptor for `entry`, of this number or above.
///
/// # Errors
/// `EMFILE`.
pub fn insert_from(entry: Entry, least: i32) -> Result<i32> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let least = index(least).unwrap_or(0);
    let free = table.iter().skip(least).position(Option::is_none).map(|at| at + least);
    let at = free.unwrap_or(table.len().max(least));
    if at >= MAX {
        return Err(Errno(libc::EMFILE));
    }
    if at >= table.len() {
        table.resize_with(at + 1, || None);
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
pub fn socket(fd: i32) -> Result<Arc<dyn Posix>> {
    match entry(fd)? {
        Entry::Socket(socket) => Ok(socket),
        Entry::Outboard(socket) => Ok(socket),
        _ => Err(Errno(libc::ENOTSOCK)),
    }
}

/// What carries ADUs, of a descriptor.
///
/// # Errors
/// `EBADF`; `ENOTSOCK` for what carries none.
pub fn adus(fd: i32) -> Result<Arc<Adus>> {
    match entry(fd)? {
        Entry::Adus(adus) => Ok(adus),
        _ => Err(Errno(libc::ENOTSOCK)),
    }
}

/// The contexts of a descriptor.
///
/// # Errors
/// `EBADF`; `ENOTSOCK` for what has none.
pub fn contexts(fd: i32) -> Result<Arc<Contextual>> {
    match entry(fd)? {
        Entry::Contexts(contexts) => Ok(contexts),
        _ => Err(Errno(libc::ENOTSOCK)),
    }
}

/// The set of a descriptor.
///
/// # Errors
/// `EBADF`; `EINVAL` for what is none.
pub fn epoll(fd: i32) -> Result<Arc<Epoll>> {
    match entry(fd)? {
        Entry::Epoll(epoll) => Ok(epoll),
        _ => Err(Errno(libc::EINVAL)),
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
