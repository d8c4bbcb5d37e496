//! `fusewire bench preload --quick`: each load once, over wires that it makes and takes away. Needs root.

mod support;

use support::{number, quick_bench};

#[test]
fn every_load_has_its_line() {
    let Some((lines, err)) = quick_bench("preload", "every_load_has_its_line", &[]) else { return };
    // What is not installed is said.
    let missing = err.lines().filter(|line| line.ends_with("is not there")).count();
    let programs = ["redis", "nginx", "memcached", "iperf3"];
    let of =
        |name: &str| lines.iter().filter(|l| l["load"].as_str().unwrap().starts_with(name)).count();
    let counts = programs.map(of);
    assert_eq!(counts.iter().filter(|&&count| count == 0).count(), missing, "{err}");
    for (count, wanted) in counts.into_iter().zip([4, 2, 1, 2]) {
        assert!(count == 0 || count == wanted, "{counts:?}\n{err}");
    }
    for line in &lines {
        for means in ["kernel", "outboard"] {
            for figure in ["per_s", "per_server_s", "load_busy"] {
                let path = format!("/rates/{means}/{figure}");
                assert!(number(line, &path) > 0.0, "{path} of {line}\n{err}");
            }
        }
        assert!(number(line, "/ratio") > 0.0 && number(line, "/rates/outboard/outboard") > 0.0);
    }
}
