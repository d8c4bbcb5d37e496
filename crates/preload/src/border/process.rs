//! What starts other programs: their environment names the library again where the program has cleared it, and those that
//! cannot be preloaded are named. And what confines this one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;

use fusewire_outboard::client::Result;
use fusewire_outboard::reach::{self, Program, Unreached};
use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use rustix::io::Errno;

#[cfg(target_arch = "x86_64")]
use super::formatted::{absent, goes_on};
use super::{ByLibc, answer, interposed, kernel};
use crate::library::{self, KEPT, PRELOAD};

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

/// Those of any number of arguments: by a path, by a path with an environment, and the one that searches.
#[cfg(target_arch = "x86_64")]
static LISTS: [ByLibc; 3] =
    [ByLibc::new("execl\0"), ByLibc::new("execle\0"), ByLibc::new("execlp\0")];

/// Looks them up.
pub fn find() {
    for own in [&EXECVPE, &FEXECVE, &SPAWN, &SPAWNP] {
        own.find();
    }
    #[cfg(target_arch = "x86_64")]
    for own in &LISTS {
        own.find();
    }
}

/// libc runs a program next, by the function of this number in [`LISTS`], with the environment as it is.
#[cfg(target_arch = "x86_64")]
extern "C" fn before(name: *const c_char, which: usize) -> *mut c_void {
    // SAFETY: the obligation of the caller of that function.
    unsafe { judged(name, which == 2) };
    match LISTS[which].get() {
        none if none.is_null() => absent as extern "C" fn() -> c_int as *mut c_void,
        found => found,
    }
}

/// Runs a program by its path.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execl(path: *const c_char, first: *const c_char) -> c_int {
    goes_on!(0, before)
}

/// The same with an environment.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execle(path: *const c_char, first: *const c_char) -> c_int {
    goes_on!(1, before)
}

/// Searches for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn execlp(name: *const c_char, first: *const c_char) -> c_int {
    goes_on!(2, before)
}

/// A string of the program's; none if there is none.
///
/// # Safety
/// `at` is null or points to a string.
unsafe fn text<'a>(at: *const c_char) -> &'a [u8] {
    match at.is_null() {
        true => &[],
        // SAFETY: not null; the caller's obligation.
        false => unsafe { CStr::from_ptr(at) }.to_bytes(),
    }
}

/// The value of a variable, by the `NAME=` that it begins with.
///
/// # Safety
/// `variables` is null or a list of strings that ends with null.
unsafe fn value<'a>(mut variables: Pointers, name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: the caller's obligation; nothing is read behind the end.
    unsafe {
        while !variables.is_null() && !(*variables).is_null() {
            if let Some(value) = text(*variables).strip_prefix(name) {
                return Some(value);
            }
            variables = variables.add(1);
        }
    }
    None
}

/// Names a program that is about to run, if it cannot be preloaded: by its path, or by a name that is searched for. Returns why.
///
/// # Safety
/// `name` is null or points to a string.
unsafe fn judged(name: *const c_char, is_searched: bool) -> Option<Unreached> {
    let library = library::library()?;
    // SAFETY: the caller's obligation; the environment is a list of strings.
    let (name, folders) = unsafe { (text(name), value(environ, b"PATH=")) };
    let folders = folders.unwrap_or(reach::FOLDERS);
    let program = match is_searched {
        true => Program::find(name, folders),
        false => Program::new(name),
    }?;
    let unreached = program.out_of_reach(folders)?;
    library.name(&program, unreached);
    Some(unreached)
}

/// Calls `call` with an environment for a program, and what it lacks of ours; a program of another C library gets nothing to load.
///
/// # Safety
/// `variables` is null or a list of strings that ends with null.
unsafe fn with_ours<T>(
    variables: Pointers,
    unreached: Option<Unreached>,
    call: impl FnOnce(Pointers) -> T,
) -> T {
    let mut all = [null::<c_char>(); VARIABLES + KEPT.len() + 1];
    let is_foreign = unreached == Some(Unreached::OtherLibc);
    let is_preload = |variable: &[u8]| {
        variable.strip_prefix(PRELOAD.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    let (mut count, mut next) = (0, variables);
    // SAFETY: the caller's obligation; nothing is read behind the end.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            if count == VARIABLES {
                return call(variables);
            }
            if !(is_foreign && is_preload(text(*next))) {
                all[count] = *next;
                count += 1;
            }
            next = next.add(1);
        }
    }
    let given = count;
    for kept in library::library().iter().flat_map(|library| library.kept.iter().flatten()) {
        if is_foreign && is_preload(kept) {
            continue;
        }
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
    call(if count == given && !is_foreign { variables } else { all.as_ptr() })
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
        with_ours(variables, judged(path, false), |variables| {
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
        with_ours(variables, judged(name, true), |variables| {
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
        with_ours(variables, None, |variables| {
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
    unsafe { spawn((&SPAWN, false), child, path, actions, attributes, arguments, variables) }
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
    unsafe { spawn((&SPAWNP, true), child, name, actions, attributes, arguments, variables) }
}

/// # Safety
/// What `posix_spawn` asks.
unsafe fn spawn(
    (which, is_searched): (&ByLibc, bool),
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
        with_ours(variables, judged(name, is_searched), |variables| {
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
