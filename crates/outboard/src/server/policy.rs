//! Who may use an outboard, and which ports and addresses are his.
//!
//! ```text
//!  UID[:PORT[-PORT],…][@ADDRESS,…]
//! ```
//! Without ports a user has those from 1024 on, without addresses all. Root may do everything; the outboard's own user
//! comes in as one that is named without ports and addresses. A user with addresses who names none has the first of his
//! own of that IP version, as if he had named it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use rustix::io::Errno;

use super::table::Owner;

/// The first port that is nobody's by right.
const UNPRIVILEGED: u16 = 1024;
const ROOT: u32 = 0;

/// A user who may use an outboard, and what he may bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Who.
    pub uid: u32,
    /// Ports that he may bind to; one that the outboard chooses he always may.
    pub ports: Vec<RangeInclusive<u16>>,
    /// His addresses; none: all of the outboard's.
    pub addresses: Vec<IpAddr>,
}

impl From<u32> for Allow {
    /// A user with what everybody has who may come in.
    fn from(uid: u32) -> Allow {
        Allow { uid, ports: vec![UNPRIVILEGED..=u16::MAX], addresses: Vec::new() }
    }
}

/// Not what [`Allow`] is written as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected UID[:PORT[-PORT],…][@ADDRESS,…], found {found:?} where {what} belongs")]
pub struct NotAllow {
    what: &'static str,
    found: String,
}

fn parse<T: FromStr>(what: &'static str, text: &str) -> Result<T, NotAllow> {
    text.parse().map_err(|_| NotAllow { what, found: text.into() })
}

impl FromStr for Allow {
    type Err = NotAllow;

    fn from_str(text: &str) -> Result<Allow, NotAllow> {
        let (head, addresses) = text.split_once('@').map_or((text, None), |(h, a)| (h, Some(a)));
        let (uid, ports) = head.split_once(':').map_or((head, None), |(u, p)| (u, Some(p)));
        let mut allow = Allow::from(parse::<u32>("the number of a user", uid)?);
        if let Some(ports) = ports {
            allow.ports = ports.split(',').map(range).collect::<Result<_, _>>()?;
        }
        if let Some(addresses) = addresses {
            let all = addresses.split(',').map(|address| parse("an address", address));
            allow.addresses = all.collect::<Result<_, _>>()?;
        }
        Ok(allow)
    }
}

fn range(text: &str) -> Result<RangeInclusive<u16>, NotAllow> {
    let port = |text| parse("a port", text);
    let range = match text.split_once('-') {
        Some((first, last)) => port(first)?..=port(last)?,
        None => port(text)?..=port(text)?,
    };
    if range.is_empty() || range.contains(&0) {
        return Err(NotAllow {
            what: "a port from 1 on, or the first and the last",
            found: text.into(),
        });
    }
    Ok(range)
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uid)?;
        for (n, ports) in self.ports.iter().enumerate() {
            write!(f, "{}{}-{}", if n == 0 { ':' } else { ',' }, ports.start(), ports.end())?;
        }
        for (n, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if n == 0 { '@' } else { ',' })?;
        }
        Ok(())
    }
}

/// All who may come in.
#[derive(Clone, Debug)]
pub struct Policy(Vec<Allow>);

impl Policy {
    /// These, the outboard's own user, and root.
    pub fn new(allow: &[Allow], own: u32) -> Policy {
        let mut all = allow.to_vec();
        if own != ROOT && all.iter().all(|one| one.uid != own) {
            all.push(own.into());
        }
        Policy(all)
    }

    fn of(&self, uid: u32) -> impl Iterator<Item = &Allow> {
        self.0.iter().filter(move |allow| allow.uid == uid)
    }

    /// This user may come in.
    pub fn admits(&self, uid: u32) -> bool {
        uid == ROOT || self.of(uid).next().is_some()
    }

    /// Where a user's socket is bound who wants `local`: there, or at an address of his own where he has named none. Who
    /// is not named, and was handed a placeholder, has the addresses of whose it was, and of his ports those from 1024 on.
    ///
    /// # Errors
    /// `EACCES`: the port or the address is not his.
    pub fn place(&self, owner: Owner, local: SocketAddr) -> Result<SocketAddr, Errno> {
        let of = |uid: u32| match uid {
            ROOT => Some(local),
            uid => self.of(uid).find_map(|allow| allow.place(local)),
        };
        match self.admits(owner.uid) {
            true => of(owner.uid),
            false if local.port() != 0 && local.port() < UNPRIVILEGED => None,
            false => of(owner.payer),
        }
        .ok_or(Errno::ACCESS)
    }
}

impl Allow {
    fn place(&self, local: SocketAddr) -> Option<SocketAddr> {
        let port = local.port();
        if port != 0 && !self.ports.iter().any(|ports| ports.contains(&port)) {
            return None;
        }
        let is_any = local.ip().is_unspecified();
        let is_his = |own: &&IpAddr| match is_any {
            true => own.is_ipv4() == local.is_ipv4(),
            false => **own == local.ip(),
        };
        match self.addresses[..] {
            [] => Some(local),
            ref all => all.iter().find(is_his).map(|own| SocketAddr::new(*own, port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn users_are_written_with_their_ports_and_addresses() {
        let all: Allow = "1000:80,8000-8080@10.0.0.1,fd00::1".parse().unwrap();
        assert_eq!((all.uid, &all.ports[..]), (1000, &[80..=80, 8000..=8080][..]));
        assert_eq!(all.addresses, [at("10.0.0.1:0").ip(), at("[fd00::1]:0").ip()]);
        assert_eq!(all.to_string().parse::<Allow>().as_ref(), Ok(&all));
        assert_eq!("7".parse::<Allow>(), Ok(Allow::from(7)));
        assert_eq!("7@10.0.0.1".parse::<Allow>().unwrap().ports, [1024..=65535]);
        for wrong in [
            "",
            "root",
            "-1",
            "7:",
            "7:0",
            "7:9-8",
            "7:x",
            "7:65536",
            "7@",
            "7@host",
            "7:80@10.0.0.1/24",
        ] {
            assert!(wrong.parse::<Allow>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_has_his_own() {
        let allow: Vec<Allow> =
            ["1000:80,1024-65535", "1001:443@10.0.0.2,fd00::2", "1001:9000@10.0.0.3"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let policy = Policy::new(&allow, 50);
        for (uid, admitted) in [(0, true), (50, true), (1000, true), (1001, true), (1002, false)] {
            assert_eq!(policy.admits(uid), admitted, "{uid}");
        }
        for (uid, wanted, found) in [
            (0, "0.0.0.0:1", Some("0.0.0.0:1")),
            (50, "0.0.0.0:80", None),
            (50, "[::]:8080", Some("[::]:8080")),
            (1000, "10.0.0.9:80", Some("10.0.0.9:80")),
            (1000, "10.0.0.9:81", None),
            (1001, "0.0.0.0:443", Some("10.0.0.2:443")),
            (1001, "0.0.0.0:0", Some("10.0.0.2:0")),
            (1001, "[::]:0", Some("[fd00::2]:0")),
            (1001, "10.0.0.2:9000", None),
            (1001, "0.0.0.0:9000", Some("10.0.0.3:9000")),
            (1001, "10.0.0.1:443", None),
            (1001, "10.0.0.1:0", None),
        ] {
            // Whoever has handed him something.
            for payer in [0, uid, 1000] {
                let found_now = policy.place(Owner { uid, pid: 1, payer }, at(wanted)).ok();
                assert_eq!(found_now, found.map(at), "{uid} {wanted}");
            }
        }
        // One who is not named, and was handed a placeholder.
        for (payer, wanted, found) in [
            (0, "0.0.0.0:0", Some("0.0.0.0:0")),
            (0, "10.0.0.2:1024", Some("10.0.0.2:1024")),
            (0, "10.0.0.2:1023", None),
            (1000, "10.0.0.9:80", None),
            (1000, "10.0.0.9:8080", Some("10.0.0.9:8080")),
            (1001, "0.0.0.0:0", Some("10.0.0.2:0")),
            (1001, "10.0.0.1:0", None),
            (1001, "10.0.0.3:9000", Some("10.0.0.3:9000")),
            (1001, "10.0.0.3:9001", None),
            (1002, "10.0.0.3:9001", None),
        ] {
            let owner = Owner { uid: 1002, pid: 1, payer };
            assert_eq!(policy.place(owner, at(wanted)).ok(), found.map(at), "{payer} {wanted}");
        }
    }
}
