//! `libfusewire`: sockets by name for C, as `include/fusewire.h` declares them.
//!
//! ```text
//!   border     what C calls: pointers become slices, results become -1 and errno, panics become EIO
//!     memory   the only other place with unsafe code: reading and writing the caller's memory
//!   table      descriptors: small integers of ours
//!   open       a stack from words: device, addresses, gateway; the default one from the environment
//!   posix      what a socket does, wherever its protocol runs
//!   socket     inline: over a stack in this process
//!   outboard   in another process
//!   adu        ADUs on an encrypted connection
//!   contexts   messages over XTP, without a session
//!   poll       waiting for several
//!   epoll      sets of sockets and of the kernel's descriptors, to be waited for
//!   address    sockaddr and back
//!   errno      why, as a number
//! ```
//!
//! Beyond `border` nothing sees a pointer.

mod address;
mod adu;
mod border;
mod contexts;
mod epoll;
mod errno;
mod open;
mod outboard;
mod poll;
mod posix;
mod socket;
mod table;
