//! Which application has each socket of the stack's, for who looks: the process that made it, or the listener that it came by, and
//! its program, as the kernel told when that process came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_stack::ip::SocketId;

/// All of them; shared with the threads of the live view.
#[derive(Clone, Default)]
pub struct Applications(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Processes that have control connections, and how many.
    guests: HashMap<i32, (Arc<str>, usize)>,
    sockets: HashMap<SocketId, (i32, Arc<str>)>,
}

impl Applications {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has come.
    pub fn came(&self, pid: i32) {
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let program: Arc<str> = String::from_utf8_lossy(&name).trim_end_matches('\n').into();
        let mut known = self.lock();
        let guest = known.guests.entry(pid).or_insert_with(|| (program.clone(), 0));
        // It may run another by now.
        *guest = (program, guest.1 + 1);
    }

    /// A control connection of its has ended.
    pub fn left(&self, pid: i32) {
        let mut known = self.lock();
        if let Some((_, count)) = known.guests.get_mut(&pid) {
            *count -= 1;
            if *count == 0 {
                known.guests.remove(&pid);
            }
        }
    }

    /// A socket is a process's.
    pub fn add(&self, id: SocketId, pid: i32) {
        let mut known = self.lock();
        let program = known.guests.get(&pid).map(|(program, _)| program.clone());
        known.sockets.insert(id, (pid, program.unwrap_or_default()));
    }

    /// It is no more.
    pub fn remove(&self, id: SocketId) {
        self.lock().sockets.remove(&id);
    }

    /// What names a socket's application: its program and its number.
    pub fn names(&self, id: SocketId) -> Vec<(&'static str, String)> {
        let known = self.lock();
        let socket = known.sockets.get(&id);
        let name = |(pid, program): &(i32, Arc<str>)| match &**program {
            "" => pid.to_string(),
            program => format!("{program}/{pid}"),
        };
        socket.map(|socket| ("application", name(socket))).into_iter().collect()
    }
}
