//! `fusewire generate`: from what an application requires, and the network that its user vouches for, to a
//! communication subsystem of Fusewire's parts.
//!
//! What is generated is made from a [`Plan`] alone: same plan, same bytes. Only [`make`] reads and writes files.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod choice;
pub mod explain;
pub mod language;
pub mod make;
pub mod plan;
pub mod report;
pub mod rust;

pub use make::{build, check, write};
pub use plan::Plan;
