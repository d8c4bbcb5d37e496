//! The IP stack: two of them over a pair of interfaces in memory, on a virtual clock.

mod bounds;
mod capture;
mod groups;
mod halves;
mod host;
mod icmp;
mod kernel;
mod loopback;
mod lossy;
mod marking;
mod messages;
mod net;
mod placed;
mod reads;
mod replies;
mod shared;
mod sharing;
mod summed;
mod tcp;
mod udp;
