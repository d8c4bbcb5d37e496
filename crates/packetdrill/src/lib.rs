//! Fusewire's TCP behind packetdrill's interface for user-level stacks: a shared library that
//! `packetdrill --so_filename=…` loads. No root, no network interface, and a virtual clock: a script of ten
//! seconds takes as long as its packets take to compute.
//!
//! | file | what |
//! |---|---|
//! | `border` | the C functions: pointers in, `errno` out; the only `unsafe` |
//! | `driver` | the virtual clock, blocking calls, who waits for whom |
//! | `calls` | what a script calls, wherever the stack is |
//! | `descriptors` | numbers of descriptors, and what is the same for all that they stand for |
//! | `file` | inline: what a descriptor stands for, sockets, epoll |
//! | `outboard` | the same in an outboard, in a thread of this process |
//! | `option` | socket options |
//! | `host`, `tape` | `stack::ip::Stack` on an interface in memory |
//! | `settings` | `--so_flags`, and the kernel's `net.ipv4.tcp_*` as our configuration |
#![deny(unsafe_code)]

mod border;
mod calls;
mod descriptors;
mod driver;
mod errno;
mod file;
mod host;
mod option;
mod outboard;
mod settings;
mod tape;
