//! Two TCP machines on simulated links in virtual time. `FUSEWIRE_SEEDS` says how many seeds each test
//! runs with, `FUSEWIRE_SEED` replays one.

mod frame;
mod side;
mod world;

mod goodput;
mod loss;
