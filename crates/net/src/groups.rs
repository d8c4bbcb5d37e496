//! Groups that we are in, and how routers come to know (RFC 2236, RFC 3376; RFC 2710, RFC 3810): the host's side
//! of IGMP and MLD, for any source.
//!
//! One machine for both: MLD's versions 1 and 2 are called V2 and V3 here, as IGMP's that they are like.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::igmp::{self, Query, RecordKind, Version};
use fusewire_wire::mld;

use crate::random::Random;

/// `Robustness Variable`, until a querier says otherwise.
const ROBUSTNESS: u8 = 2;
/// `Unsolicited Report Interval` of version 3.
const REPORT_INTERVAL_V3: Duration = Duration::from_secs(1);
/// `Unsolicited Report Interval` of the versions before.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// `Older Version Querier Present Timeout`, from the defaults of its parts.
const OLDER_VERSION: Duration = Duration::from_secs(260);
/// `Version 1 Router Present Timeout` (RFC 2236, section 8.12).
const VERSION_1: Duration = Duration::from_secs(400);
/// Groups of our own making: one for each address.
const OWN_GROUPS: usize = crate::addresses::MAX_ADDRESSES;

/// Longest message: what every link takes, with its headers.
pub(crate) const MAX_MESSAGE: usize = 1200;

/// Records that one message holds.
pub(crate) const fn most_records(v6: bool) -> usize {
    let (header_len, record_len) = match v6 {
        false => (igmp::HEADER_LEN, igmp::RECORD_LEN),
        true => (mld::RECORDS_AT, mld::RECORD_LEN),
    };
    (MAX_MESSAGE - header_len) / record_len
}

#[derive(Clone, Copy, Debug)]
struct Change {
    kind: RecordKind,
    left: u8,
    next: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    address: IpAddr,
    members: u32,
    change: Option<Change>,
    response: Option<Instant>,
    /// Ours was the last report that was heard (RFC 2236, section 3).
    last_reporter: bool,
}

/// What is known of the routers of one IP version.
#[derive(Clone, Copy, Debug)]
struct Querier {
    older: Option<(Version, Instant)>,
    robustness: u8,
    /// When all groups are to be reported.
    general: Option<Instant>,
    /// How many of them were, in messages that could hold no more.
    reported: usize,
}

/// What is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupReport {
    /// All groups, of IPv6 or IPv4, in messages of version 3: one of them.
    All {
        /// Of IPv6.
        v6: bool,
        /// Groups that earlier messages have named.
        skip: usize,
    },
    /// One group, in a message of version 3.
    Record(RecordKind, IpAddr),
    /// One group, in a message of version 1 or 2.
    Member(Version, IpAddr),
    /// A group that was left, in a message of version 2.
    Left(IpAddr),
}

/// The groups.
#[derive(Debug)]
pub(crate) struct Groups {
    entries: Vec<Group>,
    limit: usize,
    v4: Querier,
    v6: Querier,
}

impl Groups {
    /// In none but those of all hosts. At most `limit` of applications, of both versions together twice that.
    pub fn new(limit: usize) -> Groups {
        let limit = 2 * limit + OWN_GROUPS;
        let querier = Querier { older: None, robustness: ROBUSTNESS, general: None, reported: 0 };
        Groups { entries: Vec::with_capacity(limit), limit, v4: querier, v6: querier }
    }

    fn querier(&mut self, v6: bool) -> &mut Querier {
        if v6 { &mut self.v6 } else { &mut self.v4 }
    }

    fn version(&self, v6: bool) -> Version {
        let querier = if v6 { self.v6 } else { self.v4 };
        querier.older.map_or(Version::V3, |o| o.0)
    }

    /// Whether packets to `group` are for us.
    pub fn is_member(&self, group: IpAddr) -> bool {
        is_all_hosts(group) || self.entries.iter().any(|g| g.address == group && g.members > 0)
    }

    /// All groups that we are in, but for those of all hosts.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.entries.iter().filter(|g| g.members > 0).map(|g| g.address)
    }

    /// Joins a group, once more perhaps. False when there is no room.
    pub fn join(&mut self, now: Instant, address: IpAddr) -> bool {
        if let Some(group) = self.entries.iter_mut().find(|g| g.address == address) {
            group.members += 1;
            if group.members > 1 {
                return true;
            }
        } else if self.entries.len() == self.limit {
            return false;
        } else {
            let group =
                Group { address, members: 1, change: None, response: None, last_reporter: false };
            self.entries.push(group);
        }
        self.begin_change(now, address, RecordKind::Joins);
        true
    }

    /// Leaves a group, as often as it was joined.
    pub fn leave(&mut self, now: Instant, address: IpAddr) {
        let Some(group) = self.entries.iter_mut().find(|g| g.address == address) else { return };
        group.members = group.members.saturating_sub(1);
        if group.members > 0 {
            return;
        }
        group.response = None;
        let silent = match (self.version(address.is_ipv6()), self.reporter(address)) {
            (Version::V1, _) | (Version::V2, false) => true,
            (Version::V2, true) | (Version::V3, _) => false,
        };
        if silent || !is_reported(address) {
            self.entries.retain(|g| g.address != address);
        } else {
            self.begin_change(now, address, RecordKind::Leaves);
        }
    }

    fn reporter(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|g| g.address == address && g.last_reporter)
    }

    fn begin_change(&mut self, now: Instant, address: IpAddr, kind: RecordKind) {
        let left = match (self.version(address.is_ipv6()), kind) {
            (Version::V1 | Version::V2, RecordKind::Leaves) => 1,
            _ => self.querier(address.is_ipv6()).robustness,
        };
        let change = is_reported(address).then_some(Change { kind, left, next: now });
        if let Some(group) = self.entries.iter_mut().find(|g| g.address == address) {
            group.change = change;
        }
    }

    /// A router asks.
    pub fn handle_query(&mut self, now: Instant, query: &Query<IpAddr>, random: &mut Random) {
        let v6 = query.group.is_ipv6();
        let querier = self.querier(v6);
        match query.version {
            Version::V3 => {
                if query.robustness > 0 {
                    querier.robustness = query.robustness;
                }
            }
            older => {
                let time = if older == Version::V1 { VERSION_1 } else { OLDER_VERSION };
                let oldest = querier.older.map_or(older, |o| o.0.min(older));
                querier.older = Some((oldest, now + time));
                (querier.general, querier.reported) = (None, 0);
            }
        }
        let version = self.version(v6);
        let mut delay = || now + random.between(Duration::ZERO, query.max_response);
        if query.group.is_unspecified() && version == Version::V3 {
            let at = delay();
            let general = &mut self.querier(v6).general;
            *general = Some(general.map_or(at, |old| old.min(at)));
            return;
        }
        let asked = |g: &&mut Group| {
            g.address.is_ipv6() == v6
                && (query.group.is_unspecified() || g.address == query.group)
                && g.members > 0
                && is_reported(g.address)
        };
        for group in self.entries.iter_mut().filter(asked) {
            let at = delay();
            group.response = Some(group.response.map_or(at, |old| old.min(at)));
        }
    }

    /// Another member has answered (versions 1 and 2): we need not.
    pub fn handle_report(&mut self, group: IpAddr) {
        if self.version(group.is_ipv6()) == Version::V3 {
            return;
        }
        if let Some(group) = self.entries.iter_mut().find(|g| g.address == group) {
            group.response = None;
            group.last_reporter = false;
        }
    }

    /// What is to be reported now; ask until there is nothing.
    pub fn poll_transmit(&mut self, now: Instant, random: &mut Random) -> Option<GroupReport> {
        for v6 in [false, true] {
            if let Some(all) = self.poll_general(now, v6) {
                return Some(all);
            }
        }
        for at in 0..self.entries.len() {
            let group = self.entries[at];
            let version = self.version(group.address.is_ipv6());
            if group.response.is_some_and(|at| at <= now) {
                self.entries[at].response = None;
                self.entries[at].last_reporter = true;
                return Some(member(version, RecordKind::IsMember, group.address));
            }
            if let Some(change) = group.change.filter(|c| c.next <= now) {
                let interval = match version {
                    Version::V3 => REPORT_INTERVAL_V3,
                    _ => REPORT_INTERVAL,
                };
                let next = now + random.between(Duration::from_millis(1), interval);
                let left = change.left.saturating_sub(1);
                self.entries[at].change = (left > 0).then_some(Change { left, next, ..change });
                self.entries[at].last_reporter = true;
                if left == 0 && group.members == 0 {
                    self.entries.swap_remove(at);
                }
                return Some(member(version, change.kind, group.address));
            }
        }
        None
    }

    /// The answer to a general query: as many messages as it takes (RFC 3376, section 4.2.16; RFC 3810, section
    /// 5.2.15).
    fn poll_general(&mut self, now: Instant, v6: bool) -> Option<GroupReport> {
        self.querier(v6).general.filter(|at| *at <= now)?;
        let count = self.reported(v6).count();
        let querier = self.querier(v6);
        let skip = querier.reported;
        querier.reported = skip + most_records(v6);
        if querier.reported >= count {
            (querier.general, querier.reported) = (None, 0);
        }
        (skip < count).then_some(GroupReport::All { v6, skip })
    }

    /// Groups to be reported, of one IP version.
    pub fn reported(&self, v6: bool) -> impl Iterator<Item = IpAddr> + '_ {
        let asked =
            move |g: &&Group| g.address.is_ipv6() == v6 && g.members > 0 && is_reported(g.address);
        self.entries.iter().filter(asked).map(|g| g.address)
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        for querier in [&mut self.v4, &mut self.v6] {
            querier.older.take_if(|older| older.1 <= now);
        }
    }

    /// When something is to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let groups = self.entries.iter().flat_map(|g| [g.response, g.change.map(|c| c.next)]);
        let queriers = [self.v4, self.v6].into_iter();
        let queriers = queriers.flat_map(|q| [q.general, q.older.map(|o| o.1)]);
        groups.chain(queriers).flatten().min()
    }
}

fn member(version: Version, kind: RecordKind, group: IpAddr) -> GroupReport {
    match (version, kind) {
        (Version::V3, _) => GroupReport::Record(kind, group),
        (_, RecordKind::Leaves) => GroupReport::Left(group),
        _ => GroupReport::Member(version, group),
    }
}

/// Everybody is in these, always.
fn is_all_hosts(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(group) => {
            matches!(group.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1])
        }
    }
}

/// RFC 3376, section 5; RFC 3810, section 6: not the group of all, and none that does not leave the host.
fn is_reported(group: IpAddr) -> bool {
    let local = |a: Ipv6Addr| a.octets()[1] & 0xf < 2;
    !is_all_hosts(group) && !matches!(group, IpAddr::V6(a) if local(a))
}
