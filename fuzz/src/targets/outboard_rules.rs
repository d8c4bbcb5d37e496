//! Rules which say whose a program's sockets are: whatever a file holds is rules, or refused with its line; and what is read
//! decides for every address.
use fusewire_outboard::protocol::Kind;
use fusewire_outboard::rules::{Owner, Place, Purpose, RULES_MAX, Rules, Wanted};

/// Runs one input.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Rules::parse(&text, "program") {
        Ok(rules) => decide(&rules),
        Err(error) => {
            assert!((1..=text.lines().count()).contains(&error.line), "{error}");
            assert!(error.found.chars().count() <= 64, "{error}");
        }
    }
}

fn decide(rules: &Rules) {
    for address in ["10.0.0.1:80", "127.0.0.1:1", "[2001:db8::1]:65535", "0.0.0.0:0"] {
        for purpose in [Purpose::Connect, Purpose::Bind] {
            for place in [Place::Loopback, Place::Own, Place::Elsewhere] {
                for kind in [Kind::Stream, Kind::Datagram] {
                    let address = address.parse().expect("an address");
                    let wanted = Wanted { purpose, kind, address, place };
                    let owner = rules.owner(&wanted, false);
                    assert!(!rules.is_kernel(kind) || owner == Owner::Kernel, "{wanted:?}");
                }
            }
        }
    }
}

/// One of each condition, and what is none.
pub fn seeds() -> Vec<Vec<u8>> {
    let many = "kernel udp\n".repeat(RULES_MAX + 1);
    [
        "outboard connect 10.9.0.0/16 port 80,8000-8080; kernel connect 10.0.0.0/8",
        "# comment\nkernel program program\nkernel program ssh udp\n",
        "outboard bind loopback tcp\nkernel own\nkernel 2001:db8::/32 port 1-65535",
        "kernel",
        "kernel 10.0.0.0/33",
        "kernel port 2-1",
        &many,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
