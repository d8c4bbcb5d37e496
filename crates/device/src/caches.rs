//! Which caches processors have in common.

use std::fs::read_to_string;
use std::sync::OnceLock;

const PROCESSORS: &str = "/sys/devices/system/cpu";

/// All processors share the last cache, and it holds what the inner ones evict, as AMD's do: then what one processor
/// writes another finds there, and memory is farther away. Where lines are fetched from the inner caches of who wrote
/// them, as on Intel's, memory was the nearer of the two. As far as the system says so.
pub fn shares_last_cache() -> bool {
    static SHARES: OnceLock<bool> = OnceLock::new();
    *SHARES.get_or_init(|| {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let last = (0..8)
            .map_while(|n| {
                let of = |what| read_to_string(format!("{PROCESSORS}/cpu0/cache/index{n}/{what}"));
                Some((of("level").ok()?.trim().parse::<u8>().ok()?, of("shared_cpu_list").ok()?))
            })
            .max_by_key(|(level, _)| *level);
        let all = read_to_string(format!("{PROCESSORS}/online")).ok();
        is_shared(&cpuinfo, last.as_ref().map(|(_, shared)| shared.as_str()), all.as_deref())
    })
}

fn is_shared(cpuinfo: &str, last: Option<&str>, all: Option<&str>) -> bool {
    let is_amd = cpuinfo.lines().any(|l| l.starts_with("vendor_id") && l.ends_with("AuthenticAMD"));
    is_amd && last.is_some_and(|last| all.is_some_and(|all| last.trim() == all.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_last_cache_of_all_processors_is_shared() {
        let amd = "processor\t: 0\nvendor_id\t: AuthenticAMD\n";
        assert!(is_shared(amd, Some("0-1\n"), Some("0-1\n")));
        assert!(!is_shared(amd, Some("0-7\n"), Some("0-15\n")));
        assert!(!is_shared(amd, None, Some("0\n")) && !is_shared(amd, Some("0"), None));
        assert!(!is_shared("vendor_id\t: GenuineIntel\n", Some("0-1\n"), Some("0-1\n")));
    }
}
