//! The program `fusewire`: argument table, output, exit codes.
fn main() {}
