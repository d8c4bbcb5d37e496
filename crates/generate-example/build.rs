//! Generates the ends of each specification.

fn main() {
    for name in ["both", "many", "mixed", "names", "rich", "short"] {
        fusewire_generate::build(format!("specifications/{name}.toml"));
    }
}
