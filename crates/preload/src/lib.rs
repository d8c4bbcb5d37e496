//! `libfusewire_preload`: gives the outboard's sockets to programs that know nothing of it, by the names that they call.
//!
//! ```text
//!   border     what programs call: libc's names; pointers become slices, results become -1 and errno
//!   sockets    names, options, connections: control messages, and whose a socket is
//!   bytes      every call that moves data
//!   waits      who waits for many: an epoll looks at rings itself before it sleeps
//!   interfaces the outboard's interface and addresses, as programs list them
//!   library    rules, the way to the outboard, what is known of descriptors; found from the environment once
//!   table      descriptors to sockets, without a lock, empty after fork
//!   sockaddr   struct sockaddr and back
//!   sys        system calls, and memory that lives as long as the process
//! ```
//! Calls on descriptors that are not the outboard's go to libc's own functions of the same names, which are cancellation points
//! (`border::cancel` says how calls on ours become such points). Otherwise nothing here calls libc for I/O, allocates or locks
//! after the start, so that each call may be made in signal handlers and between `vfork` and `exec`.
//! Beyond `border` and `sys` there is no unsafe code.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![cfg_attr(test, allow(dead_code, reason = "a test's own process keeps libc's names"))]

#[cfg(not(test))]
mod border;
mod bytes;
mod interfaces;
mod library;
mod lost;
mod sockaddr;
mod sockets;
mod sys;
mod table;
mod waits;
