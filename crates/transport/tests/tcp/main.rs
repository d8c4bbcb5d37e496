//! The TCP machine, behaviour by behaviour: scripts with two ends and a wire that each test holds in its
//! hands.

mod attacks;
mod closing;
mod data;
mod handshake;
mod listener;
mod loss;
mod pair;
mod records;
mod trains;
mod windows;
