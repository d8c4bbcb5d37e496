//! Programs from Debian that know nothing of Fusewire, started by `fusewire run`: servers on an outboard's sockets asked by
//! clients on the kernel's, and the other way round, over veth. Each works, the result is what was sent, it ends as it does
//! on the kernel's sockets, and the outboard has nothing left of it.

mod databases;
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod web;
