//! The IP stack: two of them over a pair of interfaces in memory, on a virtual clock.

mod kernel;
mod net;
mod tcp;
mod udp;
