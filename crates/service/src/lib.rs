//! What a communication subsystem is made of beside transport and session: small blocks, each usable by hand
//! (`docs/service.md`). None does I/O, reads a clock or draws randomness; each is bounded, and allocates only when it is made.
#![forbid(unsafe_code)]

pub mod lifetime;
pub mod order;
