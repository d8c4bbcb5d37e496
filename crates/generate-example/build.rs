//! Generates the ends of each specification; that of the tutorial as it stands in `docs/generate.md`.

use std::path::Path;
use std::{env, fs};

fn main() {
    let all = [
        "again", "arena", "both", "cast", "fast", "many", "mixed", "names", "note", "rich",
        "seldom", "short", "slow", "swift", "ticker", "tight",
    ];
    for name in all {
        fusewire_generate::build(format!("specifications/{name}.toml"));
    }
    tutorial();
}

/// What the tutorial has made of a crate: each file as it was shown last before that.
fn tutorial() {
    let page = "../../docs/generate.md";
    println!("cargo::rerun-if-changed={page}");
    let text = fs::read_to_string(page).expect("the page is there");
    let (shown, _) = text.split_once("generate weather.toml -o weather").expect("a crate is made");
    let folder = env::var_os("OUT_DIR").expect("Cargo says where");
    let folder = Path::new(&folder);
    for file in ["Weather.asn1", "weather.toml"] {
        let mark = format!("<!-- file: {file} -->\n```\n");
        let block = shown.rfind(&mark).map(|at| &shown[at + mark.len()..]).expect("it is shown");
        let (block, _) = block.split_once("```").expect("it ends");
        let path = folder.join(file);
        // What is as it was is not new to Cargo.
        if fs::read_to_string(&path).ok().as_deref() != Some(block) {
            fs::write(&path, block).expect("it can be written");
        }
    }
    fusewire_generate::build(folder.join("weather.toml"));
}
