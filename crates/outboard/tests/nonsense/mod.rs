//! What an application can do by hand that means harm: memory for leases, and what nobody honest writes there.

// Each test takes what it needs.
#![allow(dead_code)]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fusewire_device::Shared;
use fusewire_outboard::commands::{SLOTS, TABLE_LEN, Table};
use fusewire_outboard::protocol::{KEY_LEN, Message, Reply, Request};
use fusewire_testkit::Random;
use rustix::io::IoSliceMut;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, recvmsg, send, socket_with,
};

/// Where the application's words lie (`region`).
pub const WORDS_AT: usize = 4096;
/// And how long those of a lease are.
pub const WORDS_LEN: usize = 128;

/// Writes something of that kind.
pub fn nonsense(rings: &Shared, random: &mut Random) {
    let slot = random.below(6) as usize;
    let word = [0, 16, 64, 72][random.below(4) as usize];
    let at = WORDS_AT + slot * WORDS_LEN + word;
    match random.below(10) {
        0 => rings.store(at, random.next_u64()),
        1 => rings.store(at, random.below(1 << 18)),
        2 => drop(rings.fetch_or(at, 1 << (56 + random.below(8)))),
        3 => drop(rings.swap(at, rings.load(at) & !(0xff << 56))),
        4 => rings.store(at, rings.load(at).wrapping_add(random.below(2000))),
        5 => rings.store(64 + 8 * random.below(128) as usize, random.next_u64()),
        6 => rings.store(at, 1 + random.below(16)),
        7 => rings.write(16 << 10, &random.next_u64().to_le_bytes()),
        _ => {}
    }
    rings.store(0, random.next_u64());
}

/// The answer to a request.
pub fn ask<'a>(control: &OwnedFd, request: &Request<'_>) -> Reply<'a> {
    send(control, &request.emit(), SendFlags::NOSIGNAL).unwrap();
    let mut bytes = [0; 512];
    let (_, len) = recv(control, &mut bytes, RecvFlags::empty()).unwrap();
    match Reply::parse(&bytes[..len]).unwrap() {
        Reply::Leased(slot) => Reply::Leased(slot),
        Reply::Failed(error) => Reply::Failed(error),
        other => panic!("{other:?}"),
    }
}

/// Memory for leases, by hand.
pub fn region(place: &Path) -> (OwnedFd, [u8; KEY_LEN], [OwnedFd; 2]) {
    let (control, bytes, files) = files(place, &Request::Region);
    let Reply::Region(key) = Reply::parse(&bytes).unwrap() else { panic!("no region") };
    (control, key, files)
}

/// Slots for requests, by hand: the control connection that they live as long as, and commands and answers.
pub fn slots(place: &Path) -> (OwnedFd, [Shared; 2]) {
    let (control, bytes, [commands, answers]) = files(place, &Request::Commands);
    assert_eq!(Reply::parse(&bytes), Ok(Reply::Commands));
    let commands = Shared::adopt(commands.as_fd(), TABLE_LEN, true).unwrap();
    (control, [commands, Shared::adopt(answers.as_fd(), TABLE_LEN, false).unwrap()])
}

/// Writes what no honest caller writes: words and requests of any kind, often almost right.
pub fn nonsense_in_slots(commands: &Shared, requests: &[Message], random: &mut Random) {
    let slot = random.below(SLOTS as u64) as usize;
    let (word, at) = (Table::word_at(slot), Table::bytes_at(slot));
    let request = &requests[random.below(requests.len() as u64) as usize];
    match random.below(8) {
        0 => commands.store(word, random.next_u64()),
        1 => commands.store(word, random.below(16) | (request.len() as u64) << 16),
        2 => drop(commands.fetch_or(word, random.below(16))),
        3 => commands.write(at + random.below(64) as usize, &random.next_u64().to_le_bytes()),
        _ => {
            commands.write(at, request);
            commands.store(word, 3 | (request.len() as u64) << 16 | random.next_u64() << 32);
        }
    }
    match random.below(4) {
        0 => drop(commands.swap(0, random.next_u64())),
        _ => drop(commands.fetch_or(0, 1 << slot)),
    }
}

/// A control connection.
pub fn control(place: &Path) -> OwnedFd {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let control = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&control, &SocketAddrUnix::new(place).unwrap()).unwrap();
    control
}

/// The files that answer a request, which lie behind a connection of their own, and the answer.
fn files(place: &Path, request: &Request<'_>) -> (OwnedFd, Vec<u8>, [OwnedFd; 2]) {
    let control = control(place);
    send(&control, &request.emit(), SendFlags::NOSIGNAL).unwrap();
    let mut bytes = [0; 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut bytes)];
    let len =
        recvmsg(&control, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => Some([files.next()?, files.next()?]),
        _ => None,
    });
    (control, bytes[..len].to_vec(), files.unwrap())
}
