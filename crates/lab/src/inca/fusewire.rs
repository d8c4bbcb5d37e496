//! Fusewire.
use super::task::{Report, Task};
use crate::{Error, Result};
pub fn work(_: &Task) -> Result<Report> {
    Err(Error::Unsupported("not yet".into()))
}
