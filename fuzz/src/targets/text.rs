//! The text files that people edit: known hosts, allow list, fingerprints, names of ciphers.
use std::path::Path;

use fusewire_session::{AllowList, Cipher, Error, Fingerprint, Known, KnownHosts};

/// Runs one input.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(print) = text.parse::<Fingerprint>() {
        let shown = print.to_string();
        assert!(shown.eq_ignore_ascii_case(&text), "two texts for one fingerprint");
        assert_eq!(shown.parse::<Fingerprint>().ok(), Some(print));
    }
    if let Ok(cipher) = text.parse::<Cipher>() {
        assert_eq!(cipher.to_string().parse::<Cipher>().ok(), Some(cipher));
    }
    match AllowList::parse(&text, "list") {
        Ok(list) => assert!(list.len() <= text.lines().count()),
        Err(error) => printable(&error),
    }
    match KnownHosts::parse(&text, Path::new("known_hosts")) {
        Ok(hosts) => {
            for (host, _) in hosts.entries() {
                let print = hosts.fingerprint(host).expect("it is listed");
                assert!(matches!(hosts.check(host, print), Ok(Known::Yes)));
            }
        }
        Err(error) => printable(&error),
    }
}

/// A line of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let print = Fingerprint::from_bytes([0xa7; 32]).to_string();
    [
        format!("# hosts\nexample.org:9293 {print}\n[2001:db8::1]:7 {print} # old\n\n"),
        format!("{print}\n  {print} laptop\n# none\n"),
        print,
        "safer-k64:6".into(),
        "chacha20-poly1305".into(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Whatever stands in a file, the user's terminal is safe.
fn printable(error: &Error) {
    let message = error.to_string();
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
