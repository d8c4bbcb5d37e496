//! Generates the two ends of `conference.toml`.

fn main() {
    fusewire_generate::build("conference.toml");
}
