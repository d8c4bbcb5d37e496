//! What an application can do by hand that means harm: memory for leases, and what nobody honest writes there.

// Each test takes what it needs.
#![allow(dead_code)]

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use fusewire_device::Shared;
use fusewire_outboard::protocol::{KEY_LEN, Reply, Request};
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
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let control = socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&control, &SocketAddrUnix::new(place).unwrap()).unwrap();
    send(&control, &Request::Region.emit(), SendFlags::NOSIGNAL).unwrap();
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
    let Reply::Region(key) = Reply::parse(&bytes[..len]).unwrap() else { panic!("no region") };
    (control, key, files.unwrap())
}
