//! Experiments: what is measured, by which processes, and what comes out.
//!
//! An experiment runs its methods alternately, in processes of their own, and reports medians. A
//! result that was not verified is an error, never a figure.
//!
//! The lab ([`lab`], [`experiments`]) repeats what the five papers measured. Each of its experiments has one file:
//! question, method, charts, the paper's points. What it finds is a [`record`], and [`report`] makes pages of them.
#![forbid(unsafe_code)]

#[cfg(feature = "experiments")]
mod adus;
#[cfg(feature = "experiments")]
pub mod bench;
#[cfg(feature = "experiments")]
mod board;
#[cfg(feature = "experiments")]
pub mod cast;
#[cfg(feature = "experiments")]
pub mod change;
#[cfg(feature = "experiments")]
pub mod codec;
#[cfg(feature = "experiments")]
pub mod connections;
mod cpu;
mod error;
#[cfg(feature = "experiments")]
pub mod experiment;
#[cfg(feature = "experiments")]
pub mod experiments;
#[cfg(feature = "experiments")]
pub mod files;
#[cfg(feature = "experiments")]
pub mod generated;
#[cfg(feature = "experiments")]
pub mod inca;
#[cfg(feature = "experiments")]
mod instructions;
#[cfg(feature = "experiments")]
mod joined;
#[cfg(feature = "experiments")]
pub mod kernels;
#[cfg(feature = "experiments")]
pub mod lab;
#[cfg(feature = "experiments")]
pub mod latency;
mod made;
#[cfg(feature = "experiments")]
pub mod memory;
mod named;
pub mod namespace;
#[cfg(feature = "experiments")]
pub mod outboard;
#[cfg(feature = "experiments")]
pub mod parts;
#[cfg(feature = "experiments")]
pub mod preload;
mod process;
#[cfg(feature = "experiments")]
pub mod record;
#[cfg(feature = "experiments")]
pub mod report;
mod scratch;
#[cfg(feature = "experiments")]
mod server;
mod stats;
#[cfg(feature = "experiments")]
pub mod subsystem;
#[cfg(feature = "experiments")]
pub mod trace;
pub mod transfer;
pub mod worker;

pub use error::{Error, Result};
pub use made::make_file;
pub use scratch::Scratch;
