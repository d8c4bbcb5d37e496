//! One stream to many (`docs/xtp.md`, section 16): a sender and receivers on simulated links in virtual time.

mod loss;
mod world;
