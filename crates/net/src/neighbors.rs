//! Who has which address on the link: one table for ARP and neighbour discovery, with the states of RFC 4861,
//! section 7.3.2.
//!
//! ```text
//!              ┌────────────────── unused ──────────────────┐
//!   Incomplete ┤                                            ▼
//!    │  │answer└▶ Reachable ──30 s──▶ Stale ──used──▶ Delay ──5 s──▶ Probe ──3 unanswered──▶ Incomplete
//!    │  └────────────▲───────────────────────────────────┴─confirmed──┘
//!    └─3 unanswered─▶ Failed ──1 s──▶ gone
//! ```
//! The table is an array of sets of [`WAYS`] entries, the set chosen by a keyed hash: it never grows, and
//! nobody can aim at a set. In a full set one that never answered makes room, else the one that was used
//! longest ago; but one that a stranger's packet makes never displaces one that we send to.
//!
//! Against poisoning: an entry that we use changes its MAC address only when the old one does not answer a
//! question of ours. RFC 4861, section 7.2.5, and RFC 826 would follow every claim at once; here a claim costs
//! up to three seconds when it is honest, and nothing when it is not.

use core::net::IpAddr;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::ethernet::Address;

use crate::random::{Keyed, Purpose, Random};

/// Entries of one set.
pub const WAYS: usize = 16;
/// `MAX_MULTICAST_SOLICIT` and `MAX_UNICAST_SOLICIT`.
const SOLICITATIONS_MAX: u8 = 3;
/// `RETRANS_TIMER`.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// `REACHABLE_TIME`, before it is made random.
const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// `DELAY_FIRST_PROBE_TIME`.
const DELAY_FIRST_PROBE_TIME: Duration = Duration::from_secs(5);
/// How long a neighbour that did not answer is not asked again.
const FAILED_TIME: Duration = Duration::from_secs(1);
/// Longest time that a router may make `REACHABLE_TIME` and `RETRANS_TIMER`.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Timers of entries fall on multiples of this, so that many of them cost one look at the table.
const TICK_NS: u64 = 10_000_000;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was asked for its MAC address and has not answered.
    Incomplete,
    /// It has answered lately.
    Reachable,
    /// It may be there.
    Stale,
    /// It may be there, and is being used.
    Delay,
    /// It is being asked whether it is still there.
    Probe,
    /// It has not answered.
    Failed,
}

/// A neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address; means nothing in the states Incomplete and Failed.
    pub mac: Address,
    /// What is known of it.
    pub state: State,
    /// It says that it is a router.
    pub is_router: bool,
    /// Somebody may have a path through it that was not told to ask again.
    used: bool,
    last_use: Option<Instant>,
    seen: Instant,
    deadline: Option<Instant>,
    solicitations: u8,
    solicit: bool,
}

/// What a packet says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It sent something that bears its MAC address: a request or solicitation, a router's message.
    Mentioned,
    /// It answered, perhaps us.
    Answer,
    /// It answered, and says that another host has the address still (an advertisement without the override
    /// flag).
    WeakAnswer,
    /// It spoke without being asked (gratuitous ARP, unsolicited advertisement): nothing new is learned.
    Unasked,
}

/// What became of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing that anybody has to know.
    Nothing,
    /// The neighbour can be sent to now.
    Resolved,
    /// The claim contradicts what is in use.
    Contested,
    /// There is no room for it.
    Full,
}

/// What the table says of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Send it there.
    Mac(Address),
    /// It is being asked.
    Resolving,
    /// It did not answer.
    Failed,
}

/// A question to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Whose MAC address is asked for.
    pub address: IpAddr,
    /// To that MAC address alone; `None`: to all.
    pub mac: Option<Address>,
}

/// The table.
#[derive(Debug)]
pub struct Neighbors {
    entries: Vec<Option<Entry>>,
    fixed: Vec<(IpAddr, Address)>,
    keyed: Keyed,
    /// No entry's deadline is before this.
    next: Option<Instant>,
    solicits: usize,
    cursor: usize,
    changes: u64,
    /// Those that were given up and that nobody was told of yet.
    failed: Vec<IpAddr>,
    base_reachable: Duration,
    retrans: Duration,
}

impl Neighbors {
    /// An empty table of `limit` entries, rounded up.
    pub fn new(limit: usize, keyed: Keyed) -> Neighbors {
        Neighbors {
            entries: vec![None; limit.max(1).next_multiple_of(WAYS)],
            fixed: Vec::new(),
            keyed,
            next: None,
            solicits: 0,
            cursor: 0,
            changes: 0,
            failed: Vec::new(),
            base_reachable: REACHABLE_TIME,
            retrans: RETRANS_TIMER,
        }
    }

    /// What a router says of times (RFC 4861, section 6.3.4); zero: nothing.
    pub fn set_times(&mut self, reachable_ms: u32, retrans_ms: u32) {
        let time = |ms: u32| Duration::from_millis(ms.into()).min(TIME_MAX);
        if reachable_ms != 0 {
            self.base_reachable = time(reachable_ms);
        }
        if retrans_ms != 0 {
            self.retrans = time(retrans_ms).max(Duration::from_millis(100));
        }
    }

    /// A neighbour that is told, not found, as netlink says or the user. `None` forgets it.
    pub fn set(&mut self, address: IpAddr, mac: Option<Address>) {
        self.fixed.retain(|f| f.0 != address);
        self.fixed.extend(mac.map(|s| (address, s)));
        self.changes += 1;
    }

    /// Grows whenever a neighbour is resolved, given up or in doubt: who waits for one, or keeps a path
    /// through one, asks again.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All neighbours that were found.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    fn set_of(&self, address: IpAddr) -> core::ops::Range<usize> {
        let sets = (self.entries.len() / WAYS) as u64;
        let set = (self.keyed.hash(Purpose::Neighbor, &address) % sets) as usize;
        set * WAYS..(set + 1) * WAYS
    }

    fn find(&self, address: IpAddr) -> Option<usize> {
        self.set_of(address).find(|&at| self.entries[at].is_some_and(|e| e.address == address))
    }

    /// The entry of `address`.
    pub fn entry(&self, address: IpAddr) -> Option<&Entry> {
        self.find(address).and_then(|at| self.entries[at].as_ref())
    }

    /// Where to send packets to the neighbour `address`; asks for it when it is not known.
    pub fn lookup(&mut self, now: Instant, address: IpAddr) -> Lookup {
        if let Some(fixed) = self.fixed.iter().find(|f| f.0 == address) {
            return Lookup::Mac(fixed.1);
        }
        let Some(at) = self.find(address).or_else(|| self.make_room(address, true)) else {
            return Lookup::Failed;
        };
        let entry = self.entries[at].get_or_insert_with(|| Entry::new(now, address));
        entry.last_use = Some(now);
        entry.used = true;
        match entry.state {
            State::Incomplete => {
                if entry.deadline.is_none() && !entry.solicit {
                    self.solicit(at);
                }
                Lookup::Resolving
            }
            State::Failed => Lookup::Failed,
            State::Stale => {
                entry.state = State::Delay;
                let mac = entry.mac;
                self.arm(at, now + DELAY_FIRST_PROBE_TIME);
                Lookup::Mac(mac)
            }
            State::Reachable | State::Delay | State::Probe => Lookup::Mac(entry.mac),
        }
    }

    /// An upper layer has had an answer through this neighbour (RFC 4861, section 7.3.1).
    pub fn confirm(&mut self, now: Instant, address: IpAddr, random: &mut Random) {
        if let Some(at) = self.find(address)
            && let Some(entry) = &self.entries[at]
            && matches!(entry.state, State::Reachable | State::Stale | State::Delay | State::Probe)
        {
            self.reach(now, at, random);
        }
    }

    /// An upper layer has had no answer through this neighbour: it is asked.
    pub fn doubt(&mut self, address: IpAddr) {
        if let Some(at) = self.find(address)
            && let Some(entry) = &self.entries[at]
            && matches!(entry.state, State::Reachable | State::Stale | State::Delay)
        {
            self.begin_probe(at);
        }
    }

    /// A packet says that the neighbour `address` has the MAC address `mac`.
    pub fn learn(
        &mut self,
        now: Instant,
        address: IpAddr,
        mac: Address,
        evidence: Evidence,
        random: &mut Random,
    ) -> Learned {
        if self.fixed.iter().any(|f| f.0 == address) {
            return Learned::Nothing;
        }
        let Some(at) = self.find(address) else {
            if evidence != Evidence::Mentioned {
                return Learned::Nothing;
            }
            let Some(at) = self.make_room(address, false) else { return Learned::Full };
            self.entries[at] = Some(Entry { mac, state: State::Stale, ..Entry::new(now, address) });
            return Learned::Nothing;
        };
        let Some(entry) = &mut self.entries[at] else { return Learned::Nothing };
        entry.seen = now;
        let answer = matches!(evidence, Evidence::Answer | Evidence::WeakAnswer);
        match entry.state {
            State::Incomplete | State::Failed => {
                entry.mac = mac;
                entry.state = State::Stale;
                self.unsolicit(at);
                if answer {
                    self.reach(now, at, random);
                } else {
                    self.disarm(at);
                }
                self.changes += 1;
                Learned::Resolved
            }
            _ if entry.mac == mac => {
                if answer && self.was_asked(address) {
                    self.reach(now, at, random);
                }
                Learned::Nothing
            }
            _ if evidence == Evidence::WeakAnswer => Learned::Contested,
            State::Stale if entry.last_use.is_none() && !entry.is_router => {
                entry.mac = mac;
                Learned::Nothing
            }
            State::Probe => Learned::Contested,
            State::Reachable | State::Stale | State::Delay => {
                // Is the old one still there? If not, all are asked, and the new one may answer.
                self.begin_probe(at);
                Learned::Contested
            }
        }
    }

    /// Somebody who knows, as the kernel, says where a neighbour is that was looked for.
    pub fn resolved(&mut self, now: Instant, address: IpAddr, mac: Address, random: &mut Random) {
        let Some(at) = self.find(address) else { return };
        let Some(entry) = &mut self.entries[at] else { return };
        let was_silent = matches!(entry.state, State::Incomplete | State::Failed);
        let moved = core::mem::replace(&mut entry.mac, mac) != mac;
        self.reach(now, at, random);
        self.changes += u64::from(was_silent || moved);
    }

    /// The neighbour says whether it is a router, in a claim that was believed (RFC 4861, section 7.2.5); true when
    /// it was one and is none now. A router in use that says so unasked is asked first, as one that moves is: an
    /// honest one says it again.
    pub fn set_router(&mut self, address: IpAddr, is_router: bool, asked: bool) -> bool {
        let Some(at) = self.find(address) else { return false };
        let Some(entry) = &mut self.entries[at] else { return false };
        let over = entry.is_router && !is_router;
        if over && !asked {
            self.doubt(address);
            return false;
        }
        entry.is_router = is_router;
        over
    }

    /// A question to the neighbour is out, or was and nothing has come of it: what says that it is an answer may be
    /// one.
    pub fn was_asked(&self, address: IpAddr) -> bool {
        self.entry(address).is_some_and(|e| e.solicitations > 0)
    }

    fn reach(&mut self, now: Instant, at: usize, random: &mut Random) {
        self.unsolicit(at);
        let half = self.base_reachable / 2;
        let time = random.between(half, half * 3);
        if let Some(entry) = &mut self.entries[at] {
            entry.state = State::Reachable;
            entry.solicitations = 0;
            entry.seen = now;
        }
        self.arm(at, now + time);
    }

    fn begin_probe(&mut self, at: usize) {
        if let Some(entry) = &mut self.entries[at] {
            entry.state = State::Probe;
            entry.solicitations = 0;
            entry.deadline = None;
        }
        self.solicit(at);
    }

    fn solicit(&mut self, at: usize) {
        if let Some(entry) = &mut self.entries[at]
            && !core::mem::replace(&mut entry.solicit, true)
        {
            self.solicits += 1;
        }
    }

    fn unsolicit(&mut self, at: usize) {
        if let Some(entry) = &mut self.entries[at]
            && core::mem::take(&mut entry.solicit)
        {
            self.solicits -= 1;
        }
    }

    fn arm(&mut self, at: usize, deadline: Instant) {
        let deadline = Instant::from_ns(deadline.as_ns().next_multiple_of(TICK_NS));
        if let Some(entry) = &mut self.entries[at] {
            entry.deadline = Some(deadline);
        }
        self.next = Some(self.next.map_or(deadline, |next| next.min(deadline)));
    }

    fn disarm(&mut self, at: usize) {
        if let Some(entry) = &mut self.entries[at] {
            entry.deadline = None;
        }
    }

    /// A free place for `address`; `wanted` by us, or only offered by a stranger.
    fn make_room(&mut self, address: IpAddr, wanted: bool) -> Option<usize> {
        let set = self.set_of(address);
        if let Some(free) = set.clone().find(|&at| self.entries[at].is_none()) {
            return Some(free);
        }
        let victim = set
            .filter_map(|at| self.entries[at].map(|e| (at, e)))
            .filter(|(_, e)| wanted || e.last_use.is_none())
            .min_by_key(|(_, e)| {
                let silent = matches!(e.state, State::Incomplete | State::Failed);
                (e.last_use.is_some(), !silent, e.is_router, e.last_use, e.seen)
            })?;
        self.unsolicit(victim.0);
        if victim.1.used {
            self.changes += 1;
        }
        self.entries[victim.0] = None;
        Some(victim.0)
    }

    /// The next question to be sent; ask until there is none.
    pub fn poll_solicitation(&mut self, now: Instant) -> Option<Solicitation> {
        if self.solicits == 0 {
            return None;
        }
        let len = self.entries.len();
        let at = (self.cursor..self.cursor + len)
            .map(|at| at % len)
            .find(|&at| self.entries[at].is_some_and(|e| e.solicit))?;
        self.cursor = (at + 1) % len;
        self.unsolicit(at);
        let entry = self.entries[at].as_mut()?;
        entry.solicitations += 1;
        let mac = (entry.state == State::Probe).then_some(entry.mac);
        let address = entry.address;
        self.arm(at, now + self.retrans);
        Some(Solicitation { address, mac })
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        for at in 0..self.entries.len() {
            if self.entries[at].is_some_and(|e| e.deadline.is_some_and(|d| d <= now))
                && self.expire(now, at)
            {
                self.changes += 1;
            }
        }
        self.next = self.entries.iter().flatten().filter_map(|e| e.deadline).min();
    }

    /// A neighbour that was given up since this was last asked.
    pub fn poll_failed(&mut self) -> Option<IpAddr> {
        self.failed.pop()
    }

    /// True when who uses the entry has to ask again.
    fn expire(&mut self, now: Instant, at: usize) -> bool {
        let Some(entry) = &mut self.entries[at] else { return false };
        entry.deadline = None;
        match entry.state {
            State::Reachable => {
                entry.state = State::Stale;
                core::mem::take(&mut entry.used)
            }
            State::Delay => {
                self.begin_probe(at);
                false
            }
            State::Incomplete if entry.solicitations < SOLICITATIONS_MAX => {
                self.solicit(at);
                false
            }
            State::Probe if entry.solicitations < SOLICITATIONS_MAX => {
                self.solicit(at);
                false
            }
            State::Probe => {
                entry.state = State::Incomplete;
                entry.solicitations = 0;
                self.solicit(at);
                true
            }
            State::Incomplete => {
                entry.state = State::Failed;
                entry.solicitations = 0;
                self.failed.push(entry.address);
                self.arm(at, now + FAILED_TIME);
                true
            }
            State::Failed => {
                self.entries[at] = None;
                false
            }
            State::Stale => false,
        }
    }

    /// When something is to be done; now, when a question waits.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.solicits > 0 { Some(Instant::ZERO) } else { self.next }
    }
}

impl Entry {
    fn new(now: Instant, address: IpAddr) -> Entry {
        Entry {
            address,
            mac: Address::default(),
            state: State::Incomplete,
            is_router: false,
            used: false,
            last_use: None,
            seen: now,
            deadline: None,
            solicitations: 0,
            solicit: false,
        }
    }
}
