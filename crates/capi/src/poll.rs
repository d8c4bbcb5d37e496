//! Waiting for several sockets and connections.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_stack::ip::Interest;

use crate::adu::Adus;
use crate::contexts::Contextual;
use crate::errno::Result;
use crate::open::Opened;
use crate::outboard::{self, Awaited};
use crate::socket::{Socket, View};
use crate::table::{self, Entry};

/// What is asked of a descriptor, and what is the case: `struct pollfd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

/// Told whether asked for or not.
const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
/// How long sockets of one stack are waited for, when there are others, connections that carry ADUs, or contexts.
const TURN: Duration = Duration::from_millis(1);

/// What a descriptor stands for: a socket, as it was when the call began, what carries ADUs, or contexts.
enum Polled {
    Socket(Arc<Socket>, View),
    Adus(Arc<Adus>),
    Contexts(Arc<Contextual>),
    Outboard(Arc<outboard::Socket>),
}

impl Polled {
    fn of(asked: &Asked) -> Option<Polled> {
        match table::entry(asked.fd).ok()? {
            Entry::Socket(socket) => {
                let view = socket.view();
                Some(Polled::Socket(socket, view))
            }
            Entry::Adus(adus) => Some(Polled::Adus(adus)),
            Entry::Contexts(contexts) => Some(Polled::Contexts(contexts)),
            Entry::Outboard(socket) => Some(Polled::Outboard(socket)),
            Entry::Stack(_) | Entry::Epoll(_) => None,
        }
    }
}

/// Waits until something is the case with one of them; returns with how many. `None`: for ever.
pub fn poll(asked: &mut [Asked], timeout: Option<Duration>) -> Result<usize> {
    let begin = Instant::now();
    let sockets: Vec<_> = asked.iter().map(Polled::of).collect();
    let mut stacks: Vec<Arc<Opened>> = Vec::new();
    let (mut adus, mut outboards) = (false, false);
    let mut contexts: Vec<Arc<Contextual>> = Vec::new();
    for polled in sockets.iter().flatten() {
        match polled {
            Polled::Adus(_) => adus = true,
            Polled::Contexts(one) if !contexts.iter().any(|known| known.is_beside(one)) => {
                contexts.push(one.clone());
            }
            Polled::Contexts(_) => {}
            Polled::Socket(socket, _)
                if !stacks.iter().any(|known| Arc::ptr_eq(known, socket.opened())) =>
            {
                stacks.push(socket.opened().clone());
            }
            Polled::Socket(..) => {}
            Polled::Outboard(_) => outboards = true,
        }
    }
    let mut unknown = 0;
    for (one, socket) in asked.iter_mut().zip(&sockets) {
        // A negative descriptor asks nothing.
        let invalid = socket.is_none() && one.fd >= 0;
        one.revents = if invalid { libc::POLLNVAL } else { 0 };
        unknown += usize::from(invalid);
    }
    let timeout = if unknown > 0 { Some(Duration::ZERO) } else { timeout };
    // Nobody tells of these but when they are looked at.
    let looks = adus || !contexts.is_empty();
    // The kernel tells of those of outboards, which are all there are, or are looked at beside.
    let asleep = outboards && stacks.is_empty() && !looks;
    let looks = looks || outboards;
    if stacks.is_empty() && !looks && unknown == 0 {
        match timeout {
            Some(timeout) => std::thread::sleep(timeout),
            None => loop {
                std::thread::park();
            },
        }
        return Ok(0);
    }
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let mut ready = unknown + look(asked, &sockets)?;
        if outboards {
            let limit = if ready > 0 || !asleep { Some(Duration::ZERO) } else { left };
            ready += wait_outboard(asked, &sockets, limit)?;
        }
        for stack in &stacks {
            let turn = match stacks.len() {
                1 if !looks => left,
                _ => Some(left.map_or(TURN, |left| left.min(TURN))),
            };
            let turn = if ready > 0 { Some(Duration::ZERO) } else { turn };
            ready += wait(stack, asked, &sockets, turn)?;
        }
        if ready > 0 || left == Some(Duration::ZERO) {
            return Ok(ready);
        }
        match &contexts[..] {
            [one] if stacks.is_empty() && !adus && !outboards => one.sleep(left)?,
            _ if asleep => {}
            _ if stacks.is_empty() => std::thread::sleep(left.map_or(TURN, |left| left.min(TURN))),
            _ => {}
        }
    }
}

/// Looks at what carries ADUs, and at contexts; how many of them are ready.
fn look(asked: &mut [Asked], polled: &[Option<Polled>]) -> Result<usize> {
    let mut ready = 0;
    for (one, polled) in asked.iter_mut().zip(polled) {
        let is = match polled {
            Some(Polled::Adus(adus)) => adus.poll(),
            Some(Polled::Contexts(contexts)) => contexts.poll()?,
            _ => continue,
        };
        one.revents = is & (one.events | ALWAYS);
        ready += usize::from(one.revents != 0);
    }
    Ok(ready)
}

/// Waits for the sockets of outboards.
fn wait_outboard(
    asked: &mut [Asked],
    polled: &[Option<Polled>],
    timeout: Option<Duration>,
) -> Result<usize> {
    let (mut places, mut all) = (Vec::new(), Vec::new());
    for (at, (one, polled)) in asked.iter().zip(polled).enumerate() {
        if let Some(Polled::Outboard(socket)) = polled {
            places.push(at);
            all.push(Awaited { socket, wanted: one.events, is: 0 });
        }
    }
    let ready = outboard::wait_for(&mut all, timeout)?;
    let told = places.iter().zip(&all).map(|(at, one)| (*at, one.is));
    told.for_each(|(at, is)| asked[at].revents = is);
    Ok(ready)
}

/// Waits for the sockets of one stack.
fn wait(
    opened: &Arc<Opened>,
    asked: &mut [Asked],
    sockets: &[Option<Polled>],
    timeout: Option<Duration>,
) -> Result<usize> {
    let ours = |one: &'_ Polled| match one {
        Polled::Socket(socket, view) if Arc::ptr_eq(socket.opened(), opened) => {
            Some((socket.clone(), *view))
        }
        _ => None,
    };
    let mut on = Vec::new();
    for id in sockets.iter().flatten().filter_map(ours).filter_map(|(_, view)| view.id) {
        on.extend([(id, Interest::Read), (id, Interest::Write)]);
    }
    let ready = opened.host().wait_any(&on, timeout, |stack, _| {
        let mut ready = 0;
        for (one, socket) in asked.iter_mut().zip(sockets) {
            let Some((socket, view)) = socket.as_ref().and_then(ours) else { continue };
            one.revents = socket.poll(stack, view) & (one.events | ALWAYS);
            ready += usize::from(one.revents != 0);
        }
        Ok((ready > 0).then_some(ready))
    })?;
    Ok(ready.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_ready_and_strangers_are_named() {
        let nobody = Asked { fd: -1, events: libc::POLLIN, revents: 7 };
        let stranger = Asked { fd: 60_000, events: libc::POLLIN, revents: 0 };
        let mut asked = [nobody, stranger];
        assert_eq!(poll(&mut asked, None), Ok(1));
        assert_eq!((asked[0].revents, asked[1].revents), (0, libc::POLLNVAL));
        assert_eq!(poll(&mut asked[..1], Some(Duration::from_millis(1))), Ok(0));
    }
}
