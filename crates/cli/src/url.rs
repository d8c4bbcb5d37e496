//! `fusewire://host[:port]/path`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
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
        joined(&self.host, &self.port.to_string())
    }

    /// Name or address, without brackets and port.
    pub fn name(&self) -> &str {
        &self.host
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
        resolve(&self.host, self.port)
    }
}

/// Returns the addresses of a name, or the address itself, whose zone may be an interface's name or index.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map_err(|error| match host.split_once('%') {
        Some((_, zone)) => format!("cannot find {host}: is {zone} a network interface? ({error})"),
        None => format!("cannot find {host}: {error}"),
    })?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(format!("{host} has no address")) } else { Ok(found) }
}

/// Splits `HOST[:PORT]`, `[ADDRESS][:PORT]` or an IPv6 address without brackets.
fn split_host(text: &str) -> Result<(&str, Option<&str>), String> {
    let Some(rest) = text.strip_prefix('[') else {
        return Ok(match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        });
    };
    let (host, after) = rest.split_once(']').ok_or("the bracket [ is not closed")?;
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err("expected [address]:port".into()),
    }
}

/// Writes a host and a port as the known-hosts file has them: brackets stand around an IPv6 address.
fn joined(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns what a user types for a host, with or without a port, as the known-hosts file has it.
///
/// # Errors
/// A bracket is not closed.
pub fn known_host(text: &str) -> Result<String, String> {
    let (host, port) = split_host(text)?;
    Ok(joined(host, port.unwrap_or(&PORT.to_string())))
}

/// Parses an address and a port: `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. An IPv6 address may have a zone.
///
/// # Errors
/// The text is not an address; no interface has the zone's name.
pub fn numeric_addr(text: &str, port: u16) -> Result<SocketAddr, String> {
    let (host, own_port) = split_host(text)?;
    let bare = host.split_once('%').map_or(host, |(bare, _)| bare);
    let Ok(ip) = bare.parse::<IpAddr>() else {
        return Err("expected ADDRESS[:PORT], for example 192.0.2.1:9293 or [::]:9293".into());
    };
    let port = match own_port {
        None => port,
        Some(own) => own.parse().map_err(|_| "expected a port from 0 to 65535".to_string())?,
    };
    if bare.len() == host.len() {
        return Ok(SocketAddr::new(ip, port));
    }
    if ip.is_ipv4() {
        return Err("an IPv4 address has no zone".into());
    }
    Ok(resolve(host, port)?[0])
}

/// Parses what [`numeric_addr`] does, or a name in the place of the address, of which it returns the first address.
///
/// # Errors
/// As [`numeric_addr`]; the name is not known.
pub fn named_addr(text: &str, port: u16) -> Result<SocketAddr, String> {
    Ok(named_addrs(text, port)?[0])
}

/// As [`named_addr`], with all addresses of a name: at least one.
///
/// # Errors
/// The errors of [`named_addr`].
pub fn named_addrs(text: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let (host, own_port) = split_host(text)?;
    let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '.' || c == '_';
    if host.is_empty() || !host.chars().all(is_name) || host.parse::<IpAddr>().is_ok() {
        return Ok(vec![numeric_addr(text, port)?]);
    }
    match own_port.map_or(Ok(port), str::parse) {
        Ok(port) => resolve(host, port),
        Err(_) => Err("expected a port from 0 to 65535".into()),
    }
}

/// Writes an address with the name of its zone, which stays the same when the indices of interfaces change.
pub fn shown(addr: SocketAddr) -> String {
    if let SocketAddr::V6(v6) = addr
        && v6.scope_id() != 0
        && let Ok(socket) = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        && let Ok(zone) = rustix::net::netdevice::index_to_name(&socket, v6.scope_id())
    {
        return format!("[{}%{zone}]:{}", v6.ip(), v6.port());
    }
    addr.to_string()
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
        let (host, port) = split_host(place)?;
        // A zone behind an address of IPv6 (RFC 6874, section 2); by hand the % is often left as it is.
        let host = if place.starts_with('[') { &host.replace("%25", "%") } else { host };
        if host.contains('@') {
            return Err("the URL names no user: a server knows its users by their keys".into());
        }
        let odd = |c: char| c.is_control() || c.is_whitespace() || "@?#[]".contains(c);
        if host.is_empty() || host.contains(odd) {
            return Err("the URL names no host".into());
        }
        if host.contains(':') && !place.starts_with('[') {
            return Err(format!("expected brackets around an IPv6 address, as in [{host}]"));
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
    fn addresses_have_brackets_ports_and_zones() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:9293"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("::", "[::]:9293"),
            ("::1", "[::1]:9293"),
            ("[fd77::1]", "[fd77::1]:9293"),
            ("[fd77::1]:7", "[fd77::1]:7"),
        ] {
            assert_eq!(numeric_addr(text, PORT).unwrap().to_string(), expected, "{text}");
            assert_eq!(named_addr(text, PORT).unwrap().to_string(), expected, "{text}");
        }
        for (text, expected) in [
            ("a", "a:9293"),
            ("a:7", "a:7"),
            ("::1", "[::1]:9293"),
            ("[::1]", "[::1]:9293"),
            ("[fe80::1%clA0]:7", "[fe80::1%clA0]:7"),
            ("fe80::1%clA0", "[fe80::1%clA0]:9293"),
        ] {
            assert_eq!(known_host(text).unwrap(), expected, "{text}");
        }
        let wrong =
            ["", ":7", "[]:7", "[::1", "[::1]7", "127.0.0.1:x", "127.0.0.1%lo", "::1%nosuchif"];
        for wrong in wrong {
            assert!(named_addr(wrong, PORT).is_err(), "{wrong}");
        }
        assert!(numeric_addr("localhost", PORT).is_err());
        let Ok(found) = numeric_addr("fe80::1%lo", PORT) else { return println!("skipped: no lo") };
        assert_eq!(shown(found), "[fe80::1%lo]:9293");
        assert_eq!(named_addr("[fe80::1%lo]:7", PORT).map(shown).unwrap(), "[fe80::1%lo]:7");
        assert_eq!(numeric_addr("fe80::1%1", PORT).unwrap(), found);
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
            "fusewire://fe80::1/",
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
