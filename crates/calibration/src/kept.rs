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

/// The processor's name, as Linux has it, with its family and model, for guests of one host are told the same name on
/// processors that have little in common.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let name = of("model name").unwrap_or(std::env::consts::ARCH);
    match (of("cpu family"), of("model")) {
        (Some(family), Some(model)) => format!("{name}, family {family}, model {model}"),
        _ => name.to_owned(),
    }
}
