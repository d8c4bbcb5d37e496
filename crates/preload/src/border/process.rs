//! What starts other programs, whose environment names the library again where the program has cleared it; and what confines
//! this one.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use fusewire_outboard::client::Result;
use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use rustix::io::Errno;

use super::{ByLibc, answer, interposed, kernel};
use crate::library::{self, KEPT};

/// Most variables of an environment to which something is added; a larger one stays as it is.
const VARIABLES: usize = 1024;

type Pointers = *const *const c_char;

unsafe extern "C" {
    static environ: Pointers;
}

/// libc's own functions that search, and start what they have found.
static EXECVPE: ByLibc = ByLibc::new("execvpe\0");
static FEXECVE: ByLibc = ByLibc::new("fexecve\0");
static SPAWN: ByLibc = ByLibc::new("posix_spawn\0");
static SPAWNP: ByLibc = ByLibc::new("posix_spawnp\0");

/// Looks them up.
pub fn find() {
    for own in [&EXECVPE, &FEXECVE, &SPAWN, &SPAWNP] {
        own.find();
    }
}

/// Calls `call` with an environment, and what it lacks of ours.
///
/// # Safety
/// `variables` is null or a list of strings that ends with null.
unsafe fn with_ours<T>(variables: Pointers, call: impl FnOnce(Pointers) -> T) -> T {
    let mut all = [null::<c_char>(); VARIABLES + KEPT.len() + 1];
    let mut count = 0;
    // SAFETY: the caller's obligation; nothing is read behind the end.
    unsafe {
        while !variables.is_null() && !(*variables.add(count)).is_null() {
            if count == VARIABLES {
                return call(variables);
            }
            all[count] = *variables.add(count);
            count += 1;
        }
    }
    let given = count;
    for kept in library::library().iter().flat_map(|library| library.kept.iter().flatten()) {
        let name = kept.split_inclusive(|&byte| byte == b'=').next().unwrap_or(&[]);
        let has = |&at: &*const c_char| {
            // SAFETY: a string, of which nothing is read behind its end: `name` has no zero.
            name.iter().enumerate().all(|(i, &byte)| unsafe { *at.add(i) } as u8 == byte)
        };
        if !all[..given].iter().any(has) {
            all[count] = kept.as_ptr().cast();
            count += 1;
        }
    }
    call(if count == given { variables } else { all.as_ptr() })
}

/// Runs a program in place of this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Pointers,
    variables: Pointers,
) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe {
        with_ours(variables, |variables| {
            let all = [path as usize, arguments as usize, variables as usize];
            answer(kernel(libc::SYS_execve, all)) as c_int
        })
    }
}

/// The same with the environment that is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Pointers) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe { execve(path, arguments, environ) }
}

/// Searches for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    name: *const c_char,
    arguments: Pointers,
    variables: Pointers,
) -> c_int {
    type Execvpe = unsafe extern "C" fn(*const c_char, Pointers, Pointers) -> c_int;
    let next = EXECVPE.get();
    if next.is_null() {
        return answer(Err(Errno::NOSYS)) as c_int;
    }
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe {
        with_ours(variables, |variables| {
            std::mem::transmute::<*mut c_void, Execvpe>(next)(name, arguments, variables)
        })
    }
}

/// The same with the environment that is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Pointers) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe { execvpe(name, arguments, environ) }
}

/// Runs an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Pointers, variables: Pointers) -> c_int {
    type Fexecve = unsafe extern "C" fn(c_int, Pointers, Pointers) -> c_int;
    let next = FEXECVE.get();
    if next.is_null() {
        return answer(Err(Errno::NOSYS)) as c_int;
    }
    // SAFETY: as in `execvpe`.
    unsafe {
        with_ours(variables, |variables| {
            std::mem::transmute::<*mut c_void, Fexecve>(next)(fd, arguments, variables)
        })
    }
}

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Pointers,
    Pointers,
) -> c_int;

/// Starts a program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    child: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: Pointers,
    variables: Pointers,
) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe { spawn(&SPAWN, child, path, actions, attributes, arguments, variables) }
}

/// Searches for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    child: *mut pid_t,
    name: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: Pointers,
    variables: Pointers,
) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe { spawn(&SPAWNP, child, name, actions, attributes, arguments, variables) }
}

/// # Safety
/// What `posix_spawn` asks.
unsafe fn spawn(
    which: &ByLibc,
    child: *mut pid_t,
    name: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: Pointers,
    variables: Pointers,
) -> c_int {
    let next = which.get();
    if next.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: as in `execvpe`.
    unsafe {
        with_ours(variables, |variables| {
            let next = std::mem::transmute::<*mut c_void, Spawn>(next);
            next(child, name, actions, attributes, arguments, variables)
        })
    }
}

interposed! {
    /// Leaves the files by whose names the outboard is found.
    fn chroot = SYS_chroot(path: *const c_char) -> c_int {
        library::library()?.look_ahead();
        None
    }
}

/// Makes `call`, after which only certain calls may be made by this process.
fn confining(call: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let Some(library) = library::library() else { return call() };
    library.prepare_confinement();
    let done = call();
    if done.is_ok() {
        library.confine();
    }
    done
}

/// What a process makes of itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(what: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: the caller's obligation.
    let call = || unsafe { kernel(libc::SYS_prctl, [what as usize, a, b, c, d]) };
    let done = if what == libc::PR_SET_SECCOMP { confining(call) } else { call() };
    answer(done) as c_int
}

/// Has no name in libc.
///
/// # Safety
/// What seccomp(2) asks.
pub unsafe fn seccomp(what: c_int, flags: usize, arguments: usize) -> c_int {
    // SAFETY: the caller's obligation.
    let call = || unsafe { kernel(libc::SYS_seccomp, [what as usize, flags, arguments]) };
    let confines = [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER];
    let done = if confines.contains(&(what as u32)) { confining(call) } else { call() };
    answer(done) as c_int
}
