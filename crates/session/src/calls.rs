//! Keys of calls beside a session's stream: each request and each answer is a record by itself, sealed under its number.
//! `docs/records.md`, section 11.

use crate::Error;
use crate::exporter::Exporter;
use crate::handshake::Side;
use crate::keys::TrafficSecret;
use crate::record::{NumberedReceiver, NumberedSender, RecordReceiver, RecordSender};
use zeroize::Zeroize;

/// Seals and opens the calls of one session, those that this end makes and those that it answers.
#[derive(Debug)]
pub struct Calls {
    /// Names the session in packets. It is no secret.
    pub id: u32,
    /// Requests that this end makes.
    pub requests: NumberedSender,
    /// What the peer says to them.
    pub answers: NumberedReceiver,
    /// Requests that the peer makes.
    pub asked: NumberedReceiver,
    /// What this end says to them.
    pub replies: NumberedSender,
}

impl Calls {
    /// Of a session whose records of streams these are, at the end that is `side`.
    ///
    /// # Errors
    /// Its records have no tag.
    pub fn new(
        exporter: &Exporter,
        side: Side,
        sender: &RecordSender,
        receiver: &RecordReceiver,
    ) -> Result<Calls, Error> {
        let (own, peer) = match side {
            Side::Client => (b'c', b's'),
            Side::Server => (b's', b'c'),
        };
        let secret = |caller: u8, says: u8| {
            let mut bytes = [0; 32];
            exporter.export(b"calls", &[caller, says], &mut bytes);
            let secret = TrafficSecret::from_bytes(bytes);
            bytes.zeroize();
            secret
        };
        let mut id = [0; 4];
        exporter.export(b"calls", b"id", &mut id);
        let (send, receive) = (sender.params(), receiver.params());
        Ok(Calls {
            id: u32::from_be_bytes(id),
            requests: NumberedSender::new(send, secret(own, b'q'))?,
            answers: NumberedReceiver::new(receive, secret(own, b'a'))?,
            asked: NumberedReceiver::new(receive, secret(peer, b'q'))?,
            replies: NumberedSender::new(send, secret(peer, b'a'))?,
        })
    }
}
