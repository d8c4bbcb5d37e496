//! What the library knows, found from the environment at the start of the program and never changed:
//!
//! - `FUSEWIRE_OUTBOARD`: where the outboard's socket is; without it, where one is found by default.
//! - `FUSEWIRE_RULES`: rules (`outboard::rules`), or a file of them if it begins with `/` or `.`.
//! - `FUSEWIRE_LEASE=0`: bytes go by placeholders alone, by no rings.
//! - `FUSEWIRE_QUIET=1`: programs that cannot be preloaded are not named when they are executed.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fusewire_outboard::client::lost::Lost;
use fusewire_outboard::client::{self, Client, Rings, Way, Welcome};
use fusewire_outboard::placeholder;
use fusewire_outboard::protocol::{Family, Handle, Kind, SocketType};
use fusewire_outboard::reach::{Program, Unreached};
use fusewire_outboard::rules::{Owner, Place, Purpose, Rules, Wanted};
use fusewire_outboard::server::default_path;
use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::sys::{self, Once};
use crate::table::{Known, Socket, Table, stage};
use crate::{lost, sockets};

/// Where the outboard is.
const OUTBOARD: &str = "FUSEWIRE_OUTBOARD";
/// Which sockets are its.
const RULES: &str = "FUSEWIRE_RULES";
/// Whether streams get leases.
const LEASE: &str = "FUSEWIRE_LEASE";
/// Whether programs that cannot be preloaded are not named.
const QUIET: &str = "FUSEWIRE_QUIET";
/// What the dynamic linker loads first.
pub const PRELOAD: &str = "LD_PRELOAD";
/// Variables that a program is started with, however it clears its environment.
pub const KEPT: [&str; 5] = [PRELOAD, OUTBOARD, RULES, LEASE, QUIET];
/// Programs that a process and its children name at most, each once.
const NAMED_MAX: usize = 64;

/// Numbers among which a process's sockets are looked for that it has from its parent.
const INHERITED: usize = 1024;

/// The library in this process.
pub struct Library {
    /// The way to the outboard.
    pub client: Client,
    /// What is known of descriptors.
    pub table: Table,
    /// [`KEPT`] as `NAME=VALUE` with a zero behind, as they were at the start.
    pub kept: [Option<Box<[u8]>>; KEPT.len()],
    /// Sockets that wait for the next outboard.
    pub lost: Lost,
    /// Leases, unless none are wanted.
    pub rings: Option<Rings>,
    rules: Rules,
    welcome: Once<Welcome>,
    /// Files of programs that this process or a child of it has named, because they cannot be preloaded; empty: none is.
    named: &'static [AtomicU64],
    /// A filter of system calls is in force: what it lets through are calls that the program makes itself.
    is_confined: AtomicBool,
}

static LIBRARY: Once<Option<Library>> = Once::new();

/// Makes the library, before the program begins: it is none until then, for what is called earlier may be called by the
/// allocator that is needed here. None it stays where it cannot work, which is said once.
pub fn begin() {
    LIBRARY.set(Library::new());
}

/// The library. Without it all is the kernel's.
pub fn library() -> Option<&'static Library> {
    LIBRARY.get()?.as_ref()
}

/// The socket of the outboard's that a number is.
pub fn ours(number: i32) -> Option<(&'static Library, Socket)> {
    let library = library()?;
    let is_confined = library.is_confined();
    match library.table.known(number) {
        // Bytes through the placeholder are what the kernel makes of the same call.
        Known::Ours(socket) if is_confined => {
            let is_plain = socket.is_stream() && socket.is(stage::CONNECTED);
            (!is_plain).then_some(socket)
        }
        Known::Unknown if is_confined => None,
        Known::Ours(socket) if socket.is(stage::DOUBTFUL) => library.verify(socket),
        Known::Ours(socket) => Some(socket),
        Known::Kernel => None,
        Known::Unknown => library.recognise(number),
    }
    .map(|socket| (library, socket))
}

/// The same for who commands it: a number that was closed behind our back is none any more.
pub fn commanded(number: i32) -> Option<(&'static Library, Socket)> {
    let (library, socket) = ours(number)?;
    if library.is_confined() || library.is_still(&socket) {
        let next = socket.is(stage::LOST).then(|| lost::regain(library, &socket));
        return Some((library, next.and_then(Result::ok).flatten().unwrap_or(socket)));
    }
    library.forget(number);
    ours(number)
}

/// Of a stream that [`ours`] leaves to the kernel, what is known without a call.
pub fn plain(number: i32) -> Option<Socket> {
    let library = library().filter(|library| library.is_confined())?;
    match library.table.known(number) {
        Known::Ours(socket) if socket.is_stream() && socket.is(stage::CONNECTED) => Some(socket),
        _ => None,
    }
}

impl Library {
    fn new() -> Option<Library> {
        let of = |name: &str| std::env::var_os(name);
        let path = of(OUTBOARD).map_or_else(default_path, PathBuf::from);
        let client = Client::new(&path).map_err(|error| {
            say(format_args!("{OUTBOARD}={}: {error}", path.display()));
        });
        let table = Table::new().or_else(|| {
            say(format_args!("no memory for the table of descriptors"));
            None
        });
        let kept = KEPT.map(|name| of(name).map(|value| assignment(name, &value)));
        let rules = rules(of(RULES))?;
        // Without memory that a child does not inherit, there are none.
        let rings = of(LEASE)
            .is_none_or(|lease| lease != "0")
            .then(|| Rings::checked(has_no_uring))
            .and_then(Result::ok);
        let (client, table, welcome) = (client.ok()?, table?, Once::new());
        let is_confined = AtomicBool::new(false);
        let is_quiet = of(QUIET).is_some_and(|quiet| quiet != "0");
        let named = if is_quiet { None } else { sys::shared_words(NAMED_MAX) };
        let named = named.unwrap_or_default();
        let lost = Lost::default();
        Some(Library { client, table, kept, lost, rings, rules, welcome, named, is_confined })
    }

    /// A filter of system calls is in force.
    pub fn is_confined(&self) -> bool {
        self.is_confined.load(Ordering::Relaxed)
    }

    /// The process has an `io_uring`, which sees placeholders alone: bytes go by those from now on.
    pub fn refuse_rings(&self) {
        if let Some(rings) = &self.rings {
            rings.refuse();
        }
        if self.table.is_of_another(rustix::process::getpid()) {
            return;
        }
        for number in 0..=self.table.highest() as i32 {
            if let Known::Ours(socket) = self.table.known(number) {
                self.give_up(&socket);
            }
        }
    }

    /// Names a program that is about to run and cannot be preloaded, once for this process and its children.
    pub fn name(&self, program: &Program, unreached: Unreached) {
        let Some(file) = program.file().map(|file| file.max(1)) else { return };
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        for place in self.named {
            match place.compare_exchange(0, file, order, relaxed) {
                Ok(_) => return named(program, unreached),
                Err(other) if other == file => return,
                Err(_) => {}
            }
        }
    }

    /// The outboard will soon be out of reach: what this process has of it is learnt, so that nobody else has a lease of it.
    pub fn look_ahead(&self) {
        if self.table.is_of_another(rustix::process::getpid()) {
            return;
        }
        for number in 0..=self.table.highest().max(INHERITED) as i32 {
            let p = sys::borrow(number).filter(|p| placeholder::identity(*p).is_some());
            if p.is_some() && matches!(self.table.known(number), Known::Unknown) {
                self.recognise(number);
            }
        }
        // A connection that is there stays.
        let _ = self.client.welcome();
    }

    /// A filter of system calls will soon be in force: sockets have no lease any more, and the names of streams are known.
    pub fn prepare_confinement(&self) {
        if self.table.is_of_another(rustix::process::getpid()) {
            return;
        }
        self.look_ahead();
        for number in 0..=self.table.highest() as i32 {
            let Known::Ours(socket) = self.table.known(number) else { continue };
            if !socket.is_stream() {
                self.give_up(&socket);
                continue;
            }
            let addresses = (self.client.local(socket.handle), self.client.peer(socket.handle));
            if let (None, (Ok(local), Ok(peer))) = (socket.addresses, addresses) {
                self.learn(&Socket { addresses: Some((local, peer)), ..socket });
            }
            self.give_up(&socket);
        }
    }

    /// It is in force.
    pub fn confine(&self) {
        self.is_confined.store(true, Ordering::Relaxed);
    }

    /// The rings that a socket's bytes may go by, and what is known of its way.
    pub fn rings(&self, socket: &Socket) -> Option<(&Rings, &Way)> {
        Some((self.rings.as_ref()?, self.table.way(socket.number)?))
    }

    /// Looks for a while whether something comes by a socket's rings, as a call does that waits for it.
    pub fn look(&self, socket: &Socket) {
        if let Some((rings, way)) = self.rings(socket) {
            rings.look(socket.p(), way);
        }
    }

    /// From now on somebody uses a socket's placeholder by itself: its bytes go that way alone.
    pub fn give_up(&self, socket: &Socket) {
        if let Some((rings, way)) = self.rings(socket) {
            self.disturb(socket.number);
            rings.give_up(socket.p(), way);
            way.refuse();
        }
    }

    /// A number is about to be closed, or to become another's.
    pub fn close(&self, number: i32) {
        self.close_waiter(number);
        let Known::Ours(socket) = self.table.known(number) else {
            return self.table.forget(number);
        };
        if self.is_confined() {
            return self.table.forget(number);
        }
        if !self.table.is_of(rustix::process::getpid()) {
            // A child between `vfork` and `exec` closes its own descriptor, and what is known is its parent's.
            return self.table.doubt(number);
        }
        if socket.is(stage::LOST) {
            self.lost.remove(socket.cookie);
        }
        if let Some((rings, way)) = self.rings(&socket)
            && way.is_leased()
        {
            self.disturb(number);
            match self.is_still(&socket) {
                true => rings.close(socket.p(), way),
                false => rings.abandon(way),
            }
        }
        self.table.forget(number);
    }

    /// The same of many, both included.
    pub fn close_range(&self, first: u32, last: u32) {
        let last = (last as usize).min(self.table.highest());
        (first as usize..=last).for_each(|number| self.close(number as i32));
    }

    /// A number is another's, by whatever way: its lease is nobody's any more.
    pub fn forget(&self, number: i32) {
        self.close_waiter(number);
        if let (Some(rings), Some(way)) = (&self.rings, self.table.way(number))
            && way.is_leased()
        {
            rings.abandon(way);
        }
        self.table.forget(number);
    }

    /// A number is a socket of the outboard's. False: such a number cannot be known.
    pub fn learn(&self, socket: &Socket) -> bool {
        self.forget(socket.number);
        self.table.learn(socket)
    }

    /// What is said of a socket. Of one whose outboard is gone another knows nothing: it says what was said while there was none.
    pub fn said<T>(&self, socket: &Socket, said: client::Result<T>) -> client::Result<T> {
        match said {
            Err(Errno::BADF) if socket.is(stage::LOST) || self.client.is_gone(socket.p()) => {
                Err(Errno::NETDOWN)
            }
            said => said,
        }
    }

    /// Returns `ECONNRESET`, once, for a stream whose outboard is gone: its connection has ended with that.
    pub fn ended(&self, socket: &mut Socket) -> Option<Errno> {
        let is_known = socket.is(stage::ENDED);
        self.table.change(socket, stage::ENDED, 0);
        (!is_known).then_some(Errno::CONNRESET)
    }

    /// A number is what was known of it.
    fn is_still(&self, socket: &Socket) -> bool {
        rustix::net::sockopt::socket_cookie(socket.p()) == Ok(socket.cookie)
    }

    /// Nothing of this program that is of this kind is the outboard's.
    pub fn is_kernel(&self, kind: Kind) -> bool {
        self.rules.is_kernel(kind)
    }

    /// A number that a child has closed which shares this memory: to the child it is something else, and not of ours.
    fn verify(&self, mut socket: Socket) -> Option<Socket> {
        if self.is_still(&socket) {
            self.table.change(&mut socket, 0, stage::DOUBTFUL);
            return Some(socket);
        }
        if !self.table.is_of(rustix::process::getpid()) {
            return None;
        }
        self.forget(socket.number);
        self.recognise(socket.number)
    }

    /// A number of which nothing is known: from before `exec`, of a parent, by `SCM_RIGHTS`, or a duplicate.
    fn recognise(&self, number: i32) -> Option<Socket> {
        let known = sys::borrow(number).and_then(|p| {
            let cookie = rustix::net::sockopt::socket_cookie(p).ok()?;
            if placeholder::identity(p).is_none() {
                return lost::inherited(self, number, cookie);
            }
            let (handle, of) = match self.client.attach(p) {
                Ok(known) => known,
                Err(Errno::NETDOWN | Errno::NOTSOCK) => return left_behind(p, number, cookie),
                Err(_) => return None,
            };
            let mut socket = Socket::new(number, handle, of, cookie);
            socket.stage = self.stage(&socket);
            Some(socket)
        });
        match known.filter(|socket| self.learn(socket)) {
            Some(_) => match self.table.known(number) {
                Known::Ours(socket) => Some(socket),
                _ => None,
            },
            None => {
                self.table.note_kernel(number);
                None
            }
        }
    }

    /// Makes a socket of the outboard's. A process of a user that the outboard does not name, and that has not used a socket
    /// which it inherited yet, shows one first.
    ///
    /// # Errors
    /// As [`Client::socket`].
    pub fn socket(&self, of: SocketType) -> client::Result<(OwnedFd, Handle)> {
        match self.client.socket(of) {
            Err(Errno::ACCESS) if self.show_inherited() => self.client.socket(of),
            made => made,
        }
    }

    /// Shows the outboard a socket of its own that this process has; false if there is none.
    fn show_inherited(&self) -> bool {
        let numbers = 0..=self.table.highest().max(INHERITED) as i32;
        numbers
            .filter_map(|number| {
                sys::borrow(number).filter(|p| placeholder::identity(*p).is_some())
            })
            .any(|p| self.client.attach(p).is_ok())
    }

    /// How far a socket is that somebody else has made.
    pub fn stage(&self, socket: &Socket) -> u32 {
        let is = |name: i32| {
            let mut value = [0; 4];
            let name = fusewire_outboard::protocol::OptionName { level: libc::SOL_SOCKET, name };
            self.client.option(socket.handle, name, &mut value).is_ok() && value != [0; 4]
        };
        match self.client.peer(socket.handle) {
            Ok(_) if socket.is_stream() && placeholder::is_stuffed(socket.p()) => stage::CONNECTING,
            Ok(peer) if !socket.is_stream() => stage::of_peer(peer.ip()),
            Ok(_) => stage::CONNECTED,
            Err(_) if socket.is_stream() && is(libc::SO_ACCEPTCONN) => stage::LISTENING,
            Err(_) if socket.is_stream() && placeholder::is_stuffed(socket.p()) => {
                stage::CONNECTING
            }
            // It ended, and nobody knows how.
            Err(Errno::BADF) => stage::CONNECTED,
            Err(_) => 0,
        }
    }

    /// What the outboard said of itself when it was first asked.
    fn welcome(&self) -> Option<Welcome> {
        if self.welcome.get().is_none() {
            self.welcome.set(self.client.welcome().ok()?);
        }
        self.welcome.get().copied().or_else(|| self.client.welcome().ok())
    }

    /// The outboard has an address of the same version of IP as this one, of loopback too, or nobody knows.
    pub fn has_version_of(&self, ip: IpAddr) -> bool {
        let is_alike = |own: &(IpAddr, u8)| own.0.is_ipv4() == ip.is_ipv4();
        self.welcome().is_none_or(|welcome| welcome.addresses().iter().any(is_alike))
    }

    /// It is the address of all on a network of the outboard's, or of all.
    pub fn is_for_all(&self, ip: IpAddr) -> bool {
        // What is no such address of any network is not looked for.
        let may_be = matches!(ip, IpAddr::V4(ip) if ip.to_bits() & 3 == 3);
        may_be && self.welcome().is_some_and(|welcome| is_all(&welcome, ip))
    }

    /// Whose a socket is that is wanted for an address.
    pub fn owner(&self, purpose: Purpose, kind: Kind, address: SocketAddr) -> Owner {
        let Some(welcome) = self.welcome() else { return Owner::Outboard };
        let ip = address.ip();
        let has = |ip: IpAddr| welcome.addresses().iter().any(|(own, _)| *own == ip);
        let has_loopback = welcome.addresses().iter().any(|(own, _)| own.is_loopback());
        let place = match purpose {
            _ if ip.is_loopback() => Place::Loopback,
            // Nobody's address is this host's (RFC 1122, section 3.2.1.3), to Linux.
            Purpose::Connect if ip.is_unspecified() => Place::Loopback,
            _ if has(ip) => Place::Own,
            _ => Place::Elsewhere,
        };
        if place == Place::Elsewhere && !ip.is_unspecified() {
            // It has no way there, or it is the kernel's to have.
            let is_group = ip.is_multicast() || kind == Kind::Datagram && is_all(&welcome, ip);
            let is_foreign = purpose == Purpose::Bind && !is_group;
            if is_foreign || !has_version(&welcome, ip) {
                return Owner::Kernel;
            }
        }
        self.rules.owner(&Wanted { purpose, kind, address, place }, has_loopback)
    }
}

/// Returns a socket whose outboard was gone before this process knew it, if it is one. Whether a stream was a listener is not known.
fn left_behind(p: BorrowedFd<'_>, number: i32, cookie: u64) -> Option<Socket> {
    let is_over = sockets::shown(p, PollFlags::empty()).ok()?.contains(PollFlags::HUP);
    let (kind, stage) = match rustix::net::sockopt::socket_type(p).ok()? {
        rustix::net::SocketType::STREAM => (Kind::Stream, stage::LISTENING | stage::CONNECTED),
        _ => (Kind::Datagram, 0),
    };
    let of = SocketType { family: Family::V4, kind };
    is_over.then(|| Socket { stage, ..Socket::new(number, Handle::default(), of, cookie) })
}

/// It has an address of this one's version, by which others reach it.
fn has_version(welcome: &Welcome, ip: IpAddr) -> bool {
    let is_alike = |own: &IpAddr| own.is_ipv4() == ip.is_ipv4() && !own.is_loopback();
    welcome.addresses().iter().any(|(own, _)| is_alike(own))
}

/// It is the address of all on a network of the outboard's, or of all.
fn is_all(welcome: &Welcome, ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip else { return false };
    let is_of = |(own, prefix): &(IpAddr, u8)| match (own, *prefix) {
        (IpAddr::V4(own), prefix @ 0..=30) if !own.is_loopback() => {
            ip.to_bits() == own.to_bits() | u32::MAX >> prefix
        }
        _ => false,
    };
    ip.is_broadcast() || welcome.addresses().iter().any(is_of)
}

fn assignment(name: &str, value: &OsStr) -> Box<[u8]> {
    [name.as_bytes(), b"=", value.as_bytes(), &[0]].concat().into()
}

fn rules(given: Option<OsString>) -> Option<Rules> {
    let Some(given) = given else { return Some(Rules::default()) };
    let is_file = given.as_bytes().starts_with(b"/") || given.as_bytes().starts_with(b".");
    let text = match is_file {
        true => std::fs::read_to_string(&given).map_err(|error| error.to_string()),
        false => given.into_string().map_err(|_| "it is no text".into()),
    };
    let (file, called) = (std::env::current_exe().unwrap_or_default(), called());
    let programs = [&file, &called].map(|path| path.file_name().and_then(OsStr::to_str));
    let programs = programs.map(Option::unwrap_or_default);
    let rules =
        text.and_then(|text| Rules::parse_for(&text, &programs).map_err(|error| error.to_string()));
    rules.map_err(|error| say(format_args!("{RULES}: {error}"))).ok()
}

/// What the program was called by who started it.
fn called() -> PathBuf {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or(&[]);
    PathBuf::from(OsStr::from_bytes(first))
}

/// Returns `true` if this process may have leases. Most programs make an `io_uring` by system calls of their own, so it is looked
/// for.
fn has_no_uring() -> bool {
    let has_uring = sys::has_uring();
    if let Some(library) = library().filter(|_| has_uring) {
        library.refuse_rings();
    }
    !has_uring
}

/// Writes a program's name to standard error, unless that is a socket, in one piece and without allocation.
fn named(program: &Program, unreached: Unreached) {
    let Some(stderr) = sys::borrow(libc::STDERR_FILENO) else { return };
    let kind = rustix::fs::fstat(stderr).map(|about| FileType::from_raw_mode(about.st_mode));
    if kind.is_ok_and(|kind| kind != FileType::Socket) {
        let mut line = [0; 512];
        let path = program.path().as_os_str().as_bytes();
        let path = path.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte });
        let path = path.take(300);
        let (front, why) = (b"fusewire: ".iter(), unreached.why().as_bytes().iter());
        let middle = b": its sockets stay the kernel's: ".iter();
        let text = front.copied().chain(path).chain(middle.copied()).chain(why.copied());
        let mut len = 0;
        for (place, byte) in line.iter_mut().zip(text.chain([b'\n'])) {
            *place = byte;
            len += 1;
        }
        let _ = rustix::io::write(stderr, &line[..len]);
    }
}

/// What who started the program has to know.
fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "fusewire: every socket is the kernel's: {what}");
}
