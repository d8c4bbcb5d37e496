//! Experiments: what is measured, by which processes, and what comes out.
//!
//! An experiment runs its methods alternately, in processes of their own, and reports medians. A
//! result that was not verified is an error, never a figure.
#![forbid(unsafe_code)]

pub mod codec;
pub mod connections;
mod error;
pub mod inca;
pub mod namespace;
pub mod parts;
mod scratch;
pub mod trace;
pub mod transfer;

pub use error::{Error, Result};
