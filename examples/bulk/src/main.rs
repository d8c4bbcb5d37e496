//! The program over generated ends.
#![forbid(unsafe_code)]

mod app;

use bulk_example as ends;

fn main() -> app::Outcome {
    app::main()
}
