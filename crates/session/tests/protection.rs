//! Header protection and padding: the bytes of the specification, all executions alike, nothing of a record to be seen,
//! and nothing taken that was changed.

mod ends;

use aws_lc_rs::aead::quic::{self, HeaderProtectionKey};
use ends::{SECRET, body, pair, seal};
use fusewire_base::Sum;
use fusewire_session::keys::{TrafficSecret, expand_label};
use fusewire_session::record::{HEADER_LEN, RecordParams};
use fusewire_session::{
    Cipher, DataPass, Error, Execution, HeaderProtection, Level, Marshal, Misuse, RecordReceiver,
    RecordSender, RecordType, Swap, Unmarshal,
};

const START: u64 = 0x1234;
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const ELEMENTS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];
const LENS: [usize; 18] =
    [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 1023, 1024, 1025, 2049, 5001];

fn ciphers() -> impl Iterator<Item = Cipher> {
    Cipher::ALL.into_iter().filter(|cipher| cipher.tag_len > 0)
}

fn params(cipher: Cipher, padding: usize) -> RecordParams {
    let params = RecordParams::new(cipher, Swap::None, 1 << 16, DataPass::detect());
    let protection = HeaderProtection::with_padding(padding);
    assert!(protection.is_some());
    RecordParams { protection, ..params }
}

/// Without padding only the header differs from that of a record in clear, and its mask is that of RFC 9001, section
/// 5.4, for a sample of 8 zero bytes and the offset; of which the library gives 5 bytes.
#[test]
fn the_mask_is_that_of_quic_for_the_offset() {
    for cipher in ciphers() {
        let algorithm = match cipher.key_len {
            16 => &quic::AES_128,
            _ if cipher == Cipher::CHACHA20_POLY1305 => &quic::CHACHA20,
            _ => &quic::AES_256,
        };
        let mut key = [0; 32];
        expand_label(&SECRET, b"hp", &mut key[..cipher.key_len]);
        let key = HeaderProtectionKey::new(algorithm, &key[..cipher.key_len]).unwrap();
        let (mut sender, _) = pair(params(cipher, 1), START);
        let (mut clear, _) = pair(RecordParams { protection: None, ..params(cipher, 1) }, START);
        for len in LENS {
            let (offset, record) = seal(&mut sender, RecordType::Adu, &body(len));
            let (_, expected) = seal(&mut clear, RecordType::Adu, &body(len));
            assert_eq!(record[HEADER_LEN..], expected[HEADER_LEN..], "{cipher} {len}");
            let mut sample = [0; 16];
            sample[8..].copy_from_slice(&offset.to_be_bytes());
            let mask = key.new_mask(&sample).unwrap();
            for (i, mask) in mask.into_iter().enumerate() {
                assert_eq!(record[i] ^ expected[i], mask, "{cipher} {len} byte {i}");
            }
        }
    }
}

/// Law 1: the same bytes by every execution at every level, marshalled in the pass or before it, and each opens them.
#[test]
fn all_executions_and_levels_make_and_take_the_same() {
    let mut covered = 0;
    for cipher in ciphers() {
        for padding in [1, 16, 256, 1024] {
            for element in ELEMENTS {
                let all = Level::available()
                    .into_iter()
                    .flat_map(|level| EXECUTIONS.map(|execution| DataPass { level, execution }));
                let mut expected: Option<Vec<Vec<u8>>> = None;
                for data_pass in all {
                    let params = RecordParams { element, data_pass, ..params(cipher, padding) };
                    let records = through(params);
                    assert_eq!(expected.get_or_insert_with(|| records.clone()), &records);
                    covered += records.len();
                }
            }
        }
    }
    let levels: Vec<_> = Level::available().iter().map(|l| l.name()).collect();
    println!("levels {levels:?}, {covered} records");
}

fn through(params: RecordParams) -> Vec<Vec<u8>> {
    let (mut sender, mut receiver) = pair(params, START);
    let (mut other, mut reader) = pair(params, START);
    let records = LENS.map(|len| {
        let body = body(len);
        let (offset, record) = seal(&mut sender, RecordType::Adu, &body);
        let mut marshalled = vec![0xaa; record.len()];
        let sum = other.seal_message(offset, &Pieces(&body), &mut marshalled).unwrap();
        assert!(marshalled == record && sum == Sum::of(&record), "{params:?} {len}");
        let mut out = vec![0x77; len + 3];
        let opened = receiver.open(offset, &record, &mut out).unwrap();
        assert_eq!((opened.sum, opened.header.body_len as usize), (sum, len));
        assert!(out[..len] == body && out[len..] == [0x77; 3], "{params:?} {len}");
        let mut out = Taken { whole: vec![0; len], ..Taken::default() };
        reader.open_message(offset, &record, &mut out, |found| found == sum).unwrap();
        assert!(out.whole == body && out.exact && out.wiped == 0, "{params:?} {len}");
        let mut out = vec![0; len];
        let head = record.first_chunk().unwrap();
        reader.open_in_place(offset, head, &record, &mut out).unwrap();
        assert!(out == body);
        record
    });
    let end = seal(&mut sender, RecordType::EndOfStream, b"");
    receiver.open(end.0, &end.1, &mut []).unwrap();
    receiver.finish(end.0 + end.1.len() as u64).unwrap();
    records.into_iter().chain([end.1]).collect()
}

/// A body that is given in pieces.
struct Pieces<'a>(&'a [u8]);

impl Marshal for Pieces<'_> {
    fn marshalled_len(&self) -> usize {
        self.0.len()
    }

    fn marshal(&self, to: &mut fusewire_kernels::message::Sealing<'_>) {
        self.0.chunks(13).for_each(|piece| assert!(to.put(piece)));
    }
}

#[derive(Default)]
struct Taken {
    whole: Vec<u8>,
    /// Everything was there, and nothing more.
    exact: bool,
    wiped: usize,
}

impl Unmarshal for Taken {
    fn unmarshal(&mut self, from: &mut fusewire_kernels::message::Opening<'_>) {
        let all = self.whole.chunks_mut(11).all(|piece| from.take(piece));
        self.exact = all && from.left() == 0;
    }

    fn wipe(&mut self) {
        self.whole.fill(0);
        self.wiped += 1;
    }
}

#[test]
fn every_forged_bit_is_refused_and_leaves_nothing() {
    for cipher in ciphers() {
        for padding in [1, 64] {
            let (mut sender, mut receiver) = pair(params(cipher, padding), START);
            let plain = body(40);
            let (offset, record) = seal(&mut sender, RecordType::Adu, &plain);
            for bit in 0..record.len() * 8 {
                let mut forged = record.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                let mut out = vec![0; 1 << 16];
                let failed = receiver.open(offset, &forged, &mut out).unwrap_err();
                assert_eq!(failed.sum, Sum::of(&forged));
                assert!(out.iter().all(|b| *b == 0), "{cipher} {padding} bit {bit}");
                match failed.error {
                    Error::NotAuthentic { .. } => {}
                    Error::Malformed { .. } | Error::Misuse(Misuse::BufferLen { .. }) => {
                        assert!(bit < 64)
                    }
                    other => panic!("{other}"),
                }
                let mut into = Taken { whole: vec![1; 40], ..Taken::default() };
                if receiver.open_message(offset, &forged, &mut into, |_| true).is_err() {
                    assert!(into.wiped == 1 || into.whole == [1; 40], "{cipher} bit {bit}");
                } else {
                    panic!("{cipher} {padding} bit {bit}");
                }
            }
            let mut out = vec![0; 40];
            receiver.open(offset, &record, &mut out).unwrap();
            assert_eq!(out, plain);
        }
    }
}

/// Also at every offset but its own, and whatever is announced: no more than was agreed on.
#[test]
fn a_record_opens_whole_at_its_offset_alone() {
    for (cipher, padding) in ciphers().flat_map(|cipher| [(cipher, 1), (cipher, 128)]) {
        let (mut sender, mut receiver) = pair(params(cipher, padding), START);
        let (offset, record) = seal(&mut sender, RecordType::Adu, &body(100));
        let mut out = vec![0; 200];
        for len in 0..record.len() {
            assert!(receiver.open(offset, &record[..len], &mut out).is_err(), "{cipher} {len}");
        }
        let longer = [&record[..], &[0]].concat();
        assert!(receiver.open(offset, &longer, &mut out).is_err());
        let mut headers = 0;
        for other in (0..5000).map(|i| offset + 1 + i).chain([offset + (1 << 32)]) {
            assert!(receiver.open(other, &record, &mut out).is_err(), "{cipher} {other}");
            if let Ok(header) = receiver.header(other, &record) {
                assert!(receiver.record_len(&header) <= receiver.record_len_max());
                headers += 1;
            }
        }
        assert!(headers < 3, "a header of another offset is noise");
        assert!(out.iter().all(|b| *b == 0));
    }
}

/// Who has the records and no key finds no type, length and index: each of the first bytes is as often 0 as chance
/// has it. With padding ADUs of all lengths up to it, the end of the stream and a code look alike.
#[test]
fn a_watcher_finds_no_header() {
    const RECORDS: usize = 4096;
    for cipher in ciphers() {
        let clear = RecordParams { protection: None, ..params(cipher, 1) };
        for (params, hidden) in
            [(clear, false), (params(cipher, 1), true), (params(cipher, 256), true)]
        {
            let (mut sender, _) = pair(params, START);
            let mut zeros = [0; HEADER_LEN];
            let mut seen = std::collections::HashSet::new();
            for i in 0..RECORDS {
                let (_, record) = seal(&mut sender, RecordType::Adu, &body(i % 200));
                let head = &record[..HEADER_LEN];
                zeros.iter_mut().zip(head).for_each(|(n, byte)| *n += usize::from(*byte == 0));
                seen.insert(head.to_vec());
                if params.protection == HeaderProtection::with_padding(256) {
                    assert_eq!(record.len(), HEADER_LEN + 256 + cipher.tag_len);
                }
            }
            assert_eq!(seen.len(), RECORDS, "no header comes twice");
            // 16 on average; 4 to 40 in each place of 5 ciphers and 2 paddings, or it is no chance.
            let by_chance = zeros.iter().all(|n| (2..=44).contains(n));
            assert_eq!(by_chance, hidden, "{cipher} {zeros:?}");
        }
        let (mut sender, _) = pair(params(cipher, 256), START);
        let lens = [
            seal(&mut sender, RecordType::Padding, b"").1.len(),
            seal(&mut sender, RecordType::Adu, &body(256)).1.len(),
            seal(&mut sender, RecordType::Close, &[0; 8]).1.len(),
        ];
        assert!(lens.iter().all(|len| *len == HEADER_LEN + 256 + cipher.tag_len), "{lens:?}");
    }
}

#[test]
fn body_len_fitting_is_the_longest_that_fits() {
    for (cipher, padding) in ciphers().flat_map(|c| [1, 8, 128, 1024].map(|padding| (c, padding))) {
        let params = RecordParams { body_len_max: 3000, ..params(cipher, padding) };
        let (sender, receiver) = pair(params, START);
        for room in 0..4000 {
            match sender.body_len_fitting(room) {
                Some(3000) => assert!(sender.record_len(3000) <= room),
                Some(len) => {
                    assert!(sender.record_len(len) <= room && sender.record_len(len + 1) > room);
                }
                None => assert!(sender.record_len(0) > room),
            }
        }
        // No record is longer than that of the longest body, which nothing is added to.
        assert_eq!(sender.record_len(3000), sender.overhead() + 3000);
        assert_eq!(receiver.record_len_max(), sender.record_len(3000));
    }
}

#[test]
fn what_makes_no_tag_protects_no_header() {
    for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.tag_len == 0) {
        let secret = || TrafficSecret::from_bytes(SECRET);
        let refused = [
            RecordSender::new(params(cipher, 1), secret(), 0).err(),
            RecordReceiver::new(params(cipher, 1), secret(), 0).err(),
        ];
        for error in refused {
            assert!(matches!(error, Some(Error::Misuse(Misuse::Config(_)))), "{cipher}");
        }
    }
}
