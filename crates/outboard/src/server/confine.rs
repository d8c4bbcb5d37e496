//! What an outboard may still do once it has its interface and its socket: whoever takes it over by a packet or a request
//! gets what is left, and no more.
//!
//! | means | what is left |
//! |---|---|
//! | `no_new_privs` | no program that is executed gives rights |
//! | capabilities | those that the device still needs ([`Rights::capabilities`]), none where it has an address of its own |
//! | Landlock (Linux 5.13) | the folders of its own sockets, to make and remove sockets in; `/proc`, to read |
//! | seccomp | system calls of the list below: another is refused with `EPERM`; one that only an intruder makes kills it |
//!
//! All of it is the calling thread's, inherited by those that it makes, and undone by nobody.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use fusewire_stack::ip::Stack;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen as ArgLen, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Calls of every outboard, whatever their arguments.
const CALLS: &[i64] = &[
    // Bytes and descriptors.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pwrite64,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
    // Sockets; which may be made is below.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Memory; what cannot be executed is below.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    // Its sockets' names, and what the live view tells; Landlock says where.
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_fchmodat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    // Threads, time, signals.
    libc::SYS_futex,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_geteuid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_uname,
];

/// The older forms of some of them, which the C library makes where they are.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_chmod,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_pipe,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// What nothing of ours ever calls, and who has taken a process over does at once: these kill.
const NEVER: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
];

/// What a device still needs when the outboard runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Capabilities that are kept, of those that it has.
    pub capabilities: CapabilitySet,
    /// Calls besides those of every outboard.
    calls: &'static [i64],
    /// Families of sockets besides Unix ones.
    families: &'static [i32],
}

impl Rights {
    /// Of the interface of this name ([`fusewire_device::interface::Capabilities::name`]); `coexists`: the address is the
    /// kernel's, of which ports have to be reserved, neighbours asked for, and flows steered.
    pub fn of(device: &str, coexists: bool) -> Rights {
        const NONE: Rights =
            Rights { capabilities: CapabilitySet::empty(), calls: &[], families: &[] };
        match (device, coexists) {
            (_, true) => Rights {
                capabilities: CapabilitySet::NET_ADMIN
                    .union(CapabilitySet::NET_RAW)
                    .union(CapabilitySet::NET_BIND_SERVICE)
                    .union(CapabilitySet::BPF),
                calls: &[libc::SYS_bpf],
                families: &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            },
            // Its flows lie in a map, which others may share.
            ("xdp", false) => {
                Rights { capabilities: CapabilitySet::BPF, calls: &[libc::SYS_bpf], ..NONE }
            }
            _ => NONE,
        }
    }
}

/// What came of it, for who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Capabilities that are left.
    pub capabilities: CapabilitySet,
    /// Landlock holds all of what it was asked for; older kernels know less of it, or nothing.
    pub has_landlock: bool,
}

/// Gives up what the outboard of this stack does not need. `folders` are those where sockets of its own lie.
///
/// # Errors
/// What the kernel says.
pub fn confine(stack: &Stack, folders: &[&Path]) -> io::Result<Confined> {
    let rights = Rights::of(stack.capabilities().name, stack.is_coexisting());
    rustix::thread::set_no_new_privs(true)?;
    let capabilities = drop_capabilities(rights.capabilities)?;
    let has_landlock = restrict_files(folders).map_err(io::Error::other)?;
    for filter in filters(rights).map_err(io::Error::other)? {
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(Confined { capabilities, has_landlock })
}

/// Keeps of its capabilities those in `wanted`.
fn drop_capabilities(wanted: CapabilitySet) -> io::Result<CapabilitySet> {
    let has = rustix::thread::capabilities(None)?;
    let kept = has.permitted & wanted;
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(kept).iter() {
            // A kernel that is older than one of them does not have it.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(kept)
}

/// Leaves of the file system these folders, for sockets, and `/proc`, to be read. True if the kernel does all of it.
fn restrict_files(folders: &[&Path]) -> Result<bool, landlock::RulesetError> {
    /// What this is written for; kernels that know less do less.
    const KNOWN: ABI = ABI::V5;
    let sockets = AccessFs::MakeSock | AccessFs::RemoveFile | AccessFs::ReadDir;
    let proc = AccessFs::ReadFile | AccessFs::ReadDir;
    let wanted = folders.iter().map(|folder| (*folder, sockets));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .create()?;
    for (path, access) in wanted.chain([(Path::new("/proc"), proc)]) {
        // A folder that is not there is not used.
        if let Ok(fd) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset == RulesetStatus::FullyEnforced)
}

type Programs = Vec<seccompiler::BpfProgram>;

/// Three filters, of which the most severe answer counts: what kills; `clone3`, whose flags a filter cannot see, and which
/// is not there, so that the C library takes `clone`; and what is allowed.
fn filters(rights: Rights) -> Result<Programs, seccompiler::BackendError> {
    let always = |calls: &[i64]| -> Rules { calls.iter().map(|call| (*call, vec![])).collect() };
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let allow = SeccompAction::Allow;
    Ok(vec![
        program(always(NEVER), allow.clone(), SeccompAction::KillProcess)?,
        program(always(&[libc::SYS_clone3]), allow.clone(), absent)?,
        program(allowed(rights)?, refused, allow)?,
    ])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(
    rules: Rules,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<seccompiler::BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, listed, arch)?.try_into()
}

/// The calls of an outboard with these rights, and what their arguments may be.
fn allowed(rights: Rights) -> Result<Rules, seccompiler::BackendError> {
    let all = CALLS.iter().chain(OLDER).chain(rights.calls).chain(&[libc::SYS_clone3]);
    let mut rules: Rules = all.map(|call| (*call, vec![])).collect();
    let is = |argument: u8, op: Op, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, ArgLen::Dword, op, value)?])
    };
    // To ask for a limit, not to set one.
    let asks = SeccompCondition::new(2, ArgLen::Qword, Op::Eq, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![asks])?]);
    let has_not = |argument, bits: i32| is(argument, Op::MaskedEq(bits as u32 as u64), 0);
    rules.insert(libc::SYS_mmap, vec![has_not(2, libc::PROT_EXEC)?]);
    rules.insert(libc::SYS_mprotect, vec![has_not(2, libc::PROT_EXEC)?]);
    // A thread, no process.
    let thread = libc::CLONE_THREAD as u32 as u64;
    rules.insert(libc::SYS_clone, vec![is(0, Op::MaskedEq(thread), thread)?]);
    rules.insert(libc::SYS_prctl, vec![is(0, Op::Eq, libc::PR_SET_NAME as u64)?]);
    let ioctls =
        [libc::FIONBIO, libc::FIONREAD, libc::TIOCOUTQ].map(|request| is(1, Op::Eq, request));
    rules.insert(libc::SYS_ioctl, ioctls.into_iter().collect::<Result<_, _>>()?);
    let families = [libc::AF_UNIX].iter().chain(rights.families);
    let families: Result<Vec<_>, _> = families.map(|one| is(0, Op::Eq, *one as u64)).collect();
    rules.insert(libc::SYS_socket, families?);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kills_is_never_allowed_and_filters_fit() {
        for (device, coexists) in
            [("packet", false), ("packet", true), ("tap", false), ("xdp", false), ("xdp", true)]
        {
            let rights = Rights::of(device, coexists);
            let rules = allowed(rights).unwrap();
            assert!(NEVER.iter().all(|call| !rules.contains_key(call)), "{device}");
            assert_eq!(filters(rights).unwrap().len(), 3);
        }
    }

    #[test]
    fn an_address_of_its_own_needs_no_rights() {
        for device in ["packet", "tap", "memory"] {
            assert_eq!(Rights::of(device, false).capabilities, CapabilitySet::empty());
        }
    }
}
