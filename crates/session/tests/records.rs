//! Records: round trips, an independent oracle, what sealing and opening refuse, key epochs.

mod ends;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use ends::{SECRET, body, pair, seal};
use fusewire_base::Sum;
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{
    Check, Cipher, Cxor, DataPass, Error, Execution, Found, Level, Misuse, RecordReceiver,
    RecordSender, RecordType, Swap, Violation,
};
use proptest::prelude::*;

fn params(cipher: Cipher, element: Swap) -> RecordParams {
    RecordParams::new(cipher, element, 1 << 16, DataPass::detect())
}

fn ciphers() -> Vec<Cipher> {
    Cipher::ALL.into_iter().chain(Cipher::SAFER_K64.with(1)).collect()
}

const ELEMENTS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];

#[test]
fn what_is_sealed_opens_at_every_level_and_execution() {
    let mut covered = 0;
    for level in Level::available() {
        for execution in [Execution::Integrated, Execution::Blocked, Execution::Sequential] {
            for cipher in ciphers() {
                for element in ELEMENTS {
                    let mut params = params(cipher, element);
                    params.data_pass = DataPass { level, execution };
                    let (mut sender, mut receiver) = pair(params, 1234);
                    for len in
                        [0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 100, 255, 1023, 1024, 1400, 5001]
                    {
                        let body = body(len);
                        for check in Check::ALL {
                            sender.set_check(check);
                            receiver.set_check(check);
                            let offset = sender.next_offset();
                            let mut record = vec![0; sender.record_len(len)];
                            let sealed =
                                sender.seal(offset, RecordType::Adu, &body, &mut record).unwrap();
                            let found = match check {
                                Check::Internet => Found::Sum(Sum::of(&record)),
                                Check::Cxor if cipher.tag_len == 0 => {
                                    Found::Cxor(Cxor::of(&record))
                                }
                                Check::Cxor | Check::None => Found::Nothing,
                            };
                            assert_eq!(sealed, found, "{cipher} {element:?} {len} {check}");
                            let mut out = vec![0xaa; len + 3];
                            let opened = receiver.open(offset, &record, &mut out).unwrap();
                            assert_eq!(opened.sum, found, "{cipher} {element:?} {len} {check}");
                            assert_eq!(opened.header.body_len as usize, len);
                            assert_eq!(out[..len], body, "{cipher} {element:?} {len}");
                            assert_eq!(out[len..], [0xaa; 3], "nothing is written beyond the body");
                            covered += 1;
                        }
                    }
                }
            }
        }
    }
    let levels: Vec<_> = Level::available().iter().map(|l| l.name()).collect();
    println!("levels {levels:?}, {covered} records");
}

/// All of it once more, by other means: HMAC, the nonce by hand, the AEAD of the library.
#[test]
fn a_record_is_what_the_specification_says() {
    fn expand(label: &[u8], len: u16) -> Vec<u8> {
        let mut info = len.to_be_bytes().to_vec();
        info.push(9 + label.len() as u8);
        info.extend(b"fusewire ");
        info.extend(label);
        info.extend([0, 1]);
        let full = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SECRET), &info);
        full.as_ref()[..usize::from(len)].to_vec()
    }
    let start = 0x1_0203_0405;
    let (mut sender, _) = pair(params(Cipher::AES_256_GCM, Swap::None), start);
    seal(&mut sender, RecordType::Padding, b"first");
    let (offset, record) = seal(&mut sender, RecordType::Adu, b"second record");
    assert_eq!(offset, start + 16 + 5 + 16);
    assert_eq!(record[..16], [1, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut nonce: [u8; 12] = expand(b"iv", 12).try_into().unwrap();
    nonce[4..].iter_mut().zip(offset.to_be_bytes()).for_each(|(n, o)| *n ^= o);
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &expand(b"key", 32)).unwrap());
    let mut rest = record[16..].to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let plain = key.open_in_place(nonce, Aad::from(&record[..16]), &mut rest).unwrap();
    assert_eq!(plain, b"second record");
}

#[test]
fn an_offset_is_sealed_once_and_in_order() {
    let (mut sender, _) = pair(params(Cipher::AES_256_GCM, Swap::None), 100);
    let mut dst = vec![0; sender.record_len(4)];
    let len = dst.len() as u64;
    for offset in [0, 99, 101, u64::MAX] {
        let refused = sender.seal(offset, RecordType::Adu, b"abcd", &mut dst).unwrap_err();
        assert!(
            matches!(refused, Error::Misuse(Misuse::Offset { expected: 100, found }) if found == offset)
        );
    }
    assert_eq!(dst, vec![0; dst.len()], "nothing was written");
    sender.seal(100, RecordType::Adu, b"abcd", &mut dst).unwrap();
    for offset in [100, 100 + len - 1, 100 + len + 1] {
        assert!(sender.seal(offset, RecordType::Adu, b"abcd", &mut dst).is_err());
    }
    assert_eq!((sender.next_offset(), sender.next_index()), (100 + len, 1));
}

#[test]
fn sealing_refuses_what_the_peer_would_not_take() {
    let (mut sender, _) = pair(params(Cipher::CHACHA20_POLY1305, Swap::None), 0);
    let too_long = vec![0; (1 << 16) + 1];
    let mut dst = vec![0; sender.record_len(too_long.len())];
    let refused = sender.seal(0, RecordType::Adu, &too_long, &mut dst).unwrap_err();
    assert!(matches!(refused, Error::Misuse(Misuse::BodyTooLong { .. })));
    for wrong in [0, 15, 35, 37] {
        let refused = sender.seal(0, RecordType::Adu, b"abcd", &mut dst[..wrong]).unwrap_err();
        assert!(matches!(refused, Error::Misuse(Misuse::BufferLen { expected: 36, .. })));
    }
    let refused = sender.seal(0, RecordType::EndOfStream, b"abcd", &mut dst[..36]).unwrap_err();
    assert!(matches!(refused, Error::Misuse(Misuse::EndWithBody)));
    seal(&mut sender, RecordType::EndOfStream, b"");
    assert!(sender.ended());
    let refused = sender.seal(32, RecordType::Adu, b"abcd", &mut dst[..36]).unwrap_err();
    assert!(matches!(refused, Error::Misuse(Misuse::AfterEnd)));
}

#[test]
fn body_len_fitting_is_the_longest_that_fits() {
    for cipher in ciphers() {
        let (sender, _) = pair(params(cipher, Swap::None), 0);
        for room in 0..200 {
            match sender.body_len_fitting(room) {
                Some(len) => {
                    assert!(sender.record_len(len) <= room && sender.record_len(len + 1) > room);
                }
                None => assert!(sender.record_len(0) > room),
            }
        }
        assert_eq!(sender.body_len_fitting(1 << 30), Some(1 << 16));
    }
}

#[test]
fn every_forged_bit_is_refused_and_leaves_nothing() {
    for cipher in ciphers().into_iter().filter(|c| !c.is_insecure()) {
        let (mut sender, mut receiver) = pair(params(cipher, Swap::Bytes32), 7);
        let plain = body(40);
        let (offset, record) = seal(&mut sender, RecordType::Adu, &plain);
        let mut forgeries = 0;
        for bit in 0..record.len() * 8 {
            let mut forged = record.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let mut out = vec![0; 1 << 16];
            let failed = receiver.open(offset, &forged, &mut out).unwrap_err();
            assert_eq!(failed.sum, Sum::of(&forged), "the sum is told in the error too");
            assert!(out.iter().all(|b| *b == 0), "bit {bit}: plaintext was left behind");
            match failed.error {
                Error::NotAuthentic { offset: at } => {
                    assert_eq!(at, offset);
                    forgeries += 1;
                }
                Error::Malformed { .. } | Error::Misuse(Misuse::BufferLen { .. }) => {
                    assert!(bit < 64)
                }
                other => panic!("{other}"),
            }
        }
        assert_eq!(receiver.failed(), forgeries);
        // The connection behaves as if none of it had come; a replay is the transport's to drop.
        for _ in 0..2 {
            let mut out = vec![0; 40];
            receiver.open(offset, &record, &mut out).unwrap();
            assert_eq!(out, plain);
        }
    }
}

#[test]
fn a_record_is_bound_to_its_offset_and_its_length() {
    let (mut sender, mut receiver) = pair(params(Cipher::AES_128_GCM, Swap::None), 0);
    let (offset, record) = seal(&mut sender, RecordType::Adu, &body(100));
    let mut out = vec![0; 200];
    for other in [offset + 1, offset + 132, offset + (1 << 32)] {
        assert!(matches!(
            receiver.open(other, &record, &mut out).unwrap_err().error,
            Error::NotAuthentic { .. }
        ));
    }
    for len in 0..record.len() {
        let failed = receiver.open(offset, &record[..len], &mut out).unwrap_err();
        assert_eq!(failed.sum, Sum::of(&record[..len]));
        match failed.error {
            Error::Malformed { .. } => assert!(len < 16),
            Error::Misuse(Misuse::BufferLen { expected, found }) => {
                assert_eq!((expected, found), (132, len))
            }
            other => panic!("{other}"),
        }
    }
    let mut longer = record.clone();
    longer.push(0);
    assert!(receiver.open(offset, &longer, &mut out).is_err());
    let refused = receiver.open(offset, &record, &mut out[..99]).unwrap_err();
    assert!(matches!(refused.error, Error::Misuse(Misuse::BufferLen { expected: 100, found: 99 })));
    assert!(out.iter().all(|b| *b == 0));
    // Before the first record lies the handshake.
    let (_, mut later) = pair(params(Cipher::AES_128_GCM, Swap::None), 50);
    assert!(matches!(later.open(49, &record, &mut out).unwrap_err().error, Error::Misuse(_)));
}

#[test]
fn a_header_that_announces_too_much_is_malformed() {
    let (_, receiver) = pair(params(Cipher::AES_256_GCM, Swap::None), 0);
    let mut header = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(receiver.record_len(&receiver.header(0, &header).unwrap()), (1 << 16) + 32);
    header[7] = 1;
    assert!(matches!(receiver.header(0, &header), Err(Error::Malformed { offset: 4, .. })));
    header[..8].copy_from_slice(&[2, 0, 0, 0, 0, 0, 0, 1]);
    assert!(matches!(receiver.header(0, &header), Err(Error::Malformed { offset: 4, .. })));
}

#[test]
fn the_end_is_authenticated_and_truncation_is_seen() {
    let (mut sender, mut receiver) = pair(params(Cipher::AES_256_GCM, Swap::None), 0);
    let first = seal(&mut sender, RecordType::Adu, b"one");
    let end = seal(&mut sender, RecordType::EndOfStream, b"");
    let at = sender.next_offset();
    let mut out = [0; 3];
    receiver.open(first.0, &first.1, &mut out).unwrap();
    assert!(matches!(receiver.finish(end.0), Err(Error::Truncated { at }) if at == end.0));
    let mut forged = end.1.clone();
    forged[20] ^= 1;
    assert!(receiver.open(end.0, &forged, &mut []).is_err());
    assert_eq!(receiver.end(), None);
    receiver.open(end.0, &end.1, &mut []).unwrap();
    assert_eq!(receiver.end(), Some(at));
    receiver.finish(at).unwrap();
    assert!(receiver.finish(at - 1).is_err() && receiver.finish(at + 1).is_err());
    // Replays of either do no harm.
    receiver.open(end.0, &end.1, &mut []).unwrap();
    receiver.open(first.0, &first.1, &mut out).unwrap();
}

/// A peer that has the keys and breaks the rules: two senders with one secret play it.
#[test]
fn records_after_the_end_are_a_violation_in_either_order() {
    let params = params(Cipher::AES_256_GCM, Swap::None);
    let (mut honest, mut receiver) = pair(params, 0);
    let (mut rogue, mut other_receiver) = pair(params, 0);
    let end = seal(&mut honest, RecordType::EndOfStream, b"");
    seal(&mut rogue, RecordType::Adu, b"");
    let late = seal(&mut rogue, RecordType::Adu, b"late");
    let second_end = seal(&mut rogue, RecordType::EndOfStream, b"");
    let mut out = [9; 4];
    receiver.open(end.0, &end.1, &mut out).unwrap();
    let failed = receiver.open(late.0, &late.1, &mut out).unwrap_err();
    assert!(
        matches!(failed.error, Error::Violation(Violation::AfterEnd { .. }))
            && failed.error.is_fatal()
    );
    assert_eq!(out, [0; 4], "and is not shown");
    let failed = receiver.open(second_end.0, &second_end.1, &mut out).unwrap_err();
    assert!(matches!(failed.error, Error::Violation(Violation::TwoEnds { .. })));
    other_receiver.open(late.0, &late.1, &mut out).unwrap();
    let failed = other_receiver.open(end.0, &end.1, &mut out).unwrap_err();
    assert!(matches!(failed.error, Error::Violation(Violation::AfterEnd { .. })));
}

#[test]
fn too_many_forgeries_end_the_connection() {
    let mut params = params(Cipher::CHACHA20_POLY1305, Swap::None);
    assert_eq!(params.integrity_limit, 1 << 36);
    assert_eq!(Cipher::AES_256_GCM.integrity_limit, 1 << 52);
    params.integrity_limit = 3;
    let (mut sender, mut receiver) = pair(params, 0);
    let (offset, record) = seal(&mut sender, RecordType::Adu, b"abcd");
    let mut forged = record.clone();
    forged[17] ^= 1;
    let mut out = [0; 4];
    for _ in 0..3 {
        assert!(matches!(
            receiver.open(offset, &forged, &mut out).unwrap_err().error,
            Error::NotAuthentic { .. }
        ));
    }
    receiver.open(offset, &record, &mut out).unwrap();
    let over = receiver.open(offset, &forged, &mut out).unwrap_err().error;
    assert!(matches!(over, Error::IntegrityLimit { failed: 4, limit: 3, .. }) && over.is_fatal());
    assert!(receiver.open(offset, &record, &mut out).is_err(), "nothing is opened any more");
}

/// Offset, record, body.
type Sealed = (u64, Vec<u8>, Vec<u8>);

/// A stream over many small epochs.
fn over_epochs(exponent: u32) -> (RecordReceiver, Vec<Sealed>) {
    let mut params = params(Cipher::AES_256_GCM, Swap::None);
    params.epoch_exponent = exponent;
    params.body_len_max = 200;
    let (mut sender, receiver) = pair(params, 77);
    let records = (0..200).map(|i| {
        let body = body(i * 37 % 200);
        let (offset, record) = seal(&mut sender, RecordType::Adu, &body);
        (offset, record, body)
    });
    (receiver, records.collect())
}

#[test]
fn keys_change_with_the_epoch_and_records_cross_over_in_any_order() {
    let exponent = 10;
    let (mut receiver, records) = over_epochs(exponent);
    let epochs = records.last().unwrap().0 >> exponent;
    assert!(epochs > 20);
    // Pairs swapped, so that each boundary is crossed out of order.
    for chunk in records.chunks(2) {
        for (offset, record, body) in chunk.iter().rev() {
            let mut out = vec![0; body.len()];
            receiver.open(*offset, record, &mut out).unwrap();
            assert_eq!(out, *body);
        }
    }
    // One that is two epochs old is out of reach by now, and says so.
    let failed = receiver.open(records[0].0, &records[0].1, &mut [0; 200]).unwrap_err();
    assert!(
        matches!(failed.error, Error::Misuse(Misuse::Epoch { epoch: 0, current, .. }) if current == epochs)
    );
}

#[test]
fn a_key_of_another_epoch_does_not_open() {
    let (mut receiver, records) = over_epochs(36);
    let (mut small, same_place) = over_epochs(10);
    let in_second = same_place.iter().position(|r| r.0 >= 1 << 10).unwrap();
    assert_eq!(records[0].1, same_place[0].1);
    assert_ne!(records[in_second].1, same_place[in_second].1);
    let mut out = [0; 200];
    assert!(receiver.open(same_place[in_second].0, &same_place[in_second].1, &mut out).is_err());
    small.open(same_place[in_second].0, &same_place[in_second].1, &mut out).unwrap();
}

#[test]
fn only_an_authentic_record_turns_the_ratchet() {
    let exponent = 10;
    let (mut receiver, records) = over_epochs(exponent);
    let first_of = |epoch| records.iter().find(|r| r.0 >> exponent == epoch).unwrap();
    let mut out = [0; 200];
    let mut forged = first_of(1).1.clone();
    forged[16] ^= 1;
    for _ in 0..5 {
        assert!(matches!(
            receiver.open(first_of(1).0, &forged, &mut out).unwrap_err().error,
            Error::NotAuthentic { .. }
        ));
    }
    // Epoch 2 stays out of reach, epoch 0 and 1 open.
    assert!(matches!(
        receiver.open(first_of(2).0, &first_of(2).1, &mut out).unwrap_err().error,
        Error::Misuse(Misuse::Epoch { epoch: 2, current: 0, .. })
    ));
    receiver.open(first_of(1).0, &first_of(1).1, &mut out).unwrap();
    receiver.open(first_of(0).0, &first_of(0).1, &mut out).unwrap();
    // With epoch 2 the keys of epoch 0 are gone, and those of epoch 1 once a record comes from so far on that no window
    // holds both.
    receiver.open(first_of(2).0, &first_of(2).1, &mut out).unwrap();
    assert!(receiver.open(first_of(0).0, &first_of(0).1, &mut out).is_err());
    receiver.open(first_of(1).0, &first_of(1).1, &mut out).unwrap();
    let far = records.iter().find(|r| r.0 >= (2 << exponent) + (1 << (exponent - 1))).unwrap();
    receiver.open(far.0, &far.1, &mut out).unwrap();
    assert!(receiver.open(first_of(1).0, &first_of(1).1, &mut out).is_err());
}

#[test]
fn a_stream_may_begin_in_a_later_epoch() {
    let mut params = params(Cipher::AES_256_GCM, Swap::None);
    params.epoch_exponent = 17;
    let (mut sender, mut receiver) = pair(params, 5 << 17);
    let (offset, record) = seal(&mut sender, RecordType::Adu, b"abcd");
    receiver.open(offset, &record, &mut [0; 4]).unwrap();
    params.epoch_exponent = 16;
    let secret = TrafficSecret::from_bytes(SECRET);
    let refused = RecordSender::new(params, secret, 0).unwrap_err();
    assert!(matches!(refused, Error::Misuse(Misuse::Config(_))), "a record longer than an epoch");
}

/// Sender and receiver stay usable to the last offset that TCP's 64-bit count could ever reach.
#[test]
fn offsets_do_not_wrap() {
    let mut params = params(Cipher::NONE, Swap::None);
    params.epoch_exponent = 36;
    let (mut sender, mut receiver) = pair(params, (1 << 50) - 10);
    for _ in 0..3 {
        let (offset, record) = seal(&mut sender, RecordType::Adu, b"abcd");
        receiver.open(offset, &record, &mut [0; 4]).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bodies_in_any_order(
        lens in prop::collection::vec(0usize..3000, 1..40),
        order in any::<u64>(),
        which in 0usize..8,
        start in 0u64..1 << 40,
    ) {
        let cipher = ciphers()[which];
        let (mut sender, mut receiver) = pair(params(cipher, ELEMENTS[which % 4]), start);
        let mut records: Vec<_> = lens.iter().map(|len| {
            let body = body(*len);
            let (offset, record) = seal(&mut sender, RecordType::Adu, &body);
            (offset, record, body)
        }).collect();
        let mut state = order | 1;
        for i in (1..records.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            records.swap(i, (state >> 33) as usize % (i + 1));
        }
        for (offset, record, body) in &records {
            let mut out = vec![0; body.len()];
            let opened = receiver.open(*offset, record, &mut out).unwrap();
            prop_assert_eq!(&out, body);
            prop_assert_eq!(opened.sum, Sum::of(record));
        }
    }

    #[test]
    fn any_bytes_are_answered_without_panic(
        offset in any::<u64>(),
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        good_start in any::<bool>(),
    ) {
        let (_, mut receiver) = pair(params(Cipher::AES_256_GCM, Swap::None), 0);
        if good_start && bytes.len() >= 32 {
            let len = (bytes.len() - 32) as u8;
            bytes[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, len]);
        }
        let mut out = vec![0; 200];
        let failed = receiver.open(offset, &bytes, &mut out).unwrap_err();
        prop_assert_eq!(failed.sum, Sum::of(&bytes));
        prop_assert!(out.iter().all(|b| *b == 0));
    }
}

/// A close is the last record, whatever the longest body, and has a code of eight bytes.
#[test]
fn a_close_ends_its_direction_with_a_code() {
    for cipher in ciphers() {
        let short = RecordParams { body_len_max: 4, ..params(cipher, Swap::None) };
        let (mut sender, mut receiver) = pair(short, 100);
        let mut dst = vec![0; sender.record_len(9)];
        for wrong in [0, 4, 7, 9] {
            let dst = &mut dst[..short.record_len(wrong)];
            let refused = sender.seal(100, RecordType::Close, &vec![0; wrong], dst).unwrap_err();
            assert!(matches!(refused, Error::Misuse(_)), "{wrong} bytes: {refused}");
        }
        let (offset, record) = seal(&mut sender, RecordType::Close, &77u64.to_be_bytes());
        assert!(sender.ended());
        let mut code = [0; 8];
        let opened = receiver.open(offset, &record, &mut code).unwrap();
        assert_eq!((opened.header.kind, u64::from_be_bytes(code)), (RecordType::Close, 77));
        assert_eq!(receiver.end(), Some(offset + record.len() as u64));
    }
}
