//! The sender's sessions: who comes, what it is told, and when it has gone. Nothing here waits for anybody.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fusewire_session::{Allow, Fingerprint, Identity, ServerConfig, Settings, Terms};
use fusewire_stack::group::MemberId;
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Config, Connection, Endpoint, Listener};

use super::code;
use super::wire::{self, Keys, TOLD_MAX, Welcome};
use super::{RESENT, TURN};
use crate::Result;
use crate::profile::Profile;

/// Sessions that have not said yet that they are a receiver's; of more the oldest is ended.
const VISITORS_MAX: usize = 64;
/// How long one may not say it.
const VISIT: Duration = Duration::from_secs(5);
/// How long a receiver may not hear the group, or not take what it is told.
const JOINING: Duration = Duration::from_secs(10);
/// So many are told keys in a second: whoever leaves with keys costs an epoch, of which all the others are told.
const ADMITTED_A_SECOND: u32 = 32;
/// Receivers that are admitted at once, at least and at most, after a while in which none came: all of a group may begin together.
const ADMITTED_AT_ONCE: std::ops::RangeInclusive<usize> = 64..=1024;
/// Keys that one may be owed.
const OWED_MAX: usize = 256;

/// A session.
pub(super) struct Session {
    pub connection: Connection,
    pub peer: Fingerprint,
    /// Under which the group's packets know it, once it has said so.
    pub key: Option<u64>,
    /// It was told where the group is.
    is_welcome: bool,
    /// It may be told where the group is, and keys.
    is_admitted: bool,
    /// It was told keys.
    pub knows: bool,
    /// Keys that it is to be told, in this order. Each stays where it is until it is wiped.
    owed: VecDeque<Box<Keys>>,
    /// It was told that nothing more is.
    is_closed: bool,
    /// Its part in the stream of what is sent again.
    pub member: Option<MemberId>,
    /// It is a receiver that hears what is sent, and the application knows.
    pub is_in: bool,
    /// Since when it has not said, or taken, what it should have.
    pub waits: Option<Instant>,
}

/// Settings of the sessions' endpoint, at both ends.
pub(super) fn config() -> Config {
    let transport = transport::Config::of_records(Protocol::default());
    Config { transport, max_adu: Some(TOLD_MAX as u32), ..Config::default() }
}

/// What both ends say in the handshake.
pub(super) fn say<P: Profile>(settings: &mut Settings, terms: Terms) {
    settings.ciphers = P::CIPHERS.to_vec();
    settings.body_len_max = TOLD_MAX as u32;
    settings.idle_timeout = Some(Duration::from_secs(10));
    settings.terms = terms;
}

/// Sessions, and where they come from.
pub(super) struct Door {
    endpoint: Endpoint,
    /// `None` when nobody more is let in.
    listener: Option<Listener>,
    sessions: Vec<Session>,
    receivers_max: usize,
    pub(super) admissions: Admissions,
    pub welcome: Welcome,
}

/// How many may be told keys for the first time.
pub(super) struct Admissions {
    /// As many as may be admitted at once.
    pub at_once: u32,
    pub left: u32,
    /// When that was so many.
    pub since: Instant,
}

impl Admissions {
    /// Time for one more.
    const EACH: Duration = Duration::from_nanos(1_000_000_000 / ADMITTED_A_SECOND as u64);

    /// Creates the admissions of a group with up to `receivers_max` receivers.
    fn new(now: Instant, receivers_max: usize) -> Admissions {
        let (least, most) = ADMITTED_AT_ONCE.into_inner();
        let at_once = receivers_max.clamp(least, most) as u32;
        Admissions { at_once, left: at_once, since: now }
    }

    /// Whether one more may be; if so it is counted.
    fn allows(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let more = (passed.as_nanos() / Self::EACH.as_nanos()).min(self.at_once.into()) as u32;
        self.since += Self::EACH * more;
        self.left = self.left.saturating_add(more);
        if self.left >= self.at_once {
            (self.left, self.since) = (self.at_once, now.max(self.since));
        }
        let is_one = self.left > 0;
        self.left -= u32::from(is_one);
        is_one
    }
}

/// What a look at the sessions has brought.
pub(super) enum Change {
    /// It is a receiver, and hears what is sent from now on.
    Hears(Fingerprint),
    /// It has gone: in order, or not.
    Gone { part: Part, in_order: bool },
}

/// What a session was of the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub peer: Fingerprint,
    pub member: Option<MemberId>,
    pub is_in: bool,
    /// It knows keys.
    pub knows: bool,
}

impl Door {
    pub fn open<P: Profile>(
        local: SocketAddr,
        identity: Arc<Identity>,
        allow: Allow,
        receivers_max: usize,
        welcome: Welcome,
    ) -> Result<Door> {
        let endpoint = Endpoint::new(crate::opening::device::<P>(local)?, config())?;
        let mut server = ServerConfig::new(identity);
        server.allow = allow;
        say::<P>(&mut server.settings, Terms::of(P::CLAUSES));
        let listener = Some(endpoint.listen(server)?);
        let sessions = Vec::with_capacity(receivers_max + VISITORS_MAX);
        let admissions = Admissions::new(Instant::now(), receivers_max);
        Ok(Door { endpoint, listener, sessions, receivers_max, admissions, welcome })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    pub fn session(&mut self, is_it: impl Fn(&Session) -> bool) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| is_it(session))
    }

    /// Ends a session; it was this one's.
    pub fn end(&mut self, is_it: impl Fn(&Session) -> bool, code: u64) -> Option<Session> {
        let at = self.sessions.iter().position(is_it)?;
        let session = self.sessions.swap_remove(at);
        session.connection.close(code);
        Some(session)
    }

    /// Nobody more comes in, and whoever is here is told, with the next look, that all has been said.
    pub fn close(&mut self) {
        self.listener = None;
    }

    /// An epoch has begun: whoever knows the last one's keys is told these before anything is sealed with them, as far as
    /// there is room, and by the next look in any case.
    pub fn owe(&mut self, keys: &Keys) {
        for session in &mut self.sessions {
            if !session.knows {
                session.owed.clear();
                continue;
            }
            session.owed.push_back(Box::new(keys.clone()));
            while let Some(keys) = session.owed.front()
                && let Poll::Ready(Ok(())) = session.connection.try_send(&*keys.emit())
            {
                session.owed.pop_front();
            }
        }
    }

    /// Takes who comes and what they say, and tells them what there is to tell. Who is a receiver
    /// from now on, and who has gone, is handed to `change`.
    pub fn look(&mut self, cx: &mut Context<'_>, keys: &Keys, mut change: impl FnMut(Change)) {
        self.let_in(cx);
        self.admit();
        let mut at = 0;
        while at < self.sessions.len() {
            let heard = self.hear(at, cx);
            let session = &mut self.sessions[at];
            let outcome = match heard {
                Outcome::Hears => {
                    (session.is_in, session.waits) = (true, None);
                    change(Change::Hears(session.peer));
                    Outcome::Stays
                }
                Outcome::Stays if self.listener.is_none() => session.close(cx),
                // The others wait for their turn: who asked the group before that would be refused.
                Outcome::Stays if session.is_admitted => session.tell(cx, &self.welcome, keys),
                heard => heard,
            };
            let in_order = match outcome {
                Outcome::Stays | Outcome::Hears => {
                    at += 1;
                    continue;
                }
                Outcome::Gone { in_order } => in_order,
                Outcome::Ends(code) => {
                    session.connection.close(code);
                    false
                }
            };
            let part = self.sessions.swap_remove(at).part();
            change(Change::Gone { part, in_order });
        }
    }

    /// Who has come. Whoever has not said what it wants makes room for the next.
    fn let_in(&mut self, cx: &mut Context<'_>) {
        let Some(listener) = &self.listener else { return };
        while let Poll::Ready(Ok(connection)) = listener.poll_accept(cx) {
            let visits = |session: &Session| session.key.is_none();
            if self.sessions.iter().filter(|session| visits(session)).count() >= VISITORS_MAX {
                let oldest = self.sessions.iter().enumerate().filter(|(_, one)| visits(one));
                let oldest = oldest.min_by_key(|(_, session)| session.waits).map(|(at, _)| at);
                if let Some(at) = oldest {
                    self.sessions.swap_remove(at).connection.close(code::FULL);
                }
            }
            self.sessions.push(Session {
                peer: connection.peer(),
                connection,
                key: None,
                is_welcome: false,
                is_admitted: false,
                knows: false,
                owed: VecDeque::new(),
                is_closed: false,
                member: None,
                is_in: false,
                waits: Some(Instant::now()),
            });
        }
    }

    /// Who may be told keys now: who asked first. The others wait.
    fn admit(&mut self) {
        let now = Instant::now();
        loop {
            let waiting =
                self.sessions.iter_mut().filter(|one| one.key.is_some() && !one.is_admitted);
            let Some(first) = waiting.min_by_key(|session| session.waits) else { return };
            if !self.admissions.allows(now) {
                return;
            }
            (first.is_admitted, first.waits) = (true, Some(now));
        }
    }

    /// When the next receiver that waits for its turn may be told keys.
    pub fn next_admission(&self) -> Option<Instant> {
        let waits = |one: &Session| one.key.is_some() && !one.is_admitted;
        self.sessions.iter().any(waits).then(|| self.admissions.since + Admissions::EACH)
    }

    /// What a session says: once, that it is a receiver's.
    fn hear(&mut self, at: usize, cx: &mut Context<'_>) -> Outcome {
        let mut message = [0; TOLD_MAX];
        let session = &self.sessions[at];
        let len = match session.connection.poll_recv(cx, &mut message) {
            Poll::Pending => return session.overdue(),
            Poll::Ready(Ok(Some(len))) => len,
            Poll::Ready(Ok(None)) => return Outcome::Gone { in_order: true },
            Poll::Ready(Err(_)) => return Outcome::Gone { in_order: false },
        };
        let is_member = session.member.is_some() || self.welcome.streams[RESENT] == 0;
        if message[..len] == wire::READY && session.knows && is_member && !session.is_in {
            return Outcome::Hears;
        }
        let Some(key) = wire::parse_join(&message[..len]) else {
            return Outcome::Ends(code::WRONG);
        };
        let is_known = self.sessions.iter().any(|other| other.key == Some(key));
        if session.key.is_some() || is_known {
            return Outcome::Ends(code::WRONG);
        }
        if self.sessions.iter().filter(|other| other.key.is_some()).count() >= self.receivers_max {
            return Outcome::Ends(code::FULL);
        }
        let session = &mut self.sessions[at];
        (session.key, session.waits) = (Some(key), Some(Instant::now()));
        Outcome::Stays
    }
}

/// What became of a session.
enum Outcome {
    Stays,
    /// It hears both streams.
    Hears,
    /// It has ended.
    Gone {
        in_order: bool,
    },
    /// It is to be ended, with this code.
    Ends(u64),
}

impl Session {
    /// Whether it has let us wait for too long.
    fn overdue(&self) -> Outcome {
        let (most, code) = match self.key {
            None => (VISIT, code::WRONG),
            // Its turn has not come: it does not wait any more itself.
            Some(_) if !self.is_admitted => (TURN, code::LET_GO),
            Some(_) => (JOINING, code::LET_GO),
        };
        match self.waits {
            _ if self.owed.len() > OWED_MAX => Outcome::Ends(code::LET_GO),
            Some(since) if since.elapsed() > most => Outcome::Ends(code),
            _ => Outcome::Stays,
        }
    }

    /// Tells a receiver where the group is, and the keys of now.
    fn tell(&mut self, cx: &mut Context<'_>, welcome: &Welcome, keys: &Keys) -> Outcome {
        if !self.is_welcome {
            match self.connection.poll_send(cx, &welcome.emit()) {
                Poll::Pending => return Outcome::Stays,
                Poll::Ready(Ok(())) => self.is_welcome = true,
                Poll::Ready(Err(_)) => return Outcome::Gone { in_order: false },
            }
        }
        if !self.knows && self.owed.is_empty() {
            self.owed.push_back(Box::new(keys.clone()));
        }
        self.pay(cx)
    }

    /// Tells the keys that it is owed. Who does not take them for too long has gone.
    fn pay(&mut self, cx: &mut Context<'_>) -> Outcome {
        while let Some(keys) = self.owed.front() {
            match self.connection.poll_send(cx, &*keys.emit()) {
                Poll::Pending => {
                    self.waits.get_or_insert_with(Instant::now);
                    return Outcome::Stays;
                }
                Poll::Ready(Ok(())) => self.knows = true,
                Poll::Ready(Err(_)) => return Outcome::Gone { in_order: false },
            }
            self.owed.pop_front();
        }
        if self.is_in {
            self.waits = None;
        }
        Outcome::Stays
    }

    /// Says that all has been said, once it has.
    fn close(&mut self, cx: &mut Context<'_>) -> Outcome {
        let outcome = if self.knows { self.pay(cx) } else { Outcome::Stays };
        if matches!(outcome, Outcome::Stays)
            && (!self.knows || self.owed.is_empty())
            && !self.is_closed
        {
            self.is_closed = true;
            self.connection.finish_sending();
        }
        outcome
    }

    /// What it is of the group.
    pub fn part(&self) -> Part {
        let Session { peer, member, is_in, knows, .. } = *self;
        Part { peer, member, is_in, knows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many at once, then so many a second, and never more after however long a pause.
    #[test]
    fn so_many_are_admitted_at_once_and_so_many_a_second() {
        let mut now = Instant::now();
        let mut admissions = Admissions::new(now, 500);
        let mut admitted = |now| (0..1000).take_while(|_| admissions.allows(now)).count() as u32;
        assert_eq!(admitted(now), 500);
        for _ in 0..3 {
            let mut in_a_second = 0;
            for _ in 0..1000 {
                now += Duration::from_millis(1);
                in_a_second += admitted(now);
            }
            assert_eq!(in_a_second, ADMITTED_A_SECOND);
        }
        for pause in [16, 20, 3600] {
            now += Duration::from_secs(pause);
            assert_eq!(admitted(now), 500, "after {pause} s");
            assert_eq!(admitted(now), 0);
        }
    }
}
