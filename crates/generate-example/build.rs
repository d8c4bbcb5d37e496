//! Generates the ends of each specification.

fn main() {
    let all = [
        "again", "arena", "both", "cast", "fast", "many", "mixed", "names", "note", "rich",
        "short", "slow", "swift", "tight",
    ];
    for name in all {
        fusewire_generate::build(format!("specifications/{name}.toml"));
    }
}
