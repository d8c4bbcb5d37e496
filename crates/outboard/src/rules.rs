//! Which of a program's sockets are the outboard's, and which the kernel's: rules, one a line, of which the first that fits
//! decides.
//!
//! ```text
//!  line     = owner *condition                  ; or nothing; "#" begins a comment, ";" ends a line too
//!  owner    = "outboard" / "kernel"
//!  condition = "program" name                   ; base name of what runs, or as it was called
//!            / "connect" / "bind"               ; whom it asks, or sends to; where it is asked
//!            / "tcp" / "udp"
//!            / address ["/" length]             ; the other end's for connect, its own for bind
//!            / "loopback" / "own"               ; 127.0.0.0/8 and ::1; addresses of the outboard
//!            / "port" range *("," range)        ; range = number ["-" number]
//! ```
//! What no rule fits is the outboard's, but for loopback and its own addresses: those are the kernel's, unless the outboard
//! says that it has a loopback. Reading allocates nothing, and ends with rules or the first line that is none.

use std::net::{IpAddr, SocketAddr};

use crate::protocol::Kind;

/// Most rules of a program.
pub const RULES_MAX: usize = 64;
/// Most ranges of ports of a rule.
const RANGES_MAX: usize = 8;

/// What was read is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found:?}")]
pub struct Malformed {
    /// Where, from 1.
    pub line: usize,
    /// What may stand there.
    pub expected: &'static str,
    /// What does.
    pub found: String,
}

/// Whose a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The outboard's.
    Outboard,
    /// The kernel's.
    Kernel,
}

/// What it is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To connect to the address, or to send there.
    Connect,
    /// To have the address.
    Bind,
}

/// What an address is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// 127.0.0.0/8, ::1
    Loopback,
    /// The outboard's.
    Own,
    /// Neither.
    Elsewhere,
}

/// What is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What for.
    pub purpose: Purpose,
    /// TCP or UDP.
    pub kind: Kind,
    /// With which address and port.
    pub address: SocketAddr,
    /// What that is.
    pub place: Place,
}

/// Addresses that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Place(Place),
    Network(IpAddr, u8),
}

/// A line; what it does not speak of is `None`, or no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    owner: Owner,
    purpose: Option<Purpose>,
    kind: Option<Kind>,
    addresses: Option<Where>,
    ports: [(u16, u16); RANGES_MAX],
    ranges: usize,
}

/// The rules of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    all: [Rule; RULES_MAX],
    count: usize,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { all: [Rule::new(Owner::Outboard); RULES_MAX], count: 0 }
    }
}

impl Rules {
    /// Reads rules, and keeps those that are for `program`.
    ///
    /// # Errors
    /// A line is no rule; there are more than [`RULES_MAX`].
    pub fn parse(text: &str, program: &str) -> Result<Rules, Malformed> {
        Rules::parse_for(text, &[program])
    }

    /// The same for a program that has several names.
    ///
    /// # Errors
    /// As [`Rules::parse`].
    pub fn parse_for(text: &str, programs: &[&str]) -> Result<Rules, Malformed> {
        let mut rules = Rules::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            for part in line.split(';') {
                let rule = Rule::parse(part, programs);
                let wrong = |(expected, found): (_, &str)| Malformed {
                    line: number + 1,
                    expected,
                    found: found.chars().take(64).collect(),
                };
                let Some(rule) = rule.map_err(wrong)? else { continue };
                let Some(place) = rules.all.get_mut(rules.count) else {
                    return Err(wrong(("64 rules or fewer", part)));
                };
                *place = rule;
                rules.count += 1;
            }
        }
        Ok(rules)
    }

    /// Whose a socket is that is wanted so. `has_loopback`: the outboard carries loopback, and what goes to itself.
    pub fn owner(&self, wanted: &Wanted, has_loopback: bool) -> Owner {
        let rule = self.all[..self.count].iter().find(|rule| rule.fits(wanted));
        rule.map_or_else(
            || match wanted.place {
                Place::Elsewhere => Owner::Outboard,
                // To have its address is to be reached there.
                Place::Own if wanted.purpose == Purpose::Bind => Owner::Outboard,
                _ if has_loopback => Owner::Outboard,
                _ => Owner::Kernel,
            },
            |rule| rule.owner,
        )
    }

    /// Nothing of the program that is of this kind is the outboard's: the first rule for this kind says so, whatever the address.
    pub fn is_kernel(&self, kind: Kind) -> bool {
        let mut all = self.all[..self.count].iter();
        let first = all.find(|rule| rule.kind.is_none_or(|of| of == kind));
        first.is_some_and(|rule| Rule { kind: None, ..*rule } == Rule::new(Owner::Kernel))
    }
}

type Found<'a, T> = Result<T, (&'static str, &'a str)>;

impl Rule {
    const fn new(owner: Owner) -> Rule {
        Rule {
            owner,
            purpose: None,
            kind: None,
            addresses: None,
            ports: [(0, 0); RANGES_MAX],
            ranges: 0,
        }
    }

    /// Reads a line; `None` for one without words, or for another program.
    fn parse<'a>(line: &'a str, programs: &[&str]) -> Found<'a, Option<Rule>> {
        let mut words = line.split_ascii_whitespace();
        let mut rule = match words.next() {
            None => return Ok(None),
            Some("outboard") => Rule::new(Owner::Outboard),
            Some("kernel") => Rule::new(Owner::Kernel),
            Some(other) => return Err(("outboard or kernel", other)),
        };
        let mut is_ours = None;
        while let Some(word) = words.next() {
            let is_first = match word {
                "program" => {
                    let name = words.next().ok_or(("the name of a program", ""))?;
                    is_ours.replace(programs.contains(&name)).is_none()
                }
                "connect" => rule.purpose.replace(Purpose::Connect).is_none(),
                "bind" => rule.purpose.replace(Purpose::Bind).is_none(),
                "tcp" => rule.kind.replace(Kind::Stream).is_none(),
                "udp" => rule.kind.replace(Kind::Datagram).is_none(),
                "port" => {
                    let is_first = rule.ranges == 0;
                    rule.ports(words.next().unwrap_or(""))?;
                    is_first
                }
                _ => rule.addresses.replace(addresses(word)?).is_none(),
            };
            if !is_first {
                return Err(("each condition once", word));
            }
        }
        Ok(is_ours.unwrap_or(true).then_some(rule))
    }

    fn ports<'a>(&mut self, list: &'a str) -> Found<'a, ()> {
        for range in list.split(',') {
            let wrong = ("ports, as 80 or 8000-8080,9000", range);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number::<u16>(first).ok_or(wrong)?, number(last).ok_or(wrong)?);
            if first > last {
                return Err(wrong);
            }
            *self.ports.get_mut(self.ranges).ok_or(("8 ranges or fewer", range))? = (first, last);
            self.ranges += 1;
        }
        Ok(())
    }

    fn fits(&self, wanted: &Wanted) -> bool {
        let port = wanted.address.port();
        let ports = &self.ports[..self.ranges];
        self.purpose.is_none_or(|purpose| purpose == wanted.purpose)
            && self.kind.is_none_or(|kind| kind == wanted.kind)
            && (ports.is_empty() || ports.iter().any(|&(a, b)| (a..=b).contains(&port)))
            && match self.addresses {
                None => true,
                Some(Where::Place(place)) => place == wanted.place,
                Some(Where::Network(network, len)) => contains(network, len, wanted.address.ip()),
            }
    }
}

fn addresses(word: &str) -> Found<'_, Where> {
    let wrong = ("program, connect, bind, tcp, udp, port, loopback, own or an address", word);
    let (address, len) = word.split_once('/').map_or((word, None), |(a, len)| (a, Some(len)));
    match address.parse::<IpAddr>() {
        Ok(address) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let len = len.map_or(Some(bits), number).filter(|len| *len <= bits);
            Ok(Where::Network(address, len.ok_or(("a length that the address has", word))?))
        }
        Err(_) => match word {
            "loopback" => Ok(Where::Place(Place::Loopback)),
            "own" => Ok(Where::Place(Place::Own)),
            _ => Err(wrong),
        },
    }
}

/// A number of digits alone.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Whether an address lies in a network.
fn contains(network: IpAddr, len: u8, address: IpAddr) -> bool {
    let differ = match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= u32::from(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(purpose: Purpose, address: &str, place: Place) -> Wanted {
        Wanted { purpose, kind: Kind::Stream, address: address.parse().unwrap(), place }
    }

    fn connect(address: &str) -> Wanted {
        wanted(Purpose::Connect, address, Place::Elsewhere)
    }

    #[test]
    fn the_first_that_fits_decides() {
        let text = "# hosts of ours\n\
                    outboard connect 10.9.0.0/16 port 80,8000-8080; kernel connect 10.0.0.0/8\n\
                    kernel program ssh\n\
                    kernel udp   # resolvers\n\
                    outboard bind loopback";
        let rules = Rules::parse(text, "curl").unwrap();
        for (address, owner) in [
            ("10.9.1.1:80", Owner::Outboard),
            ("10.9.1.1:8080", Owner::Outboard),
            ("10.9.1.1:8081", Owner::Kernel),
            ("10.10.1.1:80", Owner::Kernel),
            ("11.0.0.1:81", Owner::Outboard),
            ("[2001:db8::1]:81", Owner::Outboard),
        ] {
            assert_eq!(rules.owner(&connect(address), false), owner, "{address}");
        }
        let datagram = Wanted { kind: Kind::Datagram, ..connect("11.0.0.1:53") };
        assert_eq!(rules.owner(&datagram, false), Owner::Kernel);
        let bind = wanted(Purpose::Bind, "127.0.0.1:80", Place::Loopback);
        assert_eq!(rules.owner(&bind, false), Owner::Outboard);
        let ssh = Rules::parse(text, "ssh").unwrap();
        assert_eq!(ssh.owner(&connect("11.0.0.1:22"), false), Owner::Kernel);
    }

    #[test]
    fn what_is_the_kernels_whatever_the_address_is_known_from_the_beginning() {
        for (text, streams, datagrams) in [
            ("kernel", true, true),
            ("kernel udp", false, true),
            ("kernel program ssh", true, true),
            ("kernel program avahi-daemon; kernel tcp", true, false),
            ("outboard tcp port 80; kernel", false, true),
            ("outboard connect 10.0.0.0/8; kernel udp", false, false),
            ("kernel udp port 53", false, false),
            ("kernel bind udp", false, false),
            ("kernel udp loopback", false, false),
        ] {
            let rules = Rules::parse(text, "ssh").unwrap();
            let is = [Kind::Stream, Kind::Datagram].map(|kind| rules.is_kernel(kind));
            assert_eq!(is, [streams, datagrams], "{text}");
        }
    }

    #[test]
    fn without_a_rule_what_stays_on_this_host_is_the_kernels() {
        let rules = Rules::default();
        let loopback = wanted(Purpose::Connect, "127.0.0.1:80", Place::Loopback);
        let own = wanted(Purpose::Connect, "10.9.0.2:80", Place::Own);
        for here in [loopback, own] {
            assert_eq!(rules.owner(&here, false), Owner::Kernel);
            assert_eq!(rules.owner(&here, true), Owner::Outboard);
        }
        assert_eq!(rules.owner(&connect("10.9.0.1:80"), false), Owner::Outboard);
        let bind = Wanted { purpose: Purpose::Bind, ..own };
        assert_eq!(rules.owner(&bind, false), Owner::Outboard);
    }

    #[test]
    fn what_is_no_rule_is_said_with_its_line() {
        for (text, line, expected, found) in [
            ("\n\nfusewire", 3, "outboard or kernel", "fusewire"),
            ("kernel 10.0.0.0/33", 1, "a length that the address has", "10.0.0.0/33"),
            ("kernel port", 1, "ports, as 80 or 8000-8080,9000", ""),
            ("kernel port 9-8", 1, "ports, as 80 or 8000-8080,9000", "9-8"),
            ("kernel port +9", 1, "ports, as 80 or 8000-8080,9000", "+9"),
            ("kernel port 65536", 1, "ports, as 80 or 8000-8080,9000", "65536"),
            ("kernel port 1,2,3,4,5,6,7,8,9", 1, "8 ranges or fewer", "9"),
            ("kernel;kernel tcp tcp", 1, "each condition once", "tcp"),
            ("kernel program", 1, "the name of a program", ""),
        ] {
            let malformed = Rules::parse(text, "").unwrap_err();
            assert_eq!(
                (malformed.line, malformed.expected, &malformed.found[..]),
                (line, expected, found)
            );
        }
        assert!(Rules::parse("kernel host", "").unwrap_err().to_string().contains("\"host\""));
        assert!(Rules::parse(&"kernel\n".repeat(RULES_MAX), "").is_ok());
        assert_eq!(Rules::parse(&"kernel\n".repeat(RULES_MAX + 1), "").unwrap_err().line, 65);
    }
}
