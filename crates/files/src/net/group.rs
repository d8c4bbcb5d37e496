//! A cast over XTP's reliable multicast: the sender's loop and a member's, each in the thread that calls it.

use crate::cast::{
    Board, Caster, Catcher, Hearing, Mail, MemberId, OpeningChannel, SealingChannel, Sending,
    Standing,
};
use crate::channel::{ChannelError, Received};
use crate::server::Share;
use crate::{Error, RemotePath, Scratch};
use fusewire_device::Device;
use fusewire_session::DataPass;
use fusewire_stack::Clock;
use fusewire_stack::group::{self, Heard, Leaving, MemberInfo, Reason, ReceiverEvent, SenderEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a loop sleeps at most before it looks whether others have news, or the user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while hashes may come that files wait for.
const NEWS_EVERY: Duration = Duration::from_millis(2);
/// A longest message: whole pages of contents, and what stands around them.
const MESSAGE_LEN_MAX: usize = (64 << 10) + 128;

/// The sender of a group, whatever carries it.
pub type Sender = group::Sender<Box<dyn Device>>;
/// A receiver, likewise.
pub type Receiver = group::Receiver<Box<dyn Device>>;

impl Sending for Sender {
    fn message_len_max(&self) -> usize {
        self.max_message().min(MESSAGE_LEN_MAX)
    }

    fn room(&mut self) -> usize {
        Sender::room(self)
    }

    fn send(&mut self, len: usize, write: &mut dyn FnMut(&mut [u8])) -> Result<bool, ChannelError> {
        let taken = Sender::send(self, len, |_, memory| write(memory));
        Ok(taken.map_err(|error| ChannelError { reason: error.to_string() })?.is_some())
    }
}

/// A member's ear.
struct Ear {
    receiver: Receiver,
    /// Nothing more comes: all has, or why not.
    over: Option<Result<(), String>>,
}

impl Hearing for Ear {
    fn recv(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<Received, ChannelError> {
        if let Some(len) = self.receiver.recv(|_, message| {
            take(message);
            message.len()
        }) {
            return Ok(Received::Adu { len });
        }
        match &self.over {
            None => Ok(Received::Nothing),
            Some(Ok(())) => Ok(Received::Finished),
            Some(Err(why)) => Err(ChannelError { reason: why.clone() }),
        }
    }
}

/// When the sender begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// When so many are members.
    pub members: usize,
    /// Or when so much time has passed, whoever is.
    pub after: Option<Duration>,
}

/// How far a cast is.
#[derive(Clone, Debug)]
pub struct CastProgress {
    /// It has begun.
    pub has_begun: bool,
    /// Bytes of contents that the group was sent.
    pub bytes_sent: u64,
    /// Of these, bytes that lie in holes, which cost nothing to send.
    pub bytes_holes: u64,
    /// Who is a member or was one, what the group's packets say of it, and why it left the group.
    pub members: Vec<(MemberId, Standing, Option<MemberInfo>, Option<Leaving>)>,
    /// Files that could not be read as they were listed, since the last time.
    pub failed: Vec<Arc<(RemotePath, String)>>,
}

/// How a cast ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastEnd {
    /// The group was sent everything, and every member has told what it has or is gone.
    Complete,
    /// The user wanted it so.
    Stopped,
    /// Nobody was there when it was time to begin.
    Nobody,
}

/// Casts what `board` casts of `share`, until all members have told what they have. Their sessions are somebody else's to
/// serve meanwhile; the group has a packet for each with a session that asks. `progress` is told now and then.
///
/// # Errors
/// The network, or a cipher without tags.
pub fn cast(
    sender: Sender,
    (share, board): (&Arc<Share>, &Arc<Board>),
    data_pass: DataPass,
    start: Start,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&CastProgress),
) -> Result<CastEnd, Error> {
    let channel = SealingChannel::new(sender, board, data_pass);
    let channel = channel.map_err(|e| ChannelError { reason: e.to_string() })?;
    let caster = Caster::new(share, board, 0);
    let (known, left, failed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let began = Instant::now();
    let mut casting =
        Casting { channel, caster, board: Arc::clone(board), known, left, failed, looked: None };
    let (mut scratch, clock) = (Scratch::new(), Clock::new());
    let (mut has_begun, mut is_sent) = (false, false);
    while !stop.load(Ordering::Relaxed) {
        casting.hear_events()?;
        let sender = &casting.channel.carrier;
        if !has_begun {
            let members = sender.members().filter(|member| member.is_confirmed).count();
            let is_late = start.after.is_some_and(|after| began.elapsed() >= after);
            has_begun = members >= start.members.max(1) || is_late && members > 0;
            if is_late && !has_begun {
                return Ok(CastEnd::Nobody);
            }
        }
        let mut worked = false;
        if has_begun && !is_sent {
            let Casting { caster, channel, .. } = &mut casting;
            let turn = caster.turn(channel, &mut scratch, clock.now())?;
            worked = turn.worked;
            if turn.finished || channel.carrier.members().next().is_none() {
                is_sent = true;
                channel.carrier.finish();
            }
        }
        let has_ended = is_sent && casting.channel.carrier.has_ended();
        if has_ended {
            board.end();
        }
        if casting.looks() {
            let told = casting.look(has_begun);
            progress(&told);
            let waits = |s: &Standing| s.has_part() && s.tally.is_none();
            if has_ended && !told.members.iter().any(|(_, standing, ..)| waits(standing)) {
                return Ok(CastEnd::Complete);
            }
        }
        let timeout = if worked { Duration::ZERO } else { LOOK_EVERY };
        casting.channel.carrier.drive(Some(timeout)).map_err(ChannelError::from)?;
    }
    Ok(CastEnd::Stopped)
}

struct Casting {
    channel: SealingChannel<Sender>,
    caster: Caster,
    board: Arc<Board>,
    /// The own keys of members: who is told to have left is none any more.
    known: BTreeMap<group::MemberId, u64>,
    /// Who has left the group, by its own key, and why.
    left: BTreeMap<u64, Leaving>,
    failed: Vec<Arc<(RemotePath, String)>>,
    looked: Option<Instant>,
}

impl Casting {
    fn hear_events(&mut self) -> Result<(), Error> {
        let sender = &mut self.channel.carrier;
        while let Some(event) = sender.poll_event() {
            match event {
                // Its session comes first: by it the sender knows who it is.
                SenderEvent::Asked { ask, .. } if self.board.admits(ask.bits()) => {
                    if let Some(member) = sender.accept(ask).map_err(ChannelError::from)? {
                        self.known.insert(member, ask.bits());
                    }
                    self.left.remove(&ask.bits());
                }
                SenderEvent::Asked { ask, .. } => sender.deny(ask),
                SenderEvent::Left { member, why } => {
                    if let Some(key) = self.known.remove(&member) {
                        self.left.insert(key, why);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// It is time to look at what changes less often.
    fn looks(&mut self) -> bool {
        let is_time = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if is_time {
            self.looked = Some(Instant::now());
        }
        is_time
    }

    /// Who has no session any more leaves the group. How it stands.
    fn look(&mut self, has_begun: bool) -> CastProgress {
        let standings = self.board.members();
        let sender = &mut self.channel.carrier;
        let infos: Vec<MemberInfo> = sender.members().collect();
        for info in &infos {
            let is_admitted =
                |(_, s): &&(MemberId, Standing)| s.group_key == info.key.bits() && s.has_part();
            if !standings.iter().any(|entry| is_admitted(&entry)) {
                sender.remove(info.id);
            }
        }
        let failed = self.caster.take_failed().into_iter();
        self.failed.extend(failed.map(|(path, error)| Arc::new((path, error.to_string()))));
        let members = standings.into_iter().map(|(id, standing)| {
            let key = standing.group_key;
            let info = infos.iter().find(|info| info.key.bits() == key).copied();
            (id, standing, info, self.left.get(&key).copied())
        });
        CastProgress {
            has_begun,
            bytes_sent: self.caster.bytes_done(),
            bytes_holes: self.caster.bytes_holes(),
            members: members.collect(),
            failed: std::mem::take(&mut self.failed),
        }
    }
}

/// Waits until a group is heard that `is_meant`; nothing if the user wants to stop, or `patience` is over.
///
/// # Errors
/// The network.
pub fn listen(
    receiver: &mut Receiver,
    patience: Option<Duration>,
    stop: &AtomicBool,
    is_meant: &dyn Fn(&Heard) -> bool,
) -> Result<Option<Heard>, Error> {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) && patience.is_none_or(|p| began.elapsed() < p) {
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = event
                && is_meant(&heard)
            {
                return Ok(Some(heard));
            }
        }
        receiver.drive(Some(LOOK_EVERY)).map_err(ChannelError::from)?;
    }
    Ok(None)
}

/// Why a sender does not take a receiver, in words.
fn refused(why: Reason) -> String {
    match why {
        Reason::State => "everything has been sent already".into(),
        Reason::NoResource => "it has as many as it takes".into(),
        Reason::JoinDenied => "the sender knows of no session with it".into(),
        other => abandoned(other),
    }
}

/// Why a sender goes on without one.
fn dropped(why: Reason) -> String {
    match why {
        Reason::Traffic => "it was too slow for the others, or not heard for too long".into(),
        Reason::Unspecified => "its session has ended, or another took its place".into(),
        other => abandoned(other),
    }
}

/// What is no sender's of ours.
fn abandoned(why: Reason) -> String {
    match why {
        Reason::GoingDown => "the sender's host is going down".into(),
        other => format!("reason {} of XTP", other.number()),
    }
}

/// Joins the group, and takes what it is sent; false if `stop` became true before the end. `progress` is told the bytes
/// that came.
///
/// # Errors
/// This is a member no more: what has come stays with `catcher`.
pub fn catch(
    mut receiver: Receiver,
    (heard, group_key): (&Heard, u64),
    (catcher, mail): (&mut Catcher, &Arc<Mail>),
    data_pass: DataPass,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<bool, Error> {
    receiver.join(heard, group_key).map_err(ChannelError::from)?;
    let mut channel = OpeningChannel::new(Ear { receiver, over: None }, mail, data_pass);
    let (mut scratch, clock) = (Scratch::new(), Clock::new());
    loop {
        if stop.load(Ordering::Relaxed) {
            channel.carrier.receiver.leave();
            let _ = channel.carrier.receiver.drive(Some(Duration::ZERO));
            return Ok(false);
        }
        let Ear { receiver, over } = &mut channel.carrier;
        while let Some(event) = receiver.poll_event() {
            match event {
                ReceiverEvent::Finished { .. } => *over = Some(Ok(())),
                ReceiverEvent::Refused(why) => {
                    let why = refused(why);
                    *over = Some(Err(format!("the group does not take this receiver: {why}")));
                }
                ReceiverEvent::Dropped(why) => {
                    let why = dropped(why);
                    *over = Some(Err(format!("the group goes on without this receiver: {why}")));
                }
                ReceiverEvent::TimedOut => {
                    *over = Some(Err("nothing more is heard of the group".into()));
                }
                _ => {}
            }
        }
        let turn = catcher.turn(&mut channel, &mut scratch, clock.now())?;
        progress(catcher.bytes_done());
        let receiver = &mut channel.carrier.receiver;
        if turn.finished {
            // The sender knows that all has come when it has answered.
            let began = Instant::now();
            while !receiver.is_over() && began.elapsed() < Duration::from_secs(1) {
                receiver.drive(Some(LOOK_EVERY)).map_err(ChannelError::from)?;
            }
            tracing::debug!(dropped = channel.dropped(), "the group's messages have come");
            return Ok(true);
        }
        // Without its session this is no member for long, and nobody tells it that what has come holds.
        if mail.is_closed() && !turn.worked {
            let reason = "the session with the sender has ended".into();
            return Err(ChannelError { reason }.into());
        }
        let timeout = if turn.worked { Duration::ZERO } else { NEWS_EVERY };
        receiver.drive(Some(timeout)).map_err(ChannelError::from)?;
    }
}
