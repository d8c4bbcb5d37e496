//! Two TCP machines on simulated links in virtual time. `FUSEWIRE_SEEDS` says how many seeds each test
//! runs with, `FUSEWIRE_SEED` replays one, `FUSEWIRE_TRACE=1` prints every segment.

mod frame;
mod shared;
mod side;
mod world;

mod attacks;
mod goodput;
mod loss;
mod model;
mod robustness;
mod windows;
