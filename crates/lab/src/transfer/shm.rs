//! Shared memory in a worker.

use fusewire_stack::shm;

use super::fusewire::{client_config, endpoint, server_config};
use super::worker::{Report, Role, Task, receive, send};
use crate::Result;
use crate::process::listens;

/// Runs one side.
pub fn work(task: &Task) -> Result<Report> {
    match &task.role {
        Role::Send(source) => {
            let mut shared = shm::Listener::bind()?;
            let mut config = server_config(task)?;
            config.shared_memory = Some(shared.name().to_vec());
            let endpoint = endpoint(task)?;
            let listener = endpoint.listen(config)?;
            listens(endpoint.local_addr())?;
            send(&mut shared.go_on(listener.accept()?)?, task, source)
        }
        Role::Receive { connect, sink } => {
            let mut config = client_config(task)?;
            config.shared_memory = true;
            receive(&mut shm::go_on(endpoint(task)?.connect(*connect, &config)?)?, task, sink)
        }
    }
}
