//! The caches that Linux reports.

/// A cache of the first processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// `L1d`, `L1i`, `L2`, ….
    pub name: String,
    /// What fits.
    pub bytes: u64,
}

impl Cache {
    /// Whether messages lie in it.
    pub fn has_data(&self) -> bool {
        !self.name.ends_with('i')
    }
}

/// As sysfs tells them; none where it does not.
pub fn caches() -> Vec<Cache> {
    (0..8).filter_map(reported).filter(|cache| cache.bytes > 0).collect()
}

fn reported(index: u32) -> Option<Cache> {
    let read = |what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    let letter = match read("type")?.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    let kib: u64 = read("size")?.strip_suffix('K')?.parse().ok()?;
    Some(Cache { name: format!("L{}{letter}", read("level")?), bytes: kib << 10 })
}
