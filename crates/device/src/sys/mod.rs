//! The unsafe room: system calls that no safe wrapper offers.
//!
//! Every function here is safe to call with any arguments; what makes it so stands at each block.

pub(crate) mod bpf;
pub(crate) mod ethtool;
pub(crate) mod gather;
pub(crate) mod ifreq;
pub(crate) mod map;
pub(crate) mod mmsg;
pub(crate) mod packet;
pub(crate) mod region;
pub(crate) mod sockopt;
pub(crate) mod tun;
pub(crate) mod uring;
pub(crate) mod xsk;
