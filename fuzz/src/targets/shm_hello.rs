//! How an end of shared memory comes: whatever is sent to the socket, and whatever file with it, the listener
//! takes nothing but a hello of the right form, and maps nothing but memory that is sealed and as long as said.
use std::io::{ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use fusewire_device::Device as _;
use fusewire_device::shm::{Call, Ends, Listener, RING_BYTES};
use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};

use crate::Choices;

const RING: usize = *RING_BYTES.start();
/// Bytes of a file before the ring.
const CONTROL_BYTES: u64 = 1 << 16;
const TOKEN: [u8; 32] = [0x77; 32];
const SEALS: [SealFlags; 4] =
    [SealFlags::SHRINK, SealFlags::GROW, SealFlags::FUTURE_WRITE, SealFlags::SEAL];

/// A hello as an honest end sends it.
fn hello(ring_bytes: u64) -> Vec<u8> {
    [&b"fwshm\0\0\x01"[..], &TOKEN, &ring_bytes.to_le_bytes()].concat()
}

/// A file of some length with some seals, and whether an honest end could have made it.
fn file(choices: &mut Choices<'_>) -> Option<(OwnedFd, bool)> {
    let form = choices.u8();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("fuzz", flags).ok()?;
    let wrong = if form & 0x10 == 0 { 0 } else { i64::from(choices.u16() as i16) };
    let len = (CONTROL_BYTES + RING as u64).saturating_add_signed(wrong);
    ftruncate(&fd, len).ok()?;
    let seals = SEALS.iter().enumerate().filter(|(i, _)| form >> i & 1 == 0);
    fcntl_add_seals(&fd, seals.map(|(_, seal)| *seal).collect()).ok()?;
    // The last seal, against further ones, need not be there.
    Some((fd, form & 7 == 0 && wrong == 0))
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut listener = Listener::bind().expect("a socket");
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    let name = SocketAddrUnix::new_abstract_name(listener.name()).expect("its name");
    connect(&socket, &name).expect("it listens");
    let form = choices.u8();
    let file = if form & 1 == 0 { file(&mut choices) } else { None };
    let mut message = hello(RING as u64);
    let honest = if form & 2 == 0 {
        true
    } else {
        let at = usize::from(choices.u8()) % message.len();
        message.truncate(at);
        message.extend(choices.rest());
        message == hello(RING as u64)
    };
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = file.as_ref().map(|(fd, _)| [fd.as_fd()]);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(&socket, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL).expect("room");
    let mut caller = listener.accept().expect("descriptors are there").expect("one called");
    let polled = caller.poll().map(|token| token.copied());
    let expected = honest && file.is_some();
    match &polled {
        Ok(Some(token)) => {
            assert!(message.len() == 48 && message[8..40] == token[..] && file.is_some());
        }
        Ok(None) => panic!("the message has come"),
        Err(error) => {
            assert!(!expected, "{error}");
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::InvalidData | ErrorKind::ConnectionAborted));
            return;
        }
    }
    let addr = |port: u16| (std::net::Ipv4Addr::LOCALHOST, port).into();
    let ends = Ends { local: addr(1), peer: addr(2) };
    match caller.answer(&TOKEN, RING, ends) {
        Ok(shm) => {
            assert!(file.is_some_and(|(_, right)| right), "mapped what is not as it should be");
            assert!(shm.caps().receive_buffer_bytes > 0);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            assert!(!honest || file.is_some_and(|(_, right)| !right), "{error}");
        }
    }
    // Who called before harms nobody who calls after.
    Call::new(listener.name(), &TOKEN, &TOKEN, RING).expect("it listens");
}

/// An honest hello; one with a wrong file, one without a file, one cut short, one with a long ring.
pub fn seeds() -> Vec<Vec<u8>> {
    let long = [&[2, 0, 40][..], &(1u64 << 40).to_le_bytes()].concat();
    let other = [&[2, 0, 8][..], &[0x55; 32], &(RING as u64).to_le_bytes()].concat();
    let honest = [&[2, 0, 0][..], &hello(RING as u64)].concat();
    vec![
        vec![0],
        vec![0, 1],
        vec![0, 2],
        vec![0, 4],
        vec![0, 8],
        vec![0, 16, 255, 255],
        vec![0, 16, 0, 8],
        vec![1],
        vec![3, 47],
        vec![3, 0],
        long,
        other,
        honest,
    ]
}
