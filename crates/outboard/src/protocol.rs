//! What applications and the outboard say to each other. Every message has a fixed layout, little-endian; each field is
//! read once, and checked. Nothing here allocates: the client speaks it in signal handlers too.
//!
//! ```text
//!  control, a SEQPACKET Unix socket; one request, one answer, in order; a request carries SCM_CREDENTIALS of its sender
//!    0  2  kind              request or answer
//!    2  2  zero
//!    4  4  argument          version, family and kind of a socket, backlog; errno of an answer, number of the interface
//!    8  24 handle            8 of the socket, 16 of its token; zeros where no socket is meant
//!   32  …  body              an address (24), an option (level, name, value), …
//!
//!  a listener's placeholder, records in a stream
//!    to the application      72 bytes: handle, address of the peer, own address; with a descriptor
//!    from it                 32 bytes: what became of it (8), handle
//!
//!  a datagram's placeholder, SEQPACKET, both ways
//!    48 bytes of the peer's address (zeros: whom the socket is connected to) and of what goes beside it (`Heading`), and
//!    the message; to the application 48 zeros alone are word of an error, for which the outboard is asked (`FAILURE`)
//!
//!  a context's placeholder, SEQPACKET, both ways
//!    16 bytes of what is said of the ADU (`About`), and the ADU
//!
//!  an address: 0 version (4, 6, 0 for none), 1 prefix length, 2 port (2), 4 scope (4), 8 address (4 or 16, zeros)
//! ```
//! A socket is known by its [`Handle`]: the token is random and told only to who made the socket or has shown its
//! placeholder, so that a number alone commands nothing.

mod about;
mod heading;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub use about::{
    ABOUT_LEN, ADU_MAX, About, SOL_XTP, XTP_CHECK, XTP_NOERR, XTP_OVERTAKING, XTP_SORT, XTP_TAGS,
};

pub use fusewire_stack::ip::Ancillary;
pub use fusewire_stack::ip::posix::ancillary;
pub use heading::{ANCILLARY_LEN, HEADING_LEN, Heading, emit_ancillary, parse_ancillary};

/// What both sides speak.
pub const VERSION: u32 = 7;
/// Most bytes of a control message.
pub const MESSAGE_MAX: usize = 512;
/// Most bytes of an option's value.
pub const VALUE_MAX: usize = 384;
/// Most addresses of a [`Reply::Welcome`].
pub const ADDRESSES_MAX: usize = 16;
/// Bytes of an address.
pub const ADDRESS_LEN: usize = 24;
/// Bytes of a handle.
const HANDLE_LEN: usize = 24;
/// Bytes before a body.
const HEAD_LEN: usize = 8 + HANDLE_LEN;
/// Bytes of the key of a region of leases.
pub const KEY_LEN: usize = 16;
/// Bytes of an [`Offer`].
pub const OFFER_LEN: usize = HANDLE_LEN + 2 * ADDRESS_LEN;
/// Bytes of a [`Verdict`].
pub const VERDICT_LEN: usize = 8 + HANDLE_LEN;
/// Beginning of the names of sockets that wait for the next outboard, in the abstract namespace.
pub const WAITING_PREFIX: &[u8] = b"fusewire-waiting/";
/// What the names of placeholders begin with, in the abstract namespace.
pub const NAME_PREFIX: &[u8] = b"fusewire/";
/// Bytes of the name of a placeholder: prefix, instance, a slash, socket.
pub const NAME_LEN: usize = NAME_PREFIX.len() + 16 + 1 + 16;

/// What came is no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Malformed {
    /// Which field.
    pub what: &'static str,
    /// What it may be.
    pub expected: &'static str,
    /// What it was.
    pub found: u64,
}

type Result<T> = std::result::Result<T, Malformed>;

fn malformed<T>(what: &'static str, expected: &'static str, found: impl TryInto<u64>) -> Result<T> {
    Err(Malformed { what, expected, found: found.try_into().unwrap_or(u64::MAX) })
}

/// The right to command a socket.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Handle {
    /// The socket, among all of an outboard.
    pub socket: u64,
    /// A secret of whoever has its placeholder.
    pub token: [u8; 16],
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:x})", self.socket)
    }
}

/// IP version of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// `AF_INET`
    V4 = 4,
    /// `AF_INET6`
    V6 = 6,
}

impl Family {
    /// No address and no port.
    pub fn unspecified(self) -> SocketAddr {
        match self {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `SOCK_STREAM`: TCP.
    Stream = 1,
    /// `SOCK_DGRAM`: UDP.
    Datagram = 2,
    /// `SOCK_SEQPACKET`: XTP, as protocol 36 of IP; the port of an address is the service.
    Messages = 3,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Stream, Kind::Datagram, Kind::Messages];
}

/// An option, of `SOL_SOCKET`, that the kernel has a call of its own for (`TIOCOUTQ`), whose number it is: bytes of a stream that the
/// outboard has and its peer does not.
pub const UNSENT: i32 = libc::TIOCOUTQ as i32;

/// An option, of `SOL_SOCKET`, that no program names: `SO_ERROR` for a client that has taken out word of it, which there may be of
/// the next error from then on; of a stream for who reads, and is at its end.
pub const FAILURE: i32 = -1;

/// Family and kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketType {
    /// Its IP version.
    pub family: Family,
    /// What it carries.
    pub kind: Kind,
}

impl SocketType {
    pub(crate) fn code(self) -> u32 {
        u32::from(self.family as u8) << 8 | u32::from(self.kind as u8)
    }

    pub(crate) fn of(code: u32) -> Result<SocketType> {
        let all = [Family::V4, Family::V6]
            .into_iter()
            .flat_map(|family| Kind::ALL.map(|kind| SocketType { family, kind }));
        let found = all.into_iter().find(|one| one.code() == code);
        found.map_or_else(|| malformed("socket type", "a family and a kind", code), Ok)
    }
}

/// An option of a socket, by the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionName {
    /// `SOL_SOCKET`, `IPPROTO_TCP`, …
    pub level: i32,
    /// `SO_ERROR`, `TCP_INFO`, …
    pub name: i32,
}

/// What an application asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// First on each connection: the version that is spoken.
    Hello {
        /// [`VERSION`]
        version: u32,
    },
    /// A new socket; its placeholder comes with the answer.
    Socket(SocketType),
    /// What is the placeholder that comes with this?
    Attach,
    /// Makes anew what the placeholder that comes with this was at an outboard that is gone; a new one comes with the answer.
    Restore,
    /// Binds.
    Bind(Handle, SocketAddr),
    /// Listens; at most so many wait to be accepted.
    Listen(Handle, u32),
    /// Connects; the placeholder comes with it. Answered at once: it can be written to when the connection is there.
    /// `None`, of datagrams only: to nobody any more.
    Connect(Handle, Option<SocketAddr>),
    /// The socket's own address.
    Local(Handle),
    /// The peer's.
    Peer(Handle),
    /// The value of an option.
    Option(Handle, OptionName),
    /// Sets an option.
    SetOption(Handle, OptionName, &'a [u8]),
    /// Memory for leases, which ends with this connection.
    Region,
    /// A lease of a stream in the region with this key.
    Lease(Handle, [u8; KEY_LEN]),
    /// There is news in shared memory. Nothing is answered.
    Wake,
    /// Memory for commands, which ends with this connection.
    Commands,
}

/// What it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Not done: a value of `errno`, never 0.
    Failed(u32),
    /// Done.
    Done,
    /// To a hello.
    Welcome {
        /// The outboard, of all that ever ran on this host.
        instance: u64,
        /// The number of its interface in the outboard's network namespace; 0: it has none.
        interface: u32,
        /// What a client wants to know of its addresses: which are ours, with their networks.
        addresses: Addresses<'a>,
    },
    /// To `Socket`, `Attach` and `Restore`.
    Opened(Handle, SocketType),
    /// An address, where there is one.
    Address(Option<SocketAddr>),
    /// The value of an option.
    Value(&'a [u8]),
    /// To `Region`: its key; its two files come with this, of rings and of blocks.
    Region([u8; KEY_LEN]),
    /// To `Lease`: which one of the region.
    Leased(u32),
    /// To `Commands`: its two files come with this, of commands and of answers.
    Commands,
}

/// A list of addresses with the length of their prefix, as it lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a>(&'a [u8]);

impl<'a> Addresses<'a> {
    /// Reads such a list.
    ///
    /// # Errors
    /// It is too long, or an address makes no sense.
    pub fn parse(bytes: &'a [u8]) -> Result<Addresses<'a>> {
        let (all, rest) = bytes.as_chunks::<ADDRESS_LEN>();
        if !rest.is_empty() || all.len() > ADDRESSES_MAX {
            return malformed("addresses", "up to 16 of 24 bytes", bytes.len());
        }
        all.iter().try_for_each(|one| one_address(one).map(|_| ()))?;
        Ok(Addresses(bytes))
    }

    /// Each address, and the bits of its network.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, u8)> + use<'a> {
        let all = self.0.as_chunks::<ADDRESS_LEN>().0.iter();
        all.filter_map(|one| one_address(one).ok().flatten().map(|(addr, len)| (addr.ip(), len)))
    }
}

/// Lays addresses down as [`Addresses`] reads them; those beyond the first 16 are left out.
pub fn emit_addresses(all: impl Iterator<Item = (IpAddr, u8)>, out: &mut Vec<u8>) {
    for (address, len) in all.take(ADDRESSES_MAX) {
        let mut one = emit_address(Some(SocketAddr::new(address, 0)));
        one[1] = len;
        out.extend_from_slice(&one);
    }
}

fn one_address(bytes: &[u8; ADDRESS_LEN]) -> Result<Option<(SocketAddr, u8)>> {
    let [version, prefix, p0, p1, s0, s1, s2, s3, ip @ ..] = *bytes;
    let (port, scope) = (u16::from_le_bytes([p0, p1]), u32::from_le_bytes([s0, s1, s2, s3]));
    let [a, b, c, d, rest @ ..] = ip;
    let bits = match version {
        0 if *bytes == [0; ADDRESS_LEN] => return Ok(None),
        4 if rest == [0; 12] && scope == 0 => 32,
        6 => 128,
        _ => return malformed("address", "a version and nothing beside it", version),
    };
    if prefix > bits {
        return malformed("prefix length", "at most the address's bits", prefix);
    }
    let address = match version {
        4 => SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port),
        _ => SocketAddrV6::new(ip.into(), port, 0, scope).into(),
    };
    Ok(Some((address, prefix)))
}

/// Reads an address; `None` where zeros stand for none.
///
/// # Errors
/// Another version than 4 and 6, bytes that belong to nothing.
pub fn parse_address(bytes: &[u8; ADDRESS_LEN]) -> Result<Option<SocketAddr>> {
    match one_address(bytes)? {
        Some((_, prefix @ 1..)) => malformed("prefix length", "none", prefix),
        found => Ok(found.map(|(address, _)| address)),
    }
}

/// Lays an address down.
pub fn emit_address(address: Option<SocketAddr>) -> [u8; ADDRESS_LEN] {
    let mut bytes = [0; ADDRESS_LEN];
    let Some(address) = address else { return bytes };
    bytes[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[8..12].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..8].copy_from_slice(&v6.scope_id().to_le_bytes());
            bytes[8..].copy_from_slice(&v6.ip().octets());
        }
    }
    bytes
}

/// A control message as it travels.
#[derive(Clone, Copy)]
pub struct Message {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
}

impl std::ops::Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Message {
    fn new(kind: u16, argument: u32, handle: &Handle) -> Message {
        let mut message = Message { bytes: [0; MESSAGE_MAX], len: 0 };
        message.push(&kind.to_le_bytes());
        message.push(&[0; 2]);
        message.push(&argument.to_le_bytes());
        message.push(&emit_handle(handle));
        message
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn with(mut self, body: &[u8]) -> Message {
        self.push(body);
        self
    }
}

fn emit_handle(handle: &Handle) -> [u8; HANDLE_LEN] {
    let mut bytes = [0; HANDLE_LEN];
    bytes[..8].copy_from_slice(&handle.socket.to_le_bytes());
    bytes[8..].copy_from_slice(&handle.token);
    bytes
}

/// The fields that every message has.
struct Head<'a> {
    kind: u16,
    argument: u32,
    handle: Handle,
    body: &'a [u8],
}

impl<'a> Head<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Head<'a>> {
        let Some((head, body)) = bytes.split_first_chunk::<HEAD_LEN>() else {
            return malformed("message", "32 bytes or more", bytes.len());
        };
        if bytes.len() > MESSAGE_MAX {
            return malformed("message", "512 bytes or fewer", bytes.len());
        }
        let [k0, k1, z0, z1, a0, a1, a2, a3, handle @ ..] = *head;
        if [z0, z1] != [0, 0] {
            return malformed("bytes 2 and 3", "zero", u16::from_le_bytes([z0, z1]));
        }
        Ok(Head {
            kind: u16::from_le_bytes([k0, k1]),
            argument: u32::from_le_bytes([a0, a1, a2, a3]),
            handle: parse_handle(&handle),
            body,
        })
    }

    fn no_handle(&self) -> Result<()> {
        if self.handle == Handle::default() {
            return Ok(());
        }
        malformed("handle", "none", self.handle.socket)
    }

    fn no_argument(&self) -> Result<()> {
        if self.argument == 0 { Ok(()) } else { malformed("argument", "none", self.argument) }
    }

    fn no_body(&self) -> Result<()> {
        if self.body.is_empty() { Ok(()) } else { malformed("body", "none", self.body.len()) }
    }

    fn address(&self) -> Result<Option<SocketAddr>> {
        self.no_argument()?;
        match <&[u8; ADDRESS_LEN]>::try_from(self.body) {
            Ok(bytes) => parse_address(bytes),
            Err(_) => malformed("body", "an address of 24 bytes", self.body.len()),
        }
    }

    fn key(&self) -> Result<[u8; KEY_LEN]> {
        let found = self.body.len();
        self.body.try_into().or_else(|_| malformed("key", "16 bytes", found))
    }

    fn option(&self) -> Result<(OptionName, &'a [u8])> {
        self.no_argument()?;
        let Some((name, value)) = self.body.split_first_chunk::<8>() else {
            return malformed("body", "level and name", self.body.len());
        };
        if value.len() > VALUE_MAX {
            return malformed("value", "384 bytes or fewer", value.len());
        }
        let [l0, l1, l2, l3, n0, n1, n2, n3] = *name;
        let level = i32::from_le_bytes([l0, l1, l2, l3]);
        Ok((OptionName { level, name: i32::from_le_bytes([n0, n1, n2, n3]) }, value))
    }
}

fn parse_handle(bytes: &[u8; HANDLE_LEN]) -> Handle {
    let [s0, s1, s2, s3, s4, s5, s6, s7, token @ ..] = *bytes;
    Handle { socket: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]), token }
}

/// Numbers of requests.
mod ask {
    pub const HELLO: u16 = 1;
    pub const SOCKET: u16 = 2;
    pub const ATTACH: u16 = 3;
    pub const BIND: u16 = 4;
    pub const LISTEN: u16 = 5;
    pub const CONNECT: u16 = 6;
    pub const LOCAL: u16 = 7;
    pub const PEER: u16 = 8;
    pub const OPTION: u16 = 9;
    pub const SET_OPTION: u16 = 10;
    pub const REGION: u16 = 11;
    pub const LEASE: u16 = 12;
    pub const WAKE: u16 = 13;
    pub const COMMANDS: u16 = 14;
    pub const RESTORE: u16 = 15;
}

/// Numbers of answers.
mod answer {
    pub const FAILED: u16 = 0x8000;
    pub const DONE: u16 = 0x8001;
    pub const WELCOME: u16 = 0x8002;
    pub const OPENED: u16 = 0x8003;
    pub const ADDRESS: u16 = 0x8004;
    pub const VALUE: u16 = 0x8005;
    pub const REGION: u16 = 0x8006;
    pub const LEASED: u16 = 0x8007;
    pub const COMMANDS: u16 = 0x8008;
}

const NOBODY: Handle = Handle { socket: 0, token: [0; 16] };

impl<'a> Request<'a> {
    /// Returns `true` if the request may lie in shared memory ([`crate::commands`]): no descriptor goes with it, nor with its
    /// answer, and its handle is all the right that it needs. Binding and listening depend on the user of the calling thread,
    /// which the kernel attests for a message only.
    pub fn is_plain(&self) -> bool {
        match self {
            Request::Local(_)
            | Request::Peer(_)
            | Request::Option(..)
            | Request::SetOption(..)
            | Request::Lease(..) => true,
            Request::Hello { .. }
            | Request::Socket(_)
            | Request::Attach
            | Request::Restore
            | Request::Bind(..)
            | Request::Listen(..)
            | Request::Connect(..)
            | Request::Region
            | Request::Wake
            | Request::Commands => false,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// It is none: too short or too long for its kind, or a field has a value that it cannot have.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>> {
        let head = Head::parse(bytes)?;
        Ok(match head.kind {
            ask::HELLO => {
                head.no_handle()?;
                head.no_body()?;
                Request::Hello { version: head.argument }
            }
            ask::SOCKET => {
                head.no_handle()?;
                head.no_body()?;
                Request::Socket(SocketType::of(head.argument)?)
            }
            ask::ATTACH => {
                head.no_handle()?;
                head.no_argument()?;
                head.no_body()?;
                Request::Attach
            }
            ask::BIND => match head.address()? {
                Some(local) => Request::Bind(head.handle, local),
                None => return malformed("address", "one to bind to", 0u64),
            },
            ask::LISTEN => {
                head.no_body()?;
                Request::Listen(head.handle, head.argument)
            }
            ask::CONNECT => Request::Connect(head.handle, head.address()?),
            ask::LOCAL | ask::PEER => {
                head.no_argument()?;
                head.no_body()?;
                match head.kind {
                    ask::LOCAL => Request::Local(head.handle),
                    _ => Request::Peer(head.handle),
                }
            }
            ask::OPTION => match head.option()? {
                (name, []) => Request::Option(head.handle, name),
                (_, value) => return malformed("value", "none", value.len()),
            },
            ask::SET_OPTION => {
                let (name, value) = head.option()?;
                Request::SetOption(head.handle, name, value)
            }
            ask::REGION | ask::WAKE | ask::COMMANDS | ask::RESTORE => {
                head.no_handle()?;
                head.no_argument()?;
                head.no_body()?;
                match head.kind {
                    ask::REGION => Request::Region,
                    ask::WAKE => Request::Wake,
                    ask::RESTORE => Request::Restore,
                    _ => Request::Commands,
                }
            }
            ask::LEASE => {
                head.no_argument()?;
                Request::Lease(head.handle, head.key()?)
            }
            kind => return malformed("request", "1 to 15", kind),
        })
    }

    /// Lays it down.
    ///
    /// # Panics
    /// When a value is longer than [`VALUE_MAX`].
    pub fn emit(&self) -> Message {
        let option = |handle, kind, name: &OptionName| {
            let message = Message::new(kind, 0, handle);
            message.with(&name.level.to_le_bytes()).with(&name.name.to_le_bytes())
        };
        let plain = |kind, handle| Message::new(kind, 0, handle);
        match self {
            Request::Hello { version } => Message::new(ask::HELLO, *version, &NOBODY),
            Request::Socket(of) => Message::new(ask::SOCKET, of.code(), &NOBODY),
            Request::Attach => plain(ask::ATTACH, &NOBODY),
            Request::Bind(handle, local) => {
                plain(ask::BIND, handle).with(&emit_address(Some(*local)))
            }
            Request::Listen(handle, backlog) => Message::new(ask::LISTEN, *backlog, handle),
            Request::Connect(handle, remote) => {
                plain(ask::CONNECT, handle).with(&emit_address(*remote))
            }
            Request::Local(handle) => plain(ask::LOCAL, handle),
            Request::Peer(handle) => plain(ask::PEER, handle),
            Request::Option(handle, name) => option(handle, ask::OPTION, name),
            Request::SetOption(handle, name, value) => {
                assert!(value.len() <= VALUE_MAX, "a value of {} bytes", value.len());
                option(handle, ask::SET_OPTION, name).with(value)
            }
            Request::Region => plain(ask::REGION, &NOBODY),
            Request::Lease(handle, key) => plain(ask::LEASE, handle).with(key),
            Request::Wake => plain(ask::WAKE, &NOBODY),
            Request::Commands => plain(ask::COMMANDS, &NOBODY),
            Request::Restore => plain(ask::RESTORE, &NOBODY),
        }
    }
}

impl<'a> Reply<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// As [`Request::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Reply<'a>> {
        let head = Head::parse(bytes)?;
        if head.kind != answer::OPENED {
            head.no_handle()?;
        }
        Ok(match head.kind {
            answer::FAILED if head.argument == 0 => return malformed("errno", "not 0", 0u64),
            answer::FAILED => {
                head.no_body()?;
                Reply::Failed(head.argument)
            }
            answer::DONE => {
                head.no_argument()?;
                head.no_body()?;
                Reply::Done
            }
            answer::WELCOME => {
                let Some((instance, addresses)) = head.body.split_first_chunk() else {
                    return malformed("body", "an instance", head.body.len());
                };
                let addresses = Addresses::parse(addresses)?;
                let (instance, interface) = (u64::from_le_bytes(*instance), head.argument);
                Reply::Welcome { instance, interface, addresses }
            }
            answer::OPENED => {
                head.no_body()?;
                Reply::Opened(head.handle, SocketType::of(head.argument)?)
            }
            answer::ADDRESS => Reply::Address(head.address()?),
            answer::VALUE if head.body.len() <= VALUE_MAX => {
                head.no_argument()?;
                Reply::Value(head.body)
            }
            answer::VALUE => return malformed("value", "384 bytes or fewer", head.body.len()),
            answer::REGION => {
                head.no_argument()?;
                Reply::Region(head.key()?)
            }
            answer::LEASED => {
                head.no_body()?;
                Reply::Leased(head.argument)
            }
            answer::COMMANDS => {
                head.no_argument()?;
                head.no_body()?;
                Reply::Commands
            }
            kind => return malformed("answer", "0x8000 to 0x8008", kind),
        })
    }

    /// Lays it down.
    ///
    /// # Panics
    /// When a value is longer than [`VALUE_MAX`].
    pub fn emit(&self) -> Message {
        let plain = |kind| Message::new(kind, 0, &NOBODY);
        match self {
            Reply::Failed(errno) => Message::new(answer::FAILED, *errno, &NOBODY),
            Reply::Done => plain(answer::DONE),
            Reply::Welcome { instance, interface, addresses } => {
                let head = Message::new(answer::WELCOME, *interface, &NOBODY);
                head.with(&instance.to_le_bytes()).with(addresses.0)
            }
            Reply::Opened(handle, of) => Message::new(answer::OPENED, of.code(), handle),
            Reply::Address(address) => plain(answer::ADDRESS).with(&emit_address(*address)),
            Reply::Value(value) => {
                assert!(value.len() <= VALUE_MAX, "a value of {} bytes", value.len());
                plain(answer::VALUE).with(value)
            }
            Reply::Region(key) => plain(answer::REGION).with(key),
            Reply::Leased(slot) => Message::new(answer::LEASED, *slot, &NOBODY),
            Reply::Commands => plain(answer::COMMANDS),
        }
    }
}

/// A connection that a listener hands to who accepts; its placeholder comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The connection.
    pub handle: Handle,
    /// Its other end.
    pub peer: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
}

impl Offer {
    /// Reads it.
    ///
    /// # Errors
    /// An address makes no sense.
    pub fn parse(bytes: &[u8; OFFER_LEN]) -> Result<Offer> {
        let (handle, addresses) = bytes.split_first_chunk().expect("24 of 72 bytes");
        let [peer, local] = addresses.as_chunks().0 else {
            return malformed("offer", "two addresses", addresses.len());
        };
        match (parse_address(peer)?, parse_address(local)?) {
            (Some(peer), Some(local)) => Ok(Offer { handle: parse_handle(handle), peer, local }),
            _ => malformed("address", "one of each end", 0u64),
        }
    }

    /// Lays it down.
    pub fn emit(&self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[..HANDLE_LEN].copy_from_slice(&emit_handle(&self.handle));
        bytes[HANDLE_LEN..][..ADDRESS_LEN].copy_from_slice(&emit_address(Some(self.peer)));
        bytes[HANDLE_LEN + ADDRESS_LEN..].copy_from_slice(&emit_address(Some(self.local)));
        bytes
    }
}

/// What became of an [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The application has its descriptor.
    Taken(Handle),
    /// It had none free, and the kernel dropped it: to be offered again.
    Lost(Handle),
}

impl Verdict {
    /// Reads it.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(bytes: &[u8; VERDICT_LEN]) -> Result<Verdict> {
        let (kind, handle) = bytes.split_first_chunk().expect("8 of 32 bytes");
        let handle = handle.first_chunk().expect("24 of 24 bytes");
        match u64::from_le_bytes(*kind) {
            1 => Ok(Verdict::Taken(parse_handle(handle))),
            2 => Ok(Verdict::Lost(parse_handle(handle))),
            kind => malformed("verdict", "1 or 2", kind),
        }
    }

    /// Lays it down.
    pub fn emit(&self) -> [u8; VERDICT_LEN] {
        let (kind, handle) = match self {
            Verdict::Taken(handle) => (1u64, handle),
            Verdict::Lost(handle) => (2, handle),
        };
        let mut bytes = [0; VERDICT_LEN];
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&emit_handle(handle));
        bytes
    }
}

/// The name of the outboard's end of a placeholder, what the application's end says of its peer: the instance, and a random
/// number that tells it from others.
pub fn name(instance: u64, random: u64) -> [u8; NAME_LEN] {
    let mut name = [b'/'; NAME_LEN];
    let (front, rest) = name.split_at_mut(NAME_PREFIX.len());
    front.copy_from_slice(NAME_PREFIX);
    for (at, number) in [(0, instance), (17, random)] {
        for (digit, place) in rest[at..at + 16].iter_mut().enumerate() {
            *place = b"0123456789abcdef"[(number >> (60 - 4 * digit)) as usize & 15];
        }
    }
    name
}

/// The instance and the random number of such a name.
pub fn parse_name(name: &[u8]) -> Option<(u64, u64)> {
    let rest = name.strip_prefix(NAME_PREFIX)?;
    let number = |digits: &[u8]| {
        let digit = |n: Option<u64>, d: &u8| match d {
            b'0'..=b'9' => Some(n? << 4 | u64::from(d - b'0')),
            b'a'..=b'f' => Some(n? << 4 | u64::from(d - b'a' + 10)),
            _ => None,
        };
        digits.iter().fold(Some(0), digit)
    };
    match rest.len() == 33 && rest[16] == b'/' {
        true => Some((number(&rest[..16])?, number(&rest[17..])?)),
        false => None,
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
