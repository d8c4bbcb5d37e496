//! `fusewire://host[:port]/path`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use fusewire_files::RemotePath;

/// Where a server listens unless it is told otherwise.
pub const PORT: u16 = 9293;

/// What a user wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Name or address, without brackets.
    host: String,
    port: u16,
    /// Below the served folder; empty for the folder itself.
    pub path: RemotePath,
    /// The path ends in a slash, so that it means a folder.
    pub is_folder: bool,
}

impl Url {
    /// `name:port`, as the known-hosts file has it.
    pub fn host(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// It names a port, and not the one where servers listen unless they are told otherwise.
    pub fn has_own_port(&self) -> bool {
        self.port != PORT
    }

    /// The addresses behind the name.
    ///
    /// # Errors
    /// The name is not known, in words for a user.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<_> = found.map_err(|e| format!("cannot find {}: {e}", self.host))?.collect();
        if found.is_empty() { Err(format!("{} has no address", self.host)) } else { Ok(found) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fusewire://{}/{}", self.host(), self.path)
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let rest = text
            .strip_prefix("fusewire://")
            .ok_or("expected fusewire://host[:port]/path, for example fusewire://localhost/file")?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or("the bracket [ is not closed")?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => return Err("expected [address]:port".into()),
                }
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        // A zone behind an address of IPv6 (RFC 6874, section 2); by hand the % is often left as it is.
        let host = if place.starts_with('[') { &host.replace("%25", "%") } else { host };
        if host.contains('@') {
            return Err("the URL names no user: a server knows its users by their keys".into());
        }
        let odd = |c: char| c.is_control() || c.is_whitespace() || "@?#[]".contains(c);
        if host.is_empty() || host.contains(odd) {
            return Err("the URL names no host".into());
        }
        let port = match port {
            None => PORT,
            Some(port) => match port.parse() {
                Ok(port @ 1..) => port,
                _ => return Err("the port is no number from 1 to 65535".into()),
            },
        };
        let bytes = decode(path)?;
        let is_folder = bytes.is_empty() || bytes.ends_with(b"/");
        let path = RemotePath::from_user(&bytes).map_err(|e| e.to_string())?;
        Ok(Url { host: host.to_string(), port, path, is_folder })
    }
}

/// Percent-decoding (RFC 3986, section 2.1). A percent sign that begins no code is an error.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |b: u8| char::from(b).to_digit(16);
        let code = match after {
            [a, b, ..] => digit(*a).zip(digit(*b)),
            _ => None,
        };
        let (a, b) = code.ok_or("a % in a URL is followed by two hexadecimal digits; write %25")?;
        bytes.push((a * 16 + b) as u8);
        rest = &after[2..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_paths() {
        for (text, host, path) in [
            ("fusewire://a", "a:9293", ""),
            ("fusewire://a/", "a:9293", ""),
            ("fusewire://a:7/b/c", "a:7", "b/c"),
            ("fusewire://[::1]/b", "[::1]:9293", "b"),
            ("fusewire://[::1]:7/b%20c%2fd", "[::1]:7", "b c/d"),
            ("fusewire://[fe80::1%25lo]/b", "[fe80::1%lo]:9293", "b"),
            ("fusewire://[fe80::1%lo]/b", "[fe80::1%lo]:9293", "b"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(
                (url.host().as_str(), url.path.as_bytes()),
                (host, path.as_bytes()),
                "{text}"
            );
        }
        assert!("fusewire://a/b/".parse::<Url>().unwrap().is_folder);
        assert!(!"fusewire://a/b".parse::<Url>().unwrap().is_folder);
    }

    #[test]
    fn a_zone_is_an_interface() {
        let url: Url = "fusewire://[fe80::1%25lo]:7/".parse().unwrap();
        let Ok(found) = url.addresses() else { return println!("skipped: no lo") };
        let SocketAddr::V6(address) = found[0] else { panic!("{found:?}") };
        assert_ne!(address.scope_id(), 0);
    }

    #[test]
    fn a_user_in_a_url_is_refused_in_words() {
        let error = "fusewire://me@host/x".parse::<Url>().unwrap_err();
        assert!(error.contains("keys"), "{error}");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "http://a/b",
            "fusewire://",
            "fusewire:///b",
            "fusewire://a:0/",
            "fusewire://a:x/",
            "fusewire://a:65536/",
            "fusewire://[::1/",
            "fusewire://[::1]7/",
            "fusewire://a/%",
            "fusewire://a/%4",
            "fusewire://a/%zz",
            "fusewire://a/%2e%2e/x",
            "fusewire://a/../x",
            "fusewire://a/%00",
            "fusewire://us\x1ber/x",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn any_text_is_a_url_or_an_error() {
        const PIECES: [&str; 20] = [
            "fusewire://",
            "a",
            "[",
            "]",
            "[::1]",
            ":",
            ":7",
            ":99999",
            "/",
            "//",
            "..",
            ".",
            "%",
            "%2f",
            "%00",
            "%é",
            "\u{1b}",
            "é",
            "#",
            " ",
        ];
        let mut state = 1u64;
        let mut taken = 0;
        for _ in 0..100_000 {
            let mut text = String::from("fusewire://");
            for _ in 0..6 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
            }
            let Ok(url) = text.parse::<Url>() else { continue };
            taken += 1;
            assert!(!url.to_string().chars().any(char::is_control), "{text:?}");
            let mut components = url.path.as_path().components();
            let inside = |c| matches!(c, std::path::Component::Normal(_));
            assert!(url.path.depth() == 0 || components.all(inside), "{text:?} leads out");
            let place: Url = format!("fusewire://{}/", url.host()).parse().unwrap();
            assert_eq!(place.host(), url.host(), "{text:?}");
        }
        assert!(taken > 100, "{taken} were URLs");
    }
}
