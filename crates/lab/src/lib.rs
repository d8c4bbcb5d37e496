//! Experiments: what is measured, by which processes, and what comes out.
//!
//! An experiment runs its methods alternately, in processes of their own, and reports medians. A
//! result that was not verified is an error, never a figure.
//!
//! The lab ([`lab`], [`experiments`]) repeats what the five papers measured. Each of its experiments has one file:
//! question, method, charts, the paper's points. What it finds is a [`record`], and [`report`] makes pages of them.
#![forbid(unsafe_code)]

pub mod bench;
pub mod change;
pub mod codec;
pub mod connections;
mod cpu;
mod error;
pub mod experiment;
pub mod experiments;
pub mod files;
pub mod inca;
pub mod lab;
pub mod latency;
pub mod memory;
pub mod namespace;
pub mod parts;
pub mod record;
pub mod report;
mod scratch;
pub mod trace;
pub mod transfer;

pub use error::{Error, Result};
