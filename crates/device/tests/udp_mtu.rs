//! The UDP device on a link with a small MTU: a network namespace of its own, whose loopback has 1500.
//!
//! Skipped, with the reason printed, where unprivileged namespaces are not allowed.

use std::process::Command;

use fusewire_device::udp::{Config, Udp};
use fusewire_device::{Device, Ecn, Event, RxBatch, TxFrame};

const INSIDE: &str = "FUSEWIRE_TEST_SMALL_MTU";

#[test]
fn frames_that_fit_leave_in_runs_and_those_that_do_not_are_told() {
    if std::env::var_os(INSIDE).is_some() {
        return small_mtu();
    }
    let script = "ip link set lo mtu 1500 up && exec \"$0\" --exact \
        frames_that_fit_leave_in_runs_and_those_that_do_not_are_told --nocapture";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output();
    match output {
        Err(e) => eprintln!("skipped: unshare cannot be run: {e}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            if text.contains("unshare failed")
                || text.contains("ip: not found")
                || text.contains("RTNETLINK")
            {
                eprintln!("skipped: no namespace of its own: {text}");
                return;
            }
            let out = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && out.contains("1 passed"), "{out}{text}");
        }
    }
}

fn small_mtu() {
    for addr in ["127.0.0.1:0", "[::1]:0"] {
        let bind = || Udp::bind(addr.parse().unwrap(), &Config::default()).unwrap();
        let (mut a, mut b) = (bind(), bind());
        let (peer, bytes) = (b.local_addr(), vec![7; 9000]);
        let fits = if peer.is_ipv4() { 1472 } else { 1452 };
        let frame = |len: usize| TxFrame {
            peer,
            header: &bytes[..20],
            payload: &bytes[20..len],
            ecn: Ecn::NotEct,
        };
        let lens = [fits; 50].into_iter().chain([9000, 9000, fits, fits + 1, 100, 9000, 1000]);
        let frames: Vec<_> = lens.map(frame).collect();
        assert_eq!(a.transmit(&frames).unwrap(), frames.len());
        for len in [9000, 9000, fits + 1, 9000] {
            assert_eq!(a.poll_event(), Some(Event::TooBig { peer, len }));
        }
        assert_eq!(a.poll_event(), None);
        assert!(a.caps().segmentation_offload, "what is too big says nothing about offload");
        let mut batch = RxBatch::new(16);
        let mut lens = Vec::new();
        while b.receive(&mut batch).unwrap() > 0 {
            lens.extend(batch.iter().flat_map(|p| p.frames()).map(<[u8]>::len));
        }
        assert_eq!(lens.len(), 53);
        assert!(lens[..51].iter().all(|&len| len == fits) && lens[51..] == [100, 1000]);
    }
}
