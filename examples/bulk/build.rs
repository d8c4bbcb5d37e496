//! Generates the two ends of `bulk.toml`.

fn main() {
    fusewire_generate::build("bulk.toml");
}
