//! The two ends of one direction of records.
#![allow(dead_code, reason = "each test file uses a part of it")]

use fusewire_base::Sum;
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{RecordReceiver, RecordSender, RecordType};

/// What both ends have.
pub const SECRET: [u8; 32] = [0x5a; 32];

/// Both, from stream offset `offset` on.
pub fn pair(params: RecordParams, offset: u64) -> (RecordSender, RecordReceiver) {
    let secret = || TrafficSecret::from_bytes(SECRET);
    (
        RecordSender::new(params, secret(), offset).unwrap(),
        RecordReceiver::new(params, secret(), offset).unwrap(),
    )
}

pub fn body(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 256 + 7) as u8).collect()
}

/// The next record, and where it lies.
pub fn seal(sender: &mut RecordSender, kind: RecordType, body: &[u8]) -> (u64, Vec<u8>) {
    let offset = sender.next_offset();
    let mut record = vec![0xee; sender.record_len(body.len())];
    let sum = sender.seal(offset, kind, body, &mut record).unwrap();
    assert_eq!(sum, Sum::of(&record));
    (offset, record)
}
