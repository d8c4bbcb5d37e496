//! Groups that we are in, and how routers come to know (RFC 2236, RFC 3376; RFC 2710, RFC 3810): the host's side
//! of IGMP and MLD.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::groups::{self, Protocol, Query, RecordKind, Records, Version};

use crate::membership::{Filter, MAX_GROUP_SOURCES, MembershipChange};
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

/// Who is in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// A socket, by its number.
    Socket(u32),
    /// The host, for an address of its own.
    Address(Ipv6Addr),
}

/// A change that routers are being told of (RFC 3376, section 5.1).
#[derive(Clone, Debug)]
struct Change {
    next: Instant,
    /// Reports of the whole filter that are left to send.
    filter_left: u8,
    /// Sources that came or went, and in how many reports each is still to be.
    sources: Vec<(IpAddr, u8)>,
}

/// A query for one group that waits for its answer (RFC 3376, section 5.2).
#[derive(Clone, Debug)]
struct Response {
    at: Instant,
    /// Sources that are asked for; none: the group.
    sources: Vec<IpAddr>,
}

#[derive(Clone, Debug)]
struct Group {
    address: IpAddr,
    listeners: Vec<(Listener, Filter)>,
    /// What all of them want.
    wanted: Filter,
    change: Option<Change>,
    response: Option<Response>,
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

/// A message that was written: to whom it goes, and its length.
pub(crate) type Written = (IpAddr, usize);

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

    fn entry(&self, group: IpAddr) -> Option<&Group> {
        self.entries.iter().find(|g| g.address == group)
    }

    /// Whether packets to `group` are for us, if their source is.
    pub fn is_member(&self, group: IpAddr) -> bool {
        is_all_hosts(group) || self.entry(group).is_some_and(|g| !g.wanted.is_none())
    }

    /// Whether packets from `source` to `group` are for us.
    pub fn wants(&self, group: IpAddr, source: IpAddr) -> bool {
        is_all_hosts(group) || self.entry(group).is_some_and(|g| g.wanted.wants(source))
    }

    /// Whether they are for this listener.
    pub fn listens(&self, listener: Listener, group: IpAddr, source: IpAddr) -> bool {
        let mut listeners = self.entry(group).into_iter().flat_map(|g| &g.listeners);
        listeners.any(|(who, filter)| *who == listener && filter.wants(source))
    }

    /// All groups that we are in, but for those of all hosts.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.entries.iter().filter(|g| !g.wanted.is_none()).map(|g| g.address)
    }

    /// Changes what a listener wants of a group.
    ///
    /// # Errors
    /// As [`Filter::changed`]; or there is no room for another group, or for more sources.
    pub fn change(
        &mut self,
        now: Instant,
        listener: Listener,
        address: IpAddr,
        change: MembershipChange,
    ) -> Result<(), &'static str> {
        let at = self.entries.iter().position(|g| g.address == address);
        let known = at.map_or(&[][..], |at| &self.entries[at].listeners);
        let mut listeners = known.to_vec();
        let place = listeners.iter().position(|(who, _)| *who == listener);
        let old = place.map_or(Filter::NONE, |place| listeners.swap_remove(place).1);
        let filter = old.changed(change)?;
        if !filter.is_none() {
            listeners.push((listener, filter));
        }
        let wanted = Filter::merged(listeners.iter().map(|(_, filter)| filter));
        let wanted = wanted.ok_or("too many sources of a group are named already")?;
        let at = match at {
            Some(at) => at,
            None if wanted.is_none() => return Ok(()),
            None if self.entries.len() == self.limit => return Err("too many groups"),
            None => {
                self.entries.push(Group {
                    address,
                    listeners: Vec::new(),
                    wanted: Filter::NONE,
                    change: None,
                    response: None,
                    last_reporter: false,
                });
                self.entries.len() - 1
            }
        };
        self.entries[at].listeners = listeners;
        self.begin_change(now, at, wanted);
        Ok(())
    }

    /// Takes a listener out of all groups.
    pub fn forget(&mut self, now: Instant, listener: Listener) {
        for group in self.iter().collect::<Vec<_>>() {
            // To leave needs no room.
            let _ = self.change(now, listener, group, MembershipChange::Leave);
        }
    }

    /// The interface wants something else of a group now: RFC 3376, section 5.1, and RFC 3810, section 6.1.
    fn begin_change(&mut self, now: Instant, at: usize, wanted: Filter) {
        let v6 = self.entries[at].address.is_ipv6();
        let (version, robustness) = (self.version(v6), self.querier(v6).robustness);
        let group = &mut self.entries[at];
        let old = core::mem::replace(&mut group.wanted, wanted);
        let left = group.wanted.is_none() && !old.is_none();
        let joined = old.is_none() && !group.wanted.is_none();
        if left {
            group.response = None;
        }
        let is_silent = match version {
            Version::V1 => left,
            Version::V2 => left && !group.last_reporter,
            Version::V3 => false,
        };
        if is_silent || !is_reported(group.address) {
            group.change = None;
            return self.entries.retain(Group::is_alive);
        }
        let new = &group.wanted;
        let mode = |filter: &Filter| core::mem::discriminant(filter);
        let of_filter = match version {
            Version::V3 if mode(&old) != mode(new) => robustness,
            Version::V3 => 0,
            _ if joined => robustness,
            _ => left.into(),
        };
        let named = old.sources().iter().chain(new.sources());
        let moved = named.filter(|source| old.wants(**source) != new.wants(**source));
        let moved: Vec<IpAddr> = moved.copied().collect();
        if of_filter == 0 && (moved.is_empty() || version != Version::V3) {
            return;
        }
        let mut change = group.change.take().unwrap_or(Change {
            next: now,
            filter_left: 0,
            sources: Vec::new(),
        });
        change.next = now;
        if of_filter > 0 {
            change.filter_left = of_filter;
        } else {
            change.sources.retain(|(source, _)| !moved.contains(source));
            change.sources.extend(moved.into_iter().map(|source| (source, robustness)));
        }
        if change.sources.len() > MAX_GROUP_SOURCES {
            // The whole filter says it, too.
            (change.filter_left, change.sources) = (robustness, Vec::new());
        }
        group.change = Some(change);
    }

    /// A router asks.
    pub fn handle_query(&mut self, now: Instant, query: &Query<'_>, random: &mut Random) {
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
        let general = self.querier(v6).general;
        let asked = |g: &&mut Group| {
            g.address.is_ipv6() == v6
                && (query.group.is_unspecified() || g.address == query.group)
                && !g.wanted.is_none()
                && is_reported(g.address)
        };
        for group in self.entries.iter_mut().filter(asked) {
            let at = delay();
            if general.is_some_and(|general| general <= at) {
                continue;
            }
            let sources = query.sources.iter();
            match &mut group.response {
                None => group.response = Some(Response { at, sources: sources.collect() }),
                Some(response) => {
                    response.at = response.at.min(at);
                    if query.sources.is_empty() || response.sources.is_empty() {
                        response.sources.clear();
                    } else {
                        response.sources.extend(sources);
                    }
                }
            }
            let sources = group.response.iter_mut().map(|response| &mut response.sources);
            // Of more than we keep we answer for the group.
            sources.filter(|sources| sources.len() > MAX_GROUP_SOURCES).for_each(Vec::clear);
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

    /// Writes what is to be reported now; ask until there is nothing. `out` has room for [`MAX_MESSAGE`] bytes.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        random: &mut Random,
        out: &mut [u8],
    ) -> Option<Written> {
        for v6 in [false, true] {
            if let Some(written) = self.poll_general(now, v6, out) {
                return Some(written);
            }
        }
        let versions = [false, true].map(|v6| self.version(v6));
        let mut written = None;
        for group in &mut self.entries {
            let version = versions[usize::from(group.address.is_ipv6())];
            written = group.poll_response(now, version, out);
            written = written.or_else(|| group.poll_change(now, version, random, out));
            if written.is_some() {
                group.last_reporter = true;
                break;
            }
        }
        self.entries.retain(Group::is_alive);
        written
    }

    /// The answer to a general query: as many messages as it takes (RFC 3376, section 4.2.16; RFC 3810, section
    /// 5.2.15).
    fn poll_general(&mut self, now: Instant, v6: bool, out: &mut [u8]) -> Option<Written> {
        self.querier(v6).general.filter(|at| *at <= now)?;
        let skip = self.querier(v6).reported;
        let mut records = Records::new(if v6 { Protocol::Mld } else { Protocol::Igmp }, out);
        let asked =
            |g: &&Group| g.address.is_ipv6() == v6 && !g.wanted.is_none() && is_reported(g.address);
        let named = self.entries.iter().filter(asked).skip(skip).take_while(|g| {
            let kind = g.mode(RecordKind::IsInclude, RecordKind::IsExclude);
            records.push(kind, g.address, g.wanted.sources().iter().copied())
        });
        let named = named.count();
        let is_last = self.entries.iter().filter(asked).count() <= skip + named;
        let querier = self.querier(v6);
        querier.reported = if is_last { 0 } else { skip + named };
        querier.general = querier.general.filter(|_| !is_last);
        Some((reports_to(v6), records.finish()?))
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        for querier in [&mut self.v4, &mut self.v6] {
            querier.older.take_if(|older| older.1 <= now);
        }
    }

    /// When something is to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let groups = self.entries.iter().flat_map(|g| {
            [g.response.as_ref().map(|r| r.at), g.change.as_ref().map(|change| change.next)]
        });
        let queriers = [self.v4, self.v6].into_iter();
        let queriers = queriers.flat_map(|q| [q.general, q.older.map(|o| o.1)]);
        groups.chain(queriers).flatten().min()
    }
}

impl Group {
    /// Wanted, or its end is still to be told.
    fn is_alive(&self) -> bool {
        !self.wanted.is_none() || self.change.is_some()
    }

    fn mode(&self, include: RecordKind, exclude: RecordKind) -> RecordKind {
        match self.wanted {
            Filter::Include(_) => include,
            Filter::Exclude(_) => exclude,
        }
    }

    /// The answer to a query for this group, when it is due (RFC 3376, section 5.2; RFC 3810, section 6.3).
    fn poll_response(&mut self, now: Instant, version: Version, out: &mut [u8]) -> Option<Written> {
        let asked = self.response.take_if(|response| response.at <= now)?.sources;
        if version != Version::V3 {
            return Some((self.address, groups::emit_report(version, self.address, out)));
        }
        let (kind, sources) = if asked.is_empty() {
            let kind = self.mode(RecordKind::IsInclude, RecordKind::IsExclude);
            (kind, self.wanted.sources().to_vec())
        } else {
            let mut wanted: Vec<_> = asked.into_iter().filter(|s| self.wanted.wants(*s)).collect();
            wanted.sort_unstable();
            wanted.dedup();
            if wanted.is_empty() {
                return None;
            }
            (RecordKind::IsInclude, wanted)
        };
        self.emit(&[(kind, sources)], out)
    }

    /// A report of what has changed, when it is due.
    fn poll_change(
        &mut self,
        now: Instant,
        version: Version,
        random: &mut Random,
        out: &mut [u8],
    ) -> Option<Written> {
        let mut change = self.change.take_if(|change| change.next <= now)?;
        let of_filter = change.filter_left > 0;
        let (wanted, blocked): (Vec<IpAddr>, Vec<IpAddr>) =
            change.sources.iter().map(|s| s.0).partition(|source| self.wanted.wants(*source));
        change.filter_left = change.filter_left.saturating_sub(1);
        change.sources.iter_mut().for_each(|(_, left)| *left -= 1);
        change.sources.retain(|(_, left)| *left > 0);
        let interval = match version {
            Version::V3 => REPORT_INTERVAL_V3,
            _ => REPORT_INTERVAL,
        };
        change.next = now + random.between(Duration::from_millis(1), interval);
        if change.filter_left > 0 || (version == Version::V3 && !change.sources.is_empty()) {
            self.change = Some(change);
        }
        match (version, of_filter) {
            (Version::V3, true) => {
                let kind = self.mode(RecordKind::ToInclude, RecordKind::ToExclude);
                self.emit(&[(kind, self.wanted.sources().to_vec())], out)
            }
            (Version::V3, false) => {
                self.emit(&[(RecordKind::Allow, wanted), (RecordKind::Block, blocked)], out)
            }
            (_, false) => None,
            (_, true) if self.wanted.is_none() => {
                let to = match self.address {
                    IpAddr::V4(_) => Ipv4Addr::new(224, 0, 0, 2).into(),
                    IpAddr::V6(_) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2).into(),
                };
                Some((to, groups::emit_leave(self.address, out)))
            }
            (_, true) => Some((self.address, groups::emit_report(version, self.address, out))),
        }
    }

    /// Writes a report of these records; of those that name sources when there are none, nothing.
    fn emit(&self, records: &[(RecordKind, Vec<IpAddr>)], out: &mut [u8]) -> Option<Written> {
        let mut report = Records::new(Protocol::of(self.address), out);
        for (kind, sources) in records {
            let is_empty = sources.is_empty();
            if !(is_empty && matches!(kind, RecordKind::Allow | RecordKind::Block)) {
                report.push(*kind, self.address, sources.iter().copied());
            }
        }
        Some((reports_to(self.address.is_ipv6()), report.finish()?))
    }
}

/// Whom reports of version 3 go to.
fn reports_to(v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(224, 0, 0, 22).into(),
        true => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16).into(),
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
