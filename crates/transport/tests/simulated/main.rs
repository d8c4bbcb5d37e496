//! Two TCP machines on simulated links in virtual time. `FUSEWIRE_SEEDS` says how many seeds each test
//! runs with, `FUSEWIRE_SEED` replays one, `FUSEWIRE_TRACE=1` prints every segment.

#[path = "../two_ends/mod.rs"]
mod two_ends;

mod account;
mod frame;
mod shared;

mod attacks;
mod goodput;
mod loss;
mod model;
mod robustness;
mod windows;
