//! Generates the two ends of `telemetry.toml`.

fn main() {
    fusewire_generate::build("telemetry.toml");
}
