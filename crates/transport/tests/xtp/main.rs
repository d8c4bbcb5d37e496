//! Two XTP machines on simulated links in virtual time. `FUSEWIRE_SEEDS` says how many seeds each test runs with,
//! `FUSEWIRE_SEED` replays one, `FUSEWIRE_TRACE=1` prints every packet.

#[path = "../two_ends/mod.rs"]
mod two_ends;

mod account;
mod frame;
mod group;

mod accepted;
mod attacks;
mod closing;
mod delivery;
mod disputes;
mod goodput;
mod hot_path;
mod late;
mod loss;
mod mechanisms;
mod opening;
mod robustness;
mod rules;
mod set_up;
mod single;
mod thin;
mod wireshark;
