//! libFuzzer with every target in one program: the variable `FUZZ_TARGET` says which.
//!
//! `cargo xtask fuzz` builds and runs it.
#![no_main]

use std::sync::LazyLock;

use fusewire_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    Target::from_name(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is no target"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
