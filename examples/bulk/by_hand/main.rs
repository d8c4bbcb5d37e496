//! The same program over ends that are written by hand on the general `Endpoint`: what `fusewire bench generate` holds the
//! generated ones against.
#![forbid(unsafe_code)]

#[path = "../src/app.rs"]
mod app;
mod ends;

fn main() -> app::Outcome {
    app::main()
}
