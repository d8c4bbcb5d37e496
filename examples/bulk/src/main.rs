//! The program over generated ends.
#![forbid(unsafe_code)]

mod alone;
mod app;
#[path = "../../path.rs"]
mod path;

use bulk_example as ends;

fn main() -> app::Outcome {
    app::main()
}
