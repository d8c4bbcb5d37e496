//! The unsafe room: system calls that no safe wrapper offers.
//!
//! Every function here is safe to call with any arguments; what makes it so stands at each block.

#[cfg(feature = "interfaces")]
pub(crate) mod bpf;
#[cfg(feature = "shm")]
pub(crate) mod copy;
#[cfg(feature = "interfaces")]
pub(crate) mod descriptors;
#[cfg(feature = "interfaces")]
pub(crate) mod ethtool;
#[cfg(feature = "interfaces")]
pub(crate) mod gather;
#[cfg(feature = "interfaces")]
pub(crate) mod ifreq;
#[cfg(feature = "shm")]
pub(crate) mod map;
pub(crate) mod mmsg;
#[cfg(feature = "interfaces")]
pub(crate) mod packet;
pub(crate) mod region;
#[cfg(feature = "interfaces")]
pub(crate) mod sender;
#[cfg(feature = "shm")]
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod sockopt;
#[cfg(feature = "interfaces")]
pub(crate) mod tun;
#[cfg(feature = "io-uring")]
pub(crate) mod uring;
#[cfg(any(feature = "interfaces", feature = "shm"))]
pub(crate) mod wiped;
#[cfg(feature = "interfaces")]
pub(crate) mod xsk;
