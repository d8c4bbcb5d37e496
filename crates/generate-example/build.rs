//! Generates the ends of each specification.

fn main() {
    for name in ["again", "both", "cast", "many", "mixed", "names", "rich", "short", "swift"] {
        fusewire_generate::build(format!("specifications/{name}.toml"));
    }
}
