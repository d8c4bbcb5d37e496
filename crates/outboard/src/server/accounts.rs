//! What users have of an outboard, against what each may have ([`Budget`]), and what came of it.
//!
//! | of what | who has all of it | counted as |
//! |---|---|---|
//! | sockets | `EMFILE` for a new one; connections wait at his listeners | `outboard_sockets_refused` |
//! | free ports and services, which are for all users | half of them: `EMFILE` for a new socket, `ENOBUFS` for a bind | `outboard_sockets_refused` |
//! | ports of connections that were bound to none | not bounded: those towards one address and port can be all his | |
//! | control connections | the next one ends | `outboard_controls_refused` |
//! | bytes that wait | `ENOBUFS` for a new socket; his writers wait until some are gone: `EAGAIN`; windows close, datagrams are dropped | `outboard_memory_refused`, `outboard_writers_held` |
//! | packets a second | his writers wait until the next is due: `EAGAIN` | `outboard_writers_held` |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_base::Instant;
use rustix::io::Errno;

use crate::protocol::Kind;

/// Where none is named all users share 16,384 of each kind: ports of TCP sockets that are bound, and of UDP, and services of XTP. Of
/// each a user has half. A connection that was bound to nothing takes a port for its peer alone, which is not counted: those
/// that are over take theirs a while, and nobody's account has them any more.
const SHARED_MAX: usize = 8192;
/// Part of a second whose packets may leave at once.
const BURST: u64 = 20;
/// Connections that may wait at a listener, however many may at others of its user.
const BACKLOG_MIN: usize = 64;
/// Sockets that there are at most, and contexts of XTP at an address: each takes some 24 bytes from the beginning.
const ENTRIES_MAX: usize = 1 << 20;
/// And at least.
const ENTRIES_MIN: usize = 1 << 16;
/// Packets that may whatever the rate is.
const BURST_MIN: u64 = 64;

/// What a user may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Sockets.
    pub sockets: usize,
    /// Control connections.
    pub connections: usize,
    /// Bytes that wait: sent and not acknowledged, received and not read, in the stack and in placeholders; and memory that is kept
    /// for more than what every socket has.
    pub bytes: u64,
    /// Segments and datagrams a second that his sockets send, whatever their length; none: as many as there is room for.
    pub packets: Option<u64>,
    /// Processes of his that share memory with the outboard, each 16 MiB, in which wide rings count as bytes that wait, too.
    pub regions: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { sockets: 16_384, connections: 256, bytes: 1 << 30, packets: None, regions: 32 }
    }
}

impl Budget {
    /// Connections that may wait at all of a user's listeners.
    fn backlog(&self) -> usize {
        self.sockets.max(BACKLOG_MIN).saturating_mul(2)
    }

    /// Sockets of all users that a stack is to have room for (`ip::Config::max_sockets`), and contexts of XTP at an address: twice
    /// as many as one user has by his sockets, by those that he has closed, and by those that wait to be accepted; 65,536 at least,
    /// for many users who may have few each, and 1,048,576 at most.
    pub fn entries(&self) -> usize {
        let of_one = self.sockets.saturating_mul(2).saturating_add(self.backlog());
        of_one.saturating_mul(2).clamp(ENTRIES_MIN, ENTRIES_MAX)
    }
}

/// How often a budget was full.
#[derive(Debug, Default)]
pub struct Refused {
    sockets: AtomicU64,
    controls: AtomicU64,
    memory: AtomicU64,
    writers: AtomicU64,
}

impl Refused {
    /// As views name them.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("outboard_sockets_refused", &self.sockets),
            ("outboard_controls_refused", &self.controls),
            ("outboard_memory_refused", &self.memory),
            ("outboard_writers_held", &self.writers),
        ];
        all.map(|(name, count)| (name, count.load(Ordering::Relaxed))).to_vec()
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A user's account.
#[derive(Default)]
struct Account {
    sockets: usize,
    /// Of them those for datagrams.
    datagrams: usize,
    /// TCP sockets that are bound, and those of XTP.
    ports: usize,
    services: usize,
    /// Connections of closed sockets that have not ended.
    closed: usize,
    /// Connections that may wait at his listeners.
    backlog: usize,
    controls: usize,
    bytes: u64,
    /// Packets that may leave, below 0 when a turn has sent more.
    tokens: i64,
    filled_at: Instant,
    /// Sockets that have something to send, and may not.
    held: Vec<u32>,
    /// He is among those who have all.
    is_full: bool,
}

impl Account {
    /// What he has of that which sockets of a kind share with other users': one for datagrams takes it as soon as it is made,
    /// others when they are bound. A context that calls or was called takes none.
    fn shared(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Stream => &mut self.ports,
            Kind::Datagram => &mut self.datagrams,
            Kind::Messages => &mut self.services,
        }
    }

    fn is_empty(&self) -> bool {
        self.sockets == 0 && self.controls == 0 && self.closed == 0
    }

    fn fill(&mut self, rate: u64, now: Instant) {
        let burst = (rate / BURST).max(BURST_MIN) as i64;
        let passed = now.saturating_since(self.filled_at).as_micros().min(10_000_000) as u64;
        let new = (passed * rate / 1_000_000) as i64;
        // What is less than a packet counts the next time.
        if new > 0 {
            self.tokens = (self.tokens + new).min(burst);
            self.filled_at = now;
        }
    }

    fn may_send(&mut self, budget: &Budget, now: Instant) -> bool {
        if self.bytes >= budget.bytes {
            return false;
        }
        let Some(rate) = budget.packets else { return true };
        self.fill(rate, now);
        self.tokens > 0
    }
}

/// What a socket was last charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Bytes that it has waiting.
    pub bytes: u64,
    /// Packets that it has sent, of all time.
    pub packets: u64,
}

/// The accounts of all users.
pub struct Accounts {
    budget: Budget,
    users: BTreeMap<u32, Account>,
    /// Users who have all that they may have, as far as is known: what is acknowledged meanwhile nobody says.
    full: Vec<u32>,
    refused: Arc<Refused>,
}

impl Accounts {
    /// Each may have so much.
    pub fn new(budget: Budget) -> Accounts {
        Accounts { budget, users: BTreeMap::new(), full: Vec::new(), refused: Arc::default() }
    }

    /// Processes of a user that may share memory with the outboard.
    pub fn regions(&self) -> usize {
        self.budget.regions
    }

    /// How often one of them had all that he may have.
    pub fn refused(&self) -> &Arc<Refused> {
        &self.refused
    }

    /// A user may have another socket of this kind.
    ///
    /// # Errors
    /// `EMFILE`, `ENOBUFS`.
    pub fn admit_socket(&mut self, uid: u32, kind: Kind) -> Result<(), Errno> {
        self.admits_socket(uid, kind).inspect_err(|error| {
            let refused = &self.refused;
            count(if *error == Errno::MFILE { &refused.sockets } else { &refused.memory });
        })
    }

    fn admits_socket(&self, uid: u32, kind: Kind) -> Result<(), Errno> {
        let Some(account) = self.users.get(&uid) else { return Ok(()) };
        let has_half = kind == Kind::Datagram && account.datagrams >= SHARED_MAX;
        if has_half || account.sockets >= self.budget.sockets {
            return Err(Errno::MFILE);
        }
        if account.bytes >= self.budget.bytes {
            return Err(Errno::NOBUFS);
        }
        Ok(())
    }

    /// A user may have a socket for what waits at a listener of his. `is_refused`, which stays with the listener, says that he
    /// may not: that is counted once, however often it is tried again.
    pub fn admit_waiting(&mut self, uid: u32, kind: Kind, is_refused: &mut bool) -> bool {
        let admitted = match *is_refused {
            true => self.admits_socket(uid, kind),
            false => self.admit_socket(uid, kind),
        };
        *is_refused = admitted.is_err();
        admitted.is_ok()
    }

    /// He has it.
    pub fn add_socket(&mut self, uid: u32, kind: Kind, now: Instant) {
        let account = self.account(uid, now);
        account.sockets += 1;
        account.datagrams += usize::from(kind == Kind::Datagram);
    }

    /// A socket of his for connections of this kind may be bound.
    ///
    /// # Errors
    /// `ENOBUFS`.
    pub fn admit_bound(&mut self, uid: u32, kind: Kind) -> Result<(), Errno> {
        if self.users.get_mut(&uid).is_some_and(|account| *account.shared(kind) >= SHARED_MAX) {
            count(&self.refused.sockets);
            return Err(Errno::NOBUFS);
        }
        Ok(())
    }

    /// It is.
    pub fn add_bound(&mut self, uid: u32, kind: Kind, now: Instant) {
        *self.account(uid, now).shared(kind) += 1;
    }

    /// It is no more.
    pub fn remove_bound(&mut self, uid: u32, kind: Kind) {
        if let Some(account) = self.users.get_mut(&uid) {
            let shared = account.shared(kind);
            *shared = shared.saturating_sub(1);
        }
    }

    fn account(&mut self, uid: u32, now: Instant) -> &mut Account {
        self.users.entry(uid).or_insert_with(|| Account { filled_at: now, ..Account::default() })
    }

    /// A socket of his is gone, with what it was charged for.
    pub fn remove_socket(&mut self, uid: u32, kind: Kind, charged: &Charged) {
        if let Some(account) = self.users.get_mut(&uid) {
            account.sockets = account.sockets.saturating_sub(1);
            let datagrams = usize::from(kind == Kind::Datagram);
            account.datagrams = account.datagrams.saturating_sub(datagrams);
            account.bytes = account.bytes.saturating_sub(charged.bytes);
            self.drop_empty(uid);
        }
    }

    /// He may have another connection that ends when its peer does.
    pub fn admits_closed(&self, uid: u32) -> bool {
        self.users.get(&uid).is_none_or(|account| account.closed < self.budget.sockets)
    }

    /// He has it, with so many bytes.
    pub fn add_closed(&mut self, uid: u32, bytes: u64, now: Instant) {
        self.account(uid, now).closed += 1;
        self.charge_closed(uid, 0, Some(bytes));
    }

    /// One of which he was charged for `before` bytes has `bytes` now; `None`: it is over.
    pub fn charge_closed(&mut self, uid: u32, before: u64, bytes: Option<u64>) {
        let Some(account) = self.users.get_mut(&uid) else { return };
        account.bytes = (account.bytes + bytes.unwrap_or(0)).saturating_sub(before);
        if account.bytes >= self.budget.bytes {
            list(&mut self.full, uid, account);
        }
        if bytes.is_none() {
            account.closed = account.closed.saturating_sub(1);
            self.drop_empty(uid);
        }
    }

    /// How many connections may wait at a listener of his who wants so many.
    ///
    /// # Errors
    /// `ENOBUFS`: twice as many as he may have sockets may already.
    pub fn add_backlog(&mut self, uid: u32, wanted: usize, now: Instant) -> Result<usize, Errno> {
        let Budget { sockets, .. } = self.budget;
        let most = self.budget.backlog();
        let account = self.account(uid, now);
        let granted = wanted.min(sockets.saturating_sub(account.backlog).max(BACKLOG_MIN));
        if account.backlog + granted > most {
            return Err(Errno::NOBUFS);
        }
        account.backlog += granted;
        Ok(granted)
    }

    /// A listener is gone at which so many might wait.
    pub fn remove_backlog(&mut self, uid: u32, granted: usize) {
        if let Some(account) = self.users.get_mut(&uid) {
            account.backlog = account.backlog.saturating_sub(granted);
        }
    }

    /// So many bytes of memory may be kept for him, whether something waits in them or not: together with what he has up to half
    /// of the budget. The other half is for what comes and goes.
    pub fn admits_reserved(&self, uid: u32, bytes: u64) -> bool {
        let has = self.users.get(&uid).map_or(0, |account| account.bytes);
        has.saturating_add(bytes) <= self.budget.bytes / 2
    }

    /// He has as many bytes waiting as he may have.
    pub fn is_over(&self, uid: u32) -> bool {
        self.users.get(&uid).is_some_and(|account| account.bytes >= self.budget.bytes)
    }

    /// A user has another control connection, if he may.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn add_control(&mut self, uid: u32, now: Instant) -> Result<(), Errno> {
        let most = self.budget.connections;
        let account = self.account(uid, now);
        if account.controls >= most {
            count(&self.refused.controls);
            return Err(Errno::MFILE);
        }
        account.controls += 1;
        Ok(())
    }

    /// Three quarters of his control connections are used.
    pub fn is_short_of_controls(&self, uid: u32) -> bool {
        let used = self.users.get(&uid).map_or(0, |account| account.controls);
        used.saturating_mul(4) >= self.budget.connections.saturating_mul(3)
    }

    /// It is gone.
    pub fn remove_control(&mut self, uid: u32) {
        if let Some(account) = self.users.get_mut(&uid) {
            account.controls = account.controls.saturating_sub(1);
            self.drop_empty(uid);
        }
    }

    fn drop_empty(&mut self, uid: u32) {
        if self.users.get(&uid).is_some_and(Account::is_empty) {
            self.users.remove(&uid);
        }
    }

    /// His sockets may send now.
    pub fn may_send(&mut self, uid: u32, now: Instant) -> bool {
        let budget = self.budget;
        self.account(uid, now).may_send(&budget, now)
    }

    /// He may begin another connection: his packets of the last second are not all owed yet.
    pub fn may_connect(&mut self, uid: u32, now: Instant) -> bool {
        let Some(rate) = self.budget.packets else { return true };
        let account = self.account(uid, now);
        account.fill(rate, now);
        account.tokens > -(rate.min(i64::MAX as u64) as i64)
    }

    /// The socket at `index` has something to send, and its user may not.
    pub fn hold(&mut self, uid: u32, index: u32) {
        let Some(account) = self.users.get_mut(&uid) else { return };
        if !account.held.contains(&index) {
            count(&self.refused.writers);
            account.held.push(index);
            list(&mut self.full, uid, account);
        }
    }

    /// Somebody has all that he may have.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// This user has.
    pub fn has_all(&self, uid: u32) -> bool {
        self.users.get(&uid).is_some_and(|account| account.is_full)
    }

    /// Sockets that may send again. True: somebody has not all any more.
    pub fn release(&mut self, now: Instant, mut each: impl FnMut(u32)) -> bool {
        let Accounts { budget, users, full, .. } = self;
        let before = full.len();
        full.retain(|uid| {
            let Some(account) = users.get_mut(uid) else { return false };
            account.is_full = !account.may_send(budget, now);
            if !account.is_full {
                account.held.drain(..).for_each(&mut each);
            }
            account.is_full
        });
        full.len() < before
    }

    /// What a socket has and has sent is now `now_has`, after `before`.
    pub fn charge(&mut self, uid: u32, before: &Charged, now_has: &Charged) {
        let Some(account) = self.users.get_mut(&uid) else { return };
        account.bytes = (account.bytes + now_has.bytes).saturating_sub(before.bytes);
        if account.bytes >= self.budget.bytes {
            list(&mut self.full, uid, account);
        }
        if self.budget.packets.is_some() {
            account.tokens -= now_has.packets.saturating_sub(before.packets) as i64;
        }
    }
}

/// Puts a user on the list of those who have all.
fn list(full: &mut Vec<u32>, uid: u32, account: &mut Account) {
    if !std::mem::replace(&mut account.is_full, true) {
        full.push(uid);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn sockets_and_memory_are_refused_when_they_are_all_there() {
        let mut accounts = Accounts::new(Budget { sockets: 2, bytes: 100, ..Budget::default() });
        let (none, some) = (Charged::default(), Charged { bytes: 100, packets: 0 });
        accounts.admit_socket(7, Kind::Stream).unwrap();
        accounts.add_socket(7, Kind::Stream, ms(0));
        accounts.charge(7, &none, &some);
        assert_eq!(accounts.admit_socket(7, Kind::Stream), Err(Errno::NOBUFS));
        assert!(!accounts.may_send(7, ms(0)) && accounts.may_send(8, ms(0)));
        accounts.charge(7, &some, &Charged { bytes: 99, packets: 0 });
        accounts.admit_socket(7, Kind::Stream).unwrap();
        accounts.add_socket(7, Kind::Stream, ms(0));
        assert_eq!(accounts.admit_socket(7, Kind::Stream), Err(Errno::MFILE));
        accounts.remove_socket(7, Kind::Stream, &Charged { bytes: 99, packets: 0 });
        accounts.admit_socket(7, Kind::Stream).unwrap();
        let refused = accounts.refused().named();
        assert_eq!(refused[0], ("outboard_sockets_refused", 1));
        assert_eq!(refused[2], ("outboard_memory_refused", 1));
    }

    #[test]
    fn of_what_is_shared_with_others_a_user_has_half() {
        let mut accounts = Accounts::new(Budget::default());
        let none = Charged::default();
        for _ in 0..SHARED_MAX {
            accounts.admit_socket(7, Kind::Datagram).unwrap();
            accounts.add_socket(7, Kind::Datagram, ms(0));
        }
        assert_eq!(accounts.admit_socket(7, Kind::Datagram), Err(Errno::MFILE));
        accounts.admit_socket(8, Kind::Datagram).unwrap();
        accounts.remove_socket(7, Kind::Datagram, &none);
        accounts.admit_socket(7, Kind::Datagram).unwrap();
        for kind in [Kind::Stream, Kind::Messages] {
            for _ in 0..SHARED_MAX {
                accounts.admit_bound(7, kind).unwrap();
                accounts.add_bound(7, kind, ms(0));
            }
            assert_eq!(accounts.admit_bound(7, kind), Err(Errno::NOBUFS));
            accounts.admit_bound(8, kind).unwrap();
            // Those that are bound to nothing take nothing of it.
            accounts.admit_socket(7, kind).unwrap();
            accounts.add_socket(7, kind, ms(0));
            accounts.remove_socket(7, kind, &none);
            assert_eq!(accounts.admit_bound(7, kind), Err(Errno::NOBUFS));
            accounts.remove_bound(7, kind);
            accounts.admit_bound(7, kind).unwrap();
        }
    }

    #[test]
    fn all_contexts_of_a_user_are_no_more_than_half_of_an_address() {
        for sockets in [1, 100, Budget::default().sockets, 2 * Budget::default().sockets] {
            let budget = Budget { sockets, ..Budget::default() };
            let (mut accounts, mut all) = (Accounts::new(budget), 0);
            while accounts.admit_socket(7, Kind::Messages).is_ok() {
                accounts.add_socket(7, Kind::Messages, ms(0));
                all += 1;
            }
            while accounts.admits_closed(7) {
                accounts.add_closed(7, 0, ms(0));
                all += 1;
            }
            while let Ok(granted) = accounts.add_backlog(7, 4096, ms(0)) {
                all += granted;
            }
            assert!(2 * all <= budget.entries(), "{all} of {}", budget.entries());
        }
        let budget = Budget { sockets: usize::MAX, ..Budget::default() };
        assert_eq!(budget.entries(), ENTRIES_MAX);
    }

    #[test]
    fn what_waits_at_a_listener_for_a_socket_is_counted_once() {
        let mut accounts = Accounts::new(Budget { sockets: 1, ..Budget::default() });
        accounts.add_socket(7, Kind::Stream, ms(0));
        let mut is_refused = false;
        for _ in 0..10 {
            assert!(!accounts.admit_waiting(7, Kind::Stream, &mut is_refused) && is_refused);
        }
        assert_eq!(accounts.refused().named()[0].1, 1);
        accounts.remove_socket(7, Kind::Stream, &Charged::default());
        assert!(accounts.admit_waiting(7, Kind::Stream, &mut is_refused) && !is_refused);
    }

    #[test]
    fn what_waits_for_peers_and_at_listeners_has_a_bound() {
        let mut accounts = Accounts::new(Budget { sockets: 100, bytes: 100, ..Budget::default() });
        for _ in 0..100 {
            assert!(accounts.admits_closed(7));
            accounts.add_closed(7, 1, ms(0));
        }
        assert!(!accounts.admits_closed(7) && accounts.admits_closed(8));
        assert!(accounts.is_over(7) && accounts.has_all(7));
        accounts.charge_closed(7, 1, Some(0));
        assert!(!accounts.is_over(7) && !accounts.admits_closed(7));
        accounts.charge_closed(7, 1, None);
        assert!(accounts.admits_closed(7));
        let granted = [90, 90, 1].map(|wanted| accounts.add_backlog(7, wanted, ms(0)));
        assert_eq!(granted, [Ok(90), Ok(64), Ok(1)]);
        assert_eq!(accounts.add_backlog(7, 90, ms(0)), Err(Errno::NOBUFS));
        accounts.remove_backlog(7, 90);
        assert_eq!(accounts.add_backlog(7, 10, ms(0)), Ok(10));
    }

    #[test]
    fn memory_that_is_kept_leaves_half_to_what_waits() {
        let mut accounts = Accounts::new(Budget { bytes: 100, ..Budget::default() });
        accounts.add_socket(7, Kind::Datagram, ms(0));
        let (mut charged, mut kept) = (Charged::default(), 0);
        while accounts.admits_reserved(7, 7) {
            let before = charged;
            kept += 7;
            charged.bytes = kept;
            accounts.charge(7, &before, &charged);
        }
        assert_eq!(kept, 49);
        let waits = Charged { bytes: kept + 50, ..charged };
        accounts.charge(7, &charged, &waits);
        assert!(!accounts.is_over(7) && !accounts.admits_reserved(7, 1));
        accounts.charge(7, &waits, &charged);
        assert!(accounts.admits_reserved(7, 1));
    }

    #[test]
    fn packets_leave_at_their_rate_and_who_is_held_is_freed() {
        let mut accounts = Accounts::new(Budget { packets: Some(1000), ..Budget::default() });
        accounts.add_socket(7, Kind::Stream, ms(0));
        let (mut sent, mut freed) = (Charged::default(), 0);
        for at in 0..10_000 {
            accounts.release(ms(at), |index| {
                assert_eq!(index, 3);
                freed += 1;
            });
            while accounts.may_send(7, ms(at)) {
                let before = sent;
                sent.packets += 10;
                accounts.charge(7, &before, &sent);
            }
            accounts.hold(7, 3);
            accounts.hold(7, 3);
        }
        assert!((9_900..=10_100).contains(&sent.packets), "{}", sent.packets);
        assert!(freed > 900, "{freed}");
        accounts.remove_socket(7, Kind::Stream, &sent);
        accounts.release(ms(20_000), |_| panic!("of a user who has nothing"));
        assert!(!accounts.is_full());
    }
}
