//! `syscall`: those that have a name here go there.

use std::ffi::{c_int, c_long, c_uint, c_ulong};

use super::{answer, bytes, control, kernel, names, numbers, process, uring, waits};

/// A system call by its number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let fd = a as c_int;
    let int = |argument: usize| argument as c_int;
    // SAFETY: the caller's obligation is that of the function that is called.
    unsafe {
        match number {
            libc::SYS_socket => names::socket(fd, int(b), int(c)) as c_long,
            libc::SYS_bind => names::bind(fd, b as _, c as _) as c_long,
            libc::SYS_listen => names::listen(fd, int(b)) as c_long,
            libc::SYS_accept => names::accept(fd, b as _, c as _) as c_long,
            libc::SYS_accept4 => names::accept4(fd, b as _, c as _, int(d)) as c_long,
            libc::SYS_connect => names::connect(fd, b as _, c as _) as c_long,
            libc::SYS_shutdown => names::shutdown(fd, int(b)) as c_long,
            libc::SYS_getsockname => names::getsockname(fd, b as _, c as _) as c_long,
            libc::SYS_getpeername => names::getpeername(fd, b as _, c as _) as c_long,
            libc::SYS_getsockopt => names::getsockopt(fd, int(b), int(c), d as _, e as _) as c_long,
            libc::SYS_setsockopt => names::setsockopt(fd, int(b), int(c), d as _, e as _) as c_long,
            libc::SYS_read => bytes::read(fd, b as _, c) as c_long,
            libc::SYS_readv => bytes::readv(fd, b as _, int(c)) as c_long,
            libc::SYS_write => bytes::write(fd, b as _, c) as c_long,
            libc::SYS_writev => bytes::writev(fd, b as _, int(c)) as c_long,
            libc::SYS_recvfrom => bytes::recvfrom(fd, b as _, c, int(d), e as _, f as _) as c_long,
            libc::SYS_recvmsg => bytes::recvmsg(fd, b as _, int(c)) as c_long,
            libc::SYS_recvmmsg => {
                bytes::recvmmsg(fd, b as _, c as c_uint, int(d), e as _) as c_long
            }
            libc::SYS_sendto => bytes::sendto(fd, b as _, c, int(d), e as _, f as _) as c_long,
            libc::SYS_sendmsg => bytes::sendmsg(fd, b as _, int(c)) as c_long,
            libc::SYS_sendmmsg => bytes::sendmmsg(fd, b as _, c as c_uint, int(d)) as c_long,
            libc::SYS_sendfile => bytes::sendfile(fd, int(b), c as _, d) as c_long,
            libc::SYS_splice => bytes::splice(fd, b as _, int(c), d as _, e, f as c_uint) as c_long,
            libc::SYS_preadv2 => bytes::preadv2(fd, b as _, int(c), d as _, int(f)) as c_long,
            libc::SYS_pwritev2 => bytes::pwritev2(fd, b as _, int(c), d as _, int(f)) as c_long,
            libc::SYS_close => numbers::close(fd) as c_long,
            libc::SYS_close_range => {
                numbers::close_range(a as c_uint, b as c_uint, int(c)) as c_long
            }
            libc::SYS_dup => numbers::dup(fd) as c_long,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => numbers::dup2(fd, int(b)) as c_long,
            libc::SYS_dup3 => numbers::dup3(fd, int(b), int(c)) as c_long,
            libc::SYS_epoll_ctl => numbers::epoll_ctl(fd, int(b), int(c), d as _) as c_long,
            libc::SYS_epoll_create1 => numbers::epoll_create1(fd) as c_long,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => numbers::epoll_create(fd) as c_long,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => waits::epoll_wait(fd, b as _, int(c), int(d)) as c_long,
            libc::SYS_epoll_pwait => {
                waits::epoll_pwait(fd, b as _, int(c), int(d), e as _) as c_long
            }
            libc::SYS_epoll_pwait2 => {
                waits::epoll_pwait2(fd, b as _, int(c), d as _, e as _) as c_long
            }
            libc::SYS_fcntl => control::fcntl(fd, int(b), c) as c_long,
            libc::SYS_ioctl => control::ioctl(fd, b as c_ulong, c) as c_long,
            libc::SYS_chroot => process::chroot(a as _) as c_long,
            libc::SYS_prctl => process::prctl(fd, b, c, d, e) as c_long,
            libc::SYS_seccomp => process::seccomp(fd, b, c) as c_long,
            libc::SYS_execve => process::execve(a as _, b as _, c as _) as c_long,
            libc::SYS_io_uring_setup => uring::setup(a, b) as c_long,
            _ => {
                waits::seen(number, [a, b, c, d]);
                answer(kernel(number, [a, b, c, d, e, f])) as c_long
            }
        }
    }
}
