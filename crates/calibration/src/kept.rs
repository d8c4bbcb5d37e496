//! Where what was measured is kept.

use std::path::PathBuf;

/// Where this machine's calibration is kept: in the XDG cache folder, by the processor's name.
pub fn kept() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = from("XDG_CACHE_HOME").or_else(|| Some(from("HOME")?.join(".cache")))?;
    let name: String =
        processor().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    Some(cache.join("fusewire").join(format!("machine-{name}.json")))
}

/// The processor's name, as Linux has it.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
