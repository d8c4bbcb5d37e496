//! Which neighbour is next on the way to a destination.
//!
//! Configured routes, those of a DHCP server, and the default routers of RFC 4861, section 6.3.4. Networks of own
//! addresses are [`crate::addresses`]'s.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Instant;

use crate::Cidr;
use crate::config::Route;

/// Most routes that are configured or come from DHCP.
pub const MAX_ROUTES: usize = 64;
/// Most default routers from advertisements.
pub const MAX_ROUTERS: usize = 8;
/// Most prefixes that advertisements say are on the link.
pub const MAX_PREFIXES: usize = 16;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The configuration.
    Static,
    /// A DHCP server.
    Dhcp,
}

/// A default router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Router {
    address: Ipv6Addr,
    until: Instant,
}

/// A prefix on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    cidr: Cidr,
    until: Option<Instant>,
}

/// The routes.
#[derive(Debug)]
pub struct Routes {
    entries: Vec<(Route, Source)>,
    routers: Vec<Router>,
    prefixes: Vec<Prefix>,
}

/// The next hop, as far as routes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The destination is a neighbour.
    Link,
    /// This router.
    Gateway(IpAddr),
}

impl Routes {
    /// None yet.
    pub(crate) fn new() -> Routes {
        Routes {
            entries: Vec::with_capacity(MAX_ROUTES),
            routers: Vec::with_capacity(MAX_ROUTERS),
            prefixes: Vec::with_capacity(MAX_PREFIXES),
        }
    }

    /// Adds a route; false when there is no room.
    pub fn add(&mut self, route: Route, source: Source) -> bool {
        if self.entries.iter().any(|e| e.0 == route) {
            return true;
        }
        let room = self.entries.len() < MAX_ROUTES;
        if room {
            self.entries.push((route, source));
        }
        room
    }

    /// Removes a route.
    pub fn remove(&mut self, route: &Route) {
        self.entries.retain(|e| e.0 != *route);
    }

    /// Removes all that `source` said.
    pub fn clear(&mut self, source: Source) {
        self.entries.retain(|e| e.1 != source);
    }

    /// All but those of advertisements.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.entries.iter().map(|e| &e.0)
    }

    /// Default routers that advertise themselves.
    pub fn routers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.routers.iter().map(|r| r.address)
    }

    /// A router advertises itself for `lifetime`; zero: it no longer is one. True when that is news.
    pub fn advertise(&mut self, now: Instant, address: Ipv6Addr, lifetime: Duration) -> bool {
        let until = now + lifetime;
        let room = self.routers.len() < MAX_ROUTERS;
        match self.routers.iter_mut().find(|r| r.address == address) {
            Some(_) if lifetime.is_zero() => {
                self.routers.retain(|r| r.address != address);
                true
            }
            Some(router) => {
                router.until = until;
                false
            }
            None if lifetime.is_zero() || !room => false,
            None => {
                self.routers.push(Router { address, until });
                true
            }
        }
    }

    /// A router says that a prefix is on the link until `until` (`None`: for ever), or, with a time that
    /// is past, that it is not. True when that is news.
    pub fn on_link(&mut self, now: Instant, cidr: Cidr, until: Option<Instant>) -> bool {
        let over = until.is_some_and(|until| until <= now);
        let room = self.prefixes.len() < MAX_PREFIXES;
        match self.prefixes.iter_mut().find(|p| p.cidr == cidr) {
            Some(_) if over => {
                self.prefixes.retain(|p| p.cidr != cidr);
                true
            }
            Some(prefix) => {
                prefix.until = until;
                false
            }
            None if over || !room => false,
            None => {
                self.prefixes.push(Prefix { cidr, until });
                true
            }
        }
    }

    /// The next hop to `destination`, of the longest prefix; `on_link_len` is that of an own address's
    /// network. `reaches` says of a router whether it is known to be there (RFC 4861, section 6.3.6).
    pub fn lookup(
        &self,
        destination: IpAddr,
        on_link_len: Option<u8>,
        reaches: impl Fn(Ipv6Addr) -> bool,
    ) -> Option<NextHop> {
        let configured =
            self.entries.iter().filter(|(route, _)| route.destination.contains(destination)).map(
                |(route, _)| {
                    let hop = route.gateway.map_or(NextHop::Link, NextHop::Gateway);
                    (route.destination.prefix_len(), hop)
                },
            );
        let prefixes = self
            .prefixes
            .iter()
            .filter(|p| p.cidr.contains(destination))
            .map(|p| (p.cidr.prefix_len(), NextHop::Link));
        let own = on_link_len.map(|len| (len, NextHop::Link));
        // Of equals the first counts.
        let best = own.into_iter().chain(prefixes).chain(configured).rev();
        let best = best.max_by_key(|(len, _)| *len);
        best.map(|(_, hop)| hop).or_else(|| {
            destination.is_ipv6().then_some(())?;
            let router = self.routers.iter().find(|r| reaches(r.address));
            let router = router.or(self.routers.first())?;
            Some(NextHop::Gateway(router.address.into()))
        })
    }

    /// The router that is used gave no answer: the others that lead to the same networks come first now
    /// (RFC 1122, section 3.3.1.4; RFC 4861, section 6.3.6). True when there are some.
    pub fn rotate(&mut self, failed: IpAddr) -> bool {
        let mut others = false;
        if self.routers.first().is_some_and(|r| failed == r.address) {
            others = self.routers.len() > 1;
            self.routers.rotate_left(1);
        }
        for at in (0..self.entries.len()).rev() {
            let (route, _) = self.entries[at];
            let instead = |(other, _): &(Route, Source)| {
                other.destination == route.destination && other.gateway != route.gateway
            };
            if route.gateway == Some(failed) && self.entries[at + 1..].iter().any(instead) {
                self.entries[at..].rotate_left(1);
                others = true;
            }
        }
        others
    }

    /// Forgets what is over; true when something was.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let before = (self.routers.len(), self.prefixes.len());
        self.routers.retain(|r| r.until > now);
        self.prefixes.retain(|p| p.until.is_none_or(|until| until > now));
        before != (self.routers.len(), self.prefixes.len())
    }

    /// When something is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let routers = self.routers.iter().map(|r| r.until);
        routers.chain(self.prefixes.iter().filter_map(|p| p.until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(destination: &str, gateway: Option<&str>) -> Route {
        Route {
            destination: destination.parse().unwrap(),
            gateway: gateway.map(|g| g.parse().unwrap()),
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut routes = Routes::new();
        routes.add(route("0.0.0.0/0", Some("10.0.0.1")), Source::Static);
        routes.add(route("10.9.0.0/16", Some("10.0.0.2")), Source::Static);
        routes.add(route("10.9.9.0/24", None), Source::Dhcp);
        let to =
            |routes: &Routes, text: &str, own| routes.lookup(text.parse().unwrap(), own, |_| true);
        let gateway = |text: &str| Some(NextHop::Gateway(text.parse().unwrap()));
        assert_eq!(to(&routes, "192.0.2.1", None), gateway("10.0.0.1"));
        assert_eq!(to(&routes, "10.9.1.1", None), gateway("10.0.0.2"));
        assert_eq!(to(&routes, "10.9.9.1", None), Some(NextHop::Link));
        assert_eq!(to(&routes, "10.9.1.1", Some(24)), Some(NextHop::Link));
        routes.clear(Source::Dhcp);
        assert_eq!(to(&routes, "10.9.9.1", None), gateway("10.0.0.2"));
        assert_eq!(to(&routes, "2001:db8::1", None), None);
    }

    #[test]
    fn a_router_that_is_silent_makes_way_for_the_next() {
        let mut routes = Routes::new();
        for gateway in ["10.0.0.1", "10.0.0.2"] {
            routes.add(route("0.0.0.0/0", Some(gateway)), Source::Dhcp);
        }
        routes.add(route("10.9.0.0/16", Some("10.0.0.1")), Source::Dhcp);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let to = |routes: &Routes, to: &str| routes.lookup(to.parse().unwrap(), None, |_| true);
        assert_eq!(to(&routes, "192.0.2.1"), Some(NextHop::Gateway(a)));
        assert!(routes.rotate(a));
        assert_eq!(to(&routes, "192.0.2.1"), Some(NextHop::Gateway(b)));
        assert_eq!(to(&routes, "10.9.1.1"), Some(NextHop::Gateway(a)), "there is no other");
        assert!(routes.rotate(b));
        assert_eq!(to(&routes, "192.0.2.1"), Some(NextHop::Gateway(a)));
        assert!(!routes.rotate("10.0.0.3".parse().unwrap()));
    }

    #[test]
    fn routers_come_and_go() {
        let (a, b): (Ipv6Addr, Ipv6Addr) = ("fe80::a".parse().unwrap(), "fe80::b".parse().unwrap());
        let mut routes = Routes::new();
        let t = Instant::from_ms(1000);
        assert!(routes.advertise(t, a, Duration::from_secs(10)));
        assert!(routes.advertise(t, b, Duration::from_secs(20)));
        assert!(!routes.advertise(t, a, Duration::from_secs(10)));
        let to = |routes: &Routes, reaches: &dyn Fn(Ipv6Addr) -> bool| {
            routes.lookup("2001:db8::1".parse().unwrap(), None, reaches)
        };
        assert_eq!(to(&routes, &|_| true), Some(NextHop::Gateway(a.into())));
        assert_eq!(to(&routes, &|r| r == b), Some(NextHop::Gateway(b.into())));
        assert!(routes.rotate(a.into()));
        assert_eq!(to(&routes, &|_| false), Some(NextHop::Gateway(b.into())));
        assert_eq!(routes.poll_timeout(), Some(t + Duration::from_secs(10)));
        assert!(routes.handle_timeout(t + Duration::from_secs(10)));
        assert_eq!(routes.routers().collect::<Vec<_>>(), [b]);
        assert!(routes.advertise(t, b, Duration::ZERO));
        assert_eq!(to(&routes, &|_| true), None);
    }
}
