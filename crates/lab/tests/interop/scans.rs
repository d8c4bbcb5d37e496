//! What nmap's probes are answered: by the state of the port, as RFC 9293, section 3.10.7, says, and as the kernel
//! answers them.

use std::net::{IpAddr, TcpListener};

use crate::lan::{Lan, Link, at, can_run, kernel, ours};

const OPEN: u16 = 7;
const CLOSED: u16 = 9;

/// Each kind of scan, and what it is to find of an open port and of a closed one.
const SCANS: [(&str, &str, &str); 8] = [
    // SYN, by hand and by the kernel's connect.
    ("-sS", "open", "closed"),
    ("-sT", "open", "closed"),
    // FIN; FIN with PSH and URG; nothing. Without SYN, ACK and RST a listener drops them (3.10.7.2, fourth).
    ("-sF", "open|filtered", "closed"),
    ("-sX", "open|filtered", "closed"),
    ("-sN", "open|filtered", "closed"),
    // ACK, FIN with ACK: reset by a listener and by nobody, with a window of zero.
    ("-sA", "unfiltered", "unfiltered"),
    ("-sW", "closed", "closed"),
    ("-sM", "closed", "closed"),
];

/// What nmap says of the two ports.
fn scan(lan: &mut Lan, kind: &str, address: IpAddr) -> [String; 2] {
    let (ports, address_text) = (format!("{OPEN},{CLOSED}"), address.to_string());
    let mut arguments =
        vec![kind, "-n", "-Pn", "-p", &ports, "--max-retries", "2", "-T4", "-oG", "-"];
    if address.is_ipv6() {
        arguments.push("-6");
    }
    arguments.push(&address_text);
    let mut nmap = lan.command("nmap", &arguments);
    let output = lan.until_ended(&mut nmap, |_| {});
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    [OPEN, CLOSED].map(|port| {
        let begin = format!("{port}/");
        let found = text.split([' ', '\t']).find_map(|word| word.strip_prefix(&begin));
        let state = found.and_then(|rest| rest.split('/').next());
        state.unwrap_or_else(|| panic!("{kind} {address}: {text}")).to_string()
    })
}

#[test]
fn nmap_is_answered_as_the_specification_says_and_as_the_kernel_answers() {
    if !can_run(&["nmap", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        lan.stack.tcp_listen(at(ours(v6), OPEN), 16).unwrap();
        let listen = || TcpListener::bind(at(kernel(v6), OPEN)).unwrap();
        let _listener = lan.namespace.run(listen).unwrap();
        for (kind, open, closed) in SCANS {
            let found = scan(&mut lan, kind, ours(v6));
            assert_eq!(found, [open, closed], "{kind}, v6: {v6}");
            assert_eq!(found, scan(&mut lan, kind, kernel(v6)), "{kind}, v6: {v6}: the kernel");
        }
    }
    capture.check(20);
}
