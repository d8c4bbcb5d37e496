//! Data manipulation as the papers had it, to be measured beside `kernels`: what a product would not use.
//!
//! Stages here are those of [`fusewire_kernels`] in all but where they stand: a stage of one's own needs nothing that
//! this crate has and others have not. To add one: a file here, and what measures it in the lab.
#![forbid(unsafe_code)]

mod by_pointer;
pub mod cxor;
mod fletcher;
pub mod md5;
pub mod parts;
pub mod textbook;
pub mod word_filter;

pub use by_pointer::ByPointer;
pub use fletcher::{Fletcher, FletcherSum};
