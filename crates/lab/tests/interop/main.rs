//! Fusewire beside a kernel that knows nothing of it: programs of today, the kernel's sockets with each
//! option of TCP off and on, sizes and MTUs that need care. Needs root, and skips with a word without it.
//!
//! Frames go over a TAP without offloads, as on a wire, and what tshark finds wrong with one fails the test.

mod datagrams;
mod floods;
mod lan;
mod options;
mod programs;
mod scans;
mod services;
mod vanish;
