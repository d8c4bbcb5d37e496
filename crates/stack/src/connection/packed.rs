//! Several records in one segment, as senders put those that wait and fit.
//!
//! Nothing of a segment is shown before its sum holds, and that is known with its last byte: so its sum is made first,
//! in a pass of its own, and then each record is opened by itself; where it covers the header alone, each record proves
//! itself, and no byte of it is shown before. A record whose tag is wrong, in a segment whose
//! sum is right, was forged: it, and what follows it in the segment, never came. The records before it are
//! genuine and stand: each has its own tag, at its own offset, and the transport takes the segment up to there.

use fusewire_session::{RecordHeader, RecordReceiver};
use fusewire_transport::machine::{DropCause, Verdict};

use super::{Connection, Phase, Segment, VERIFIED};
use crate::ConnectionId;
use crate::application::Application;

/// What a payload begins with.
pub(super) enum Whole {
    /// One record, and nothing else.
    One(RecordHeader),
    /// A whole record, and more.
    Many,
}

/// The whole record that a payload begins with, which lies at `offset`, as far as its header says.
#[inline]
pub(super) fn whole_record(
    receiver: &RecordReceiver,
    offset: u64,
    payload: &[u8],
) -> Option<Whole> {
    let header = receiver.header(offset, payload).ok()?;
    match receiver.record_len(&header) {
        len if len == payload.len() => Some(Whole::One(header)),
        len if len < payload.len() => Some(Whole::Many),
        _ => None,
    }
}

impl Connection {
    /// Opens the records of a segment one after the other, in order or beyond a hole. `None`: `app` has enough before
    /// the last, and with the same segment it goes on from there.
    pub(super) fn take_records(
        &mut self,
        id: ConnectionId,
        segment: &Segment<'_>,
        offset: u64,
        app: &mut dyn Application,
    ) -> Option<Verdict> {
        if !self.has_range_for(offset) {
            return Some(Verdict::Reject(DropCause::TooManyRanges));
        }
        let payload = segment.payload;
        let (mut at, mut wrong) = (0, None);
        if segment.again && self.opened_before.start == offset {
            at = (self.opened_before.end - offset) as usize;
        } else if !segment.verifies(self.level) {
            return Some(Verdict::Reject(DropCause::Checksum));
        }
        while at < payload.len() {
            match self.open_at(id, offset, payload, at, app) {
                Ok(end) if end < payload.len() && !app.wants_more() => {
                    self.opened_before = offset..offset + end as u64;
                    return None;
                }
                Ok(end) => at = end,
                Err(cause) => {
                    wrong = Some(cause);
                    break;
                }
            }
        }
        if at > 0 {
            self.opened(id, offset..offset + at as u64, app);
        }
        Some(match wrong {
            None => Verdict::Accept { len: at as u32 },
            Some(cause) if at == 0 => Verdict::Reject(cause),
            Some(rest) => Verdict::Part { len: at as u32, rest },
        })
    }

    /// Opens the record at `at` in a payload that lies at `offset`; where it ends there.
    fn open_at(
        &mut self,
        id: ConnectionId,
        offset: u64,
        payload: &[u8],
        at: usize,
        app: &mut dyn Application,
    ) -> Result<usize, DropCause> {
        let Phase::Open(open) = &self.phase else { return Err(DropCause::Closed) };
        let (offset, rest) = (offset + at as u64, &payload[at..]);
        let header = open.receiver.header(offset, rest).map_err(|_| DropCause::Malformed)?;
        let len = open.receiver.record_len(&header);
        let record = rest.get(..len).ok_or(DropCause::Malformed)?;
        self.open(id, offset, record, header, app, VERIFIED)?;
        Ok(at + len)
    }
}
