//! Which scripts test something that a user-level stack has.

use std::path::Path;

use super::{Ip, Tests};

/// What a script's text holds, and why it is then not for us.
const NOT_OURS: &[(&str, &str)] = &[
    ("FASTOPEN", "TCP Fast Open (RFC 7413), which Fusewire does not offer"),
    ("FOEXP", "TCP Fast Open (RFC 7413), which Fusewire does not offer"),
    (" FO ", "TCP Fast Open (RFC 7413), which Fusewire does not offer"),
    (",FO", "TCP Fast Open (RFC 7413), which Fusewire does not offer"),
    ("tcp_fastopen", "TCP Fast Open (RFC 7413), which Fusewire does not offer"),
    ("MSG_ERRQUEUE", "the error queue of the kernel's sockets"),
    ("SO_TIMESTAMPING", "the error queue of the kernel's sockets"),
    ("md5", "the TCP MD5 option (RFC 2385), obsolete"),
    ("sendfile(", "packetdrill calls the kernel itself: sendfile"),
    ("splice(", "pipes and splice of the kernel"),
    ("psp_", "packetdrill calls the kernel itself: PSP"),
    ("cap_set(", "packetdrill calls the kernel itself: capabilities"),
    ("tcp_mtu_probing", "the kernel's switch for path MTU probing"),
    ("SOCK_DGRAM", "UDP"),
    ("IPPROTO_UDP", "UDP"),
    ("IPPROTO_ICMP", "raw sockets"),
    ("--mss=", "packetdrill's merged segments, which want its own device"),
];

/// What a script's text holds, and why it is then not for an outboard.
const NOT_ITS: &[(&str, &str)] = &[
    ("MSG_EOR", "outboard: where a call ends does not pass the placeholder"),
    ("MSG_MORE", "outboard: where a call ends does not pass the placeholder"),
    ("NOTSENT_LOWAT", "outboard: what is written waits in the placeholder, too"),
];

/// By the name: `…v4.pkt` is not for IPv6, `…v6.pkt` for that alone.
pub fn to(script: &Path, ip: Ip) -> bool {
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    let (v4, v6) = (name.ends_with("v4.pkt"), name.ends_with("v6.pkt"));
    match ip {
        Ip::Ipv4 | Ip::Mapped => !v6,
        Ip::Ipv6 => !v4,
    }
}

/// What it looks at.
pub fn tests(text: &str) -> Tests {
    if text.contains("%{") { Tests::Info } else { Tests::Wire }
}

/// Why it is not for a user-level stack; `None`: it is.
pub fn reason(text: &str) -> Option<&'static str> {
    find(text, NOT_OURS)
}

fn find(text: &str, list: &[(&str, &'static str)]) -> Option<&'static str> {
    let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    list.iter().find(|(word, _)| code.contains(word)).map(|(_, reason)| *reason)
}

/// Why it is not for an outboard, as its words or its head say.
pub fn outboard_differs(text: &str) -> Option<&str> {
    let head = text.lines().find_map(|line| line.strip_prefix("// Outboard: "));
    head.or_else(|| find(text, NOT_ITS))
}

/// Where the kernel is known to differ, as the script's head says.
pub fn kernel_differs(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("// Linux: "))
}

/// It runs shell commands.
pub fn runs_commands(text: &str) -> bool {
    text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains('`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_version() {
        let runs = |name: &str| Ip::ALL.map(|ip| to(Path::new(name), ip));
        assert_eq!(runs("a/x.pkt"), [true; 3]);
        assert_eq!(runs("a/x-v4.pkt"), [true, true, false]);
        assert_eq!(runs("a/x-v6.pkt"), [false, false, true]);
    }

    #[test]
    fn comments_do_not_count() {
        assert_eq!(reason("// no MSG_ERRQUEUE here\n+0 read(3, ..., 1) = 1"), None);
        assert!(reason("+0 recvmsg(4, ..., MSG_ERRQUEUE) = 0").is_some());
        assert!(outboard_differs("+0 send(4, ..., 9, MSG_EOR) = 9").is_some());
        assert_eq!(outboard_differs("// Outboard: why\n+0 read(3, ..., 1) = 1"), Some("why"));
        assert_eq!(outboard_differs("// MSG_EOR\n+0 read(3, ..., 1) = 1"), None);
        assert!(!runs_commands("// `x`\n+0 read(3, ..., 1) = 1"));
        assert!(runs_commands("`./defaults.sh`"));
    }
}
