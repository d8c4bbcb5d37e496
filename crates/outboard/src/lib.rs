//! The stack in a process of its own, which many applications share: the outboard.
//!
//! ```text
//!  application                                   outboard
//!   client ──── control: SEQPACKET, requests ───▶ server::control ──▶ names, options
//!   P ◀──────── placeholder: a pair ──────────▶ Q server::pipe ─────▶ stack::ip::Stack ──▶ interface
//! ```
//! A socket of the application is one end `P` of a pair of Unix sockets; the outboard keeps the other, `Q`. So `poll`,
//! `epoll`, `dup`, `fork`, `exec`, `SCM_RIGHTS` and the last close, even by SIGKILL, are the kernel's to show ([`placeholder`]),
//! and each byte goes through the pair: in every program, whatever it calls.
//!
//! - [`protocol`]: what the two say to each other.
//! - [`commands`], [`ring`]: how requests and bytes go by memory that the two share, [`region`] where the latter lie in it, [`news`] and
//!   [`waiter`] how one wakes the other, [`words`] what all of these see of it.
//! - [`placeholder`]: pairs, and what their ends show.
//! - [`reach`]: which programs can be given its sockets.
//! - [`rules`]: which sockets of a program are the outboard's.
//! - [`server`]: the outboard: one loop over a stack, placeholders and control connections.
//! - [`client`]: the application's side, without allocation, locks or libc's I/O.
//! - [`sockets`]: sockets for programs in Rust, inline or the outboard's by one word.
#![forbid(unsafe_code)]

pub mod client;
pub mod commands;
pub mod news;
pub mod placeholder;
pub mod protocol;
pub mod reach;
pub mod record;
pub mod region;
pub mod ring;
pub mod rules;
pub mod server;
pub mod sockets;
pub mod waiter;
pub mod words;
