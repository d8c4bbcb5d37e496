//! Generates the two ends of `rpc.toml`.

fn main() {
    fusewire_generate::build("rpc.toml");
}
