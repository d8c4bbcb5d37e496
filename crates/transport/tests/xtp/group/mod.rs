//! One stream to many (`docs/xtp.md`, section 16): a sender and receivers on simulated links in virtual time.

mod attacks;
mod joining;
mod loss;
mod rules;
mod slow;
pub mod world;
