//! What cannot be said without unsafe code, in safe words: system calls with the numbers of a program, and memory that
//! lives as long as the process.

mod once;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicU64;

use fusewire_outboard::client::{Result, Way};
use libc::c_long;
use rustix::fs::{Mode, OFlags, RawDir, open, readlinkat_raw};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

pub use once::Once;

/// A system call: what the kernel gives, -4095 to -1 for errors.
///
/// # Safety
/// Requirements of the call on its arguments.
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's convention: it keeps every register but those named, and the stack; what it does with the
    // arguments is the caller's obligation.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

/// A result of [`call`].
pub fn result(value: isize) -> Result<usize> {
    match value {
        -4095..=-1 => Err(Errno::from_raw_os_error(-value as i32)),
        value => Ok(value as usize),
    }
}

/// The descriptor of a number, during a call that a program has made with it: none if it cannot be one.
pub fn borrow<'a>(number: i32) -> Option<BorrowedFd<'a>> {
    // SAFETY: not -1. Whether it is open is the program's to see to, as with every call that takes a number: the kernel
    // answers EBADF, and here nothing rests on more.
    (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// A new socket of the kernel's.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd> {
    let arguments = [domain as usize, kind as usize, protocol as usize, 0, 0, 0];
    // SAFETY: numbers alone.
    let number = result(unsafe { call(libc::SYS_socket, arguments) })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

/// Puts a descriptor over a number of the program's.
pub fn replace(number: i32, new: OwnedFd, with_cloexec: bool) -> Result<()> {
    let flags = if with_cloexec { libc::O_CLOEXEC } else { 0 };
    let arguments = [new.as_raw_fd() as usize, number as usize, flags as usize, 0, 0, 0];
    // SAFETY: numbers alone. What is closed by it is the program's, in a call that it has made with this number.
    result(unsafe { call(libc::SYS_dup3, arguments) }).map(drop)
}

/// Binds a socket of the kernel's.
pub fn bind(fd: BorrowedFd<'_>, address: &[u8]) -> Result<()> {
    let arguments = [fd.as_raw_fd() as usize, address.as_ptr() as usize, address.len(), 0, 0, 0];
    // SAFETY: the address is readable for its length.
    result(unsafe { call(libc::SYS_bind, arguments) }).map(drop)
}

/// Sets an option of a socket of the kernel's.
pub fn set_option(fd: impl AsFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    let number = fd.as_fd().as_raw_fd();
    let (at, len) = (value.as_ptr() as usize, value.len());
    let arguments = [number as usize, level as usize, name as usize, at, len, 0];
    // SAFETY: the value is readable for its length.
    result(unsafe { call(libc::SYS_setsockopt, arguments) }).map(drop)
}

/// An option of a socket of the kernel's: how much of `value` was filled.
pub fn option(fd: impl AsFd, level: i32, name: i32, value: &mut [u8]) -> Result<usize> {
    let number = fd.as_fd().as_raw_fd();
    let mut len = value.len() as libc::socklen_t;
    let (at, len_at) = (value.as_mut_ptr() as usize, &raw mut len as usize);
    let arguments = [number as usize, level as usize, name as usize, at, len_at, 0];
    // SAFETY: the value is writable for its length, which is too.
    result(unsafe { call(libc::SYS_getsockopt, arguments) })?;
    Ok(len as usize)
}

/// Watches a descriptor as an epoll did before: its number names another file now.
pub fn watch_again(epoll: i32, number: i32, events: u32, data: u64) {
    let event = libc::epoll_event { events, u64: data };
    let (add, at) = (libc::EPOLL_CTL_ADD as usize, &raw const event as usize);
    // SAFETY: the event is readable; numbers otherwise.
    let _ = unsafe { call(libc::SYS_epoll_ctl, [epoll as usize, add, number as usize, at, 0, 0]) };
}

/// Watches a descriptor no longer. An epoll would otherwise go on to watch a file that another process has open, too.
pub fn unwatch(epoll: i32, number: i32) {
    let delete = libc::EPOLL_CTL_DEL as usize;
    // SAFETY: numbers alone.
    let _ =
        unsafe { call(libc::SYS_epoll_ctl, [epoll as usize, delete, number as usize, 0, 0, 0]) };
}

/// The signal that a thread gets which writes where nobody reads.
pub fn raise_broken_pipe() {
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    let ids = [process.as_raw_nonzero().get() as usize, thread.as_raw_nonzero().get() as usize];
    let arguments = [ids[0], ids[1], libc::SIGPIPE as usize, 0, 0, 0];
    // SAFETY: numbers alone, of this thread; what the signal does is the program's choice.
    let _ = unsafe { call(libc::SYS_tgkill, arguments) };
}

/// Returns `true` unless the program handles some signal without `SA_RESTART`: a call that a signal has interrupted is then made
/// again, as the kernel makes it again.
pub fn restarts_calls() -> bool {
    // `struct sigaction` of the kernel: handler, flags, and more that is not looked at.
    const HANDLER: usize = 0;
    const FLAGS: usize = 1;
    (1..=64).all(|signal| {
        let mut action = [0usize; 8];
        let all = [signal, 0, action.as_mut_ptr() as usize, 8, 0, 0];
        // SAFETY: the kernel writes four words at most, which have room; nothing is changed.
        let done = unsafe { call(libc::SYS_rt_sigaction, all) };
        let is_handled = done == 0 && !matches!(action[HANDLER], libc::SIG_DFL | libc::SIG_IGN);
        !is_handled || action[FLAGS] & libc::SA_RESTART as usize != 0
    })
}

/// So many words of zeros that live as long as the process, and are zeros again in a forked child.
pub fn words(count: usize) -> Option<&'static [AtomicU64]> {
    let len = count.checked_mul(size_of::<AtomicU64>())?.next_multiple_of(1 << 16);
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
    let at = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags) }.ok()?;
    // SAFETY: all of the mapping just made, which nobody has seen.
    if unsafe { madvise(at, len, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above.
        let _ = unsafe { munmap(at, len) };
        return None;
    }
    // SAFETY: `count` words are mapped here, aligned to a page, and never unmapped; any bytes are integers; they are
    // changed by atomic operations alone, and by the fork that made this process, before it ran.
    Some(unsafe { std::slice::from_raw_parts(at.cast(), count) })
}

/// Returns `true` if the process has a descriptor of an `io_uring`, as `/proc` says.
pub fn has_uring() -> bool {
    const LINK: &[u8] = b"anon_inode:[io_uring]";
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open(c"/proc/self/fd", flags, Mode::empty()) else { return false };
    let mut room = [MaybeUninit::uninit(); 2048];
    let mut all = RawDir::new(&folder, &mut room);
    while let Some(Ok(entry)) = all.next() {
        let mut link = [0; LINK.len() + 1];
        let found = readlinkat_raw(&folder, entry.file_name(), &mut link[..]);
        if found.is_ok_and(|len| &link[..len] == LINK) {
            return true;
        }
    }
    false
}

/// So many words of zeros that live as long as the process, and that its children share.
pub fn shared_words(count: usize) -> Option<&'static [AtomicU64]> {
    let len = count.checked_mul(size_of::<AtomicU64>())?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let at = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags) }.ok()?;
    // SAFETY: `count` words are mapped here, aligned to a page, and never unmapped; any bytes are integers; they are changed by
    // atomic operations alone, by children too.
    Some(unsafe { std::slice::from_raw_parts(at.cast(), count) })
}

/// The way to a socket that a word of those says.
pub fn way(word: &AtomicU64) -> &Way {
    // SAFETY: a `Way` is such a word and nothing else (`repr(transparent)`), of any value, and changed by atomic operations
    // alone, as this one is.
    unsafe { &*ptr::from_ref(word).cast() }
}
