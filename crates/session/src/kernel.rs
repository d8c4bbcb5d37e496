//! The one place that names what this crate uses of `kernels`.

pub use fusewire_kernels::message::{Marshal, Unmarshal};
pub(crate) use fusewire_kernels::{CipherKey, Transform, sum};
pub use fusewire_kernels::{Execution, Level, Swap};
