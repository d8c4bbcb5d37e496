//! The same program over ends that are written by hand on the general `Endpoint`: what `fusewire bench generate` holds the
//! generated ones against.
#![forbid(unsafe_code)]

#[path = "../src/alone.rs"]
mod alone;
#[path = "../src/app.rs"]
mod app;
mod ends;
#[path = "../../path.rs"]
mod path;

fn main() -> app::Outcome {
    app::main()
}
