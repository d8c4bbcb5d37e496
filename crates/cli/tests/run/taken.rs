//! The symbols that the preload library takes from libc.

use std::path::Path;
use std::process::Command;

/// Functions of libc that move bytes, wait, make or change descriptors, or use libc's locks; without `open`, by which the standard library reads the
/// rules at the start, and what a panic shows.
#[rustfmt::skip]
const OF_LIBC: &[&str] = &[
    "read", "readv", "pread", "preadv", "write", "writev", "pwrite", "pwritev", "send", "sendto", "sendmsg", "sendmmsg",
    "sendfile", "recv", "recvfrom", "recvmsg", "recvmmsg", "splice", "poll", "ppoll", "select", "pselect", "epoll_wait",
    "epoll_pwait", "epoll_ctl", "epoll_create", "epoll_create1", "eventfd", "pipe", "pipe2", "socket", "socketpair", "connect",
    "accept", "accept4", "bind", "listen", "shutdown", "close", "fcntl", "ioctl", "dup", "dup2", "dup3", "getsockopt", "setsockopt",
    "fork", "vfork", "execve", "posix_spawn", "getaddrinfo", "pthread_mutex_lock", "pthread_cond_wait", "sem_wait", "syscall",
];

/// Functions that the library defines itself (`read`, `close`, …) are not listed, so this test does not see calls of them.
#[test]
fn the_library_takes_from_libc_nothing_else_that_moves_bytes() {
    let program = Path::new(env!("CARGO_BIN_EXE_fusewire"));
    let library = program.with_file_name("deps").join("libfusewire_preload.so");
    let mut nm = Command::new("nm");
    let Ok(said) = nm.args(["-D", "--undefined-only"]).arg(&library).output() else {
        return eprintln!("skipped: no nm");
    };
    let said = String::from_utf8(said.stdout).unwrap();
    let names = said.lines().filter_map(|line| line.split_whitespace().last());
    let names: Vec<_> = names.map(|name| name.split('@').next().unwrap()).collect();
    assert!(names.contains(&"memcpy"), "{names:?}");
    let plain = |name: &str| {
        let name = name.trim_start_matches('_').trim_end_matches("_chk").trim_end_matches("64");
        OF_LIBC.contains(&name)
    };
    let taken: Vec<_> = names.into_iter().filter(|name| plain(name)).collect();
    assert!(taken.is_empty(), "{taken:?}");
}
