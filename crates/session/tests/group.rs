//! What a group is sent: an independent oracle, every byte forged, replays, epochs told and kept from who left.

mod ends;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use ends::{SECRET, body};
use fusewire_session::group::{GroupKey, GroupOpened, GroupReceiver, GroupSender, HEAD_LEN};
use fusewire_session::{Cipher, DataPass, Error, Violation};

const LEN_MAX: u32 = 1 << 16;

fn key(epoch: u32) -> GroupKey {
    GroupKey::new(epoch, Cipher::AES_256_GCM, SECRET.map(|byte| byte ^ epoch as u8))
}

fn sender(epoch: u32) -> GroupSender {
    GroupSender::new(&key(epoch), LEN_MAX, DataPass::detect()).unwrap()
}

fn receiver(epochs: impl IntoIterator<Item = u32>) -> GroupReceiver {
    let mut receiver = GroupReceiver::new(LEN_MAX, DataPass::detect());
    epochs.into_iter().for_each(|epoch| receiver.learn(key(epoch)).unwrap());
    receiver
}

fn seal(sender: &mut GroupSender, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0xee; sender.message_len(body.len())];
    sender.seal(&body, &mut message).unwrap();
    message
}

/// What it opens to, or nothing of it.
fn open(receiver: &mut GroupReceiver, message: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut out = vec![0; message.len().saturating_sub(HEAD_LEN + 32)];
    match receiver.open(message, &mut out[..]) {
        Ok(GroupOpened::Genuine) => Ok(Some(out)),
        Ok(GroupOpened::Later) => {
            assert!(out.iter().all(|byte| *byte == 0));
            Ok(None)
        }
        Err(error) => {
            assert!(out.iter().all(|byte| *byte == 0), "something of it stays");
            Err(error)
        }
    }
}

#[track_caller]
fn is_replay(opened: Result<Option<Vec<u8>>, Error>) {
    assert!(matches!(opened, Err(Error::Violation(Violation::GroupReplay { .. }))), "{opened:?}");
}

/// HKDF-Expand of at most 32 bytes, by HMAC alone (RFC 5869, section 2.3; RFC 8446, section 7.1).
fn expand(secret: &[u8], label: &str, context: &[u8], len: u8) -> Vec<u8> {
    let mut info = vec![0, len, 9 + label.len() as u8];
    info.extend(b"fusewire ");
    info.extend(label.as_bytes());
    info.push(context.len() as u8);
    info.extend(context);
    info.push(1);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, &info).as_ref()[..usize::from(len)].to_vec()
}

#[test]
fn a_message_is_what_the_page_says() {
    let mut sender = sender(7);
    let mut offset = 0u64;
    for (index, len) in [0usize, 1, 16, 1000].into_iter().enumerate() {
        let message = seal(&mut sender, &body(len));
        assert_eq!(message[..16], [&[0, 0, 0, 7, 0, 0, 0, 0][..], &offset.to_be_bytes()].concat());
        let secret = SECRET.map(|byte| byte ^ 7);
        let secret = expand(&secret, "group", &7u32.to_be_bytes(), 32);
        let (key, mut nonce) = (expand(&secret, "key", b"", 32), expand(&secret, "iv", b"", 12));
        for (byte, at) in nonce[4..].iter_mut().zip(offset.to_be_bytes()) {
            *byte ^= at;
        }
        let mut header = vec![1, 0, 0, 0];
        header.extend((len as u32).to_be_bytes());
        header.extend((index as u64).to_be_bytes());
        assert_eq!(message[16..32], header);
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
        let mut sealed = body(len);
        key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut sealed).unwrap();
        assert_eq!(message[32..], sealed);
        offset += message.len() as u64 - 16;
    }
}

#[test]
fn members_open_in_order_and_late_ones_from_where_they_are() {
    for cipher in Cipher::ALL.into_iter().filter(|cipher| !cipher.is_insecure()) {
        let key = || GroupKey::new(1, cipher, SECRET);
        let mut sender = GroupSender::new(&key(), LEN_MAX, DataPass::detect()).unwrap();
        let mut members = [0, 5].map(|_| GroupReceiver::new(LEN_MAX, DataPass::detect()));
        members.iter_mut().for_each(|member| member.learn(key()).unwrap());
        for n in 0..10usize {
            let bytes = body(n * 100);
            let mut message = vec![0; sender.message_len(bytes.len())];
            sender.seal(&bytes[..], &mut message).unwrap();
            assert_eq!(sender.body_len_fitting(message.len()), Some(bytes.len()), "{cipher}");
            for (member, from) in members.iter_mut().zip([0, 5]) {
                let mut out = vec![0; bytes.len()];
                if n >= from {
                    assert_eq!(
                        member.open(&message, &mut out[..]).unwrap(),
                        GroupOpened::Genuine,
                        "{cipher}"
                    );
                    assert_eq!(out, bytes);
                }
            }
        }
    }
}

#[test]
fn no_byte_can_be_changed_and_nothing_comes_twice() {
    let (mut sender, mut member) = (sender(1), receiver([1]));
    let first = seal(&mut sender, &body(40));
    let forge = |member: &mut GroupReceiver, message: &[u8]| {
        for at in 0..message.len() {
            for bit in [0, 7] {
                let mut forged = message.to_vec();
                forged[at] ^= 1 << bit;
                // Another epoch that nobody knows, or nothing at all.
                assert!(!matches!(open(member, &forged), Ok(Some(_))), "byte {at}");
            }
        }
        (0..message.len()).for_each(|len| assert!(open(member, &message[..len]).is_err()));
    };
    forge(&mut member, &first);
    assert_eq!(open(&mut member, &first).unwrap().unwrap(), body(40));
    is_replay(open(&mut member, &first));
    let (second, third) = (seal(&mut sender, &body(7)), seal(&mut sender, &body(9)));
    forge(&mut member, &third);
    // What was lost on the way is not missed; it is not taken afterwards.
    assert_eq!(open(&mut member, &third).unwrap().unwrap(), body(9));
    is_replay(open(&mut member, &second));
}

#[test]
fn who_is_not_told_of_an_epoch_opens_nothing_of_it() {
    let (mut sender, mut stays, mut leaves) = (sender(1), receiver([1]), receiver([1]));
    let old = seal(&mut sender, &body(3));
    for member in [&mut stays, &mut leaves] {
        assert_eq!(open(member, &old).unwrap().unwrap(), body(3));
    }
    let late = seal(&mut sender, &body(4));
    sender.renew(&key(2)).unwrap();
    assert!(sender.renew(&key(2)).is_err() && sender.renew(&key(1)).is_err());
    let new = seal(&mut sender, &body(5));
    assert_eq!(open(&mut leaves, &new).unwrap(), None, "he was not told");
    // With the old secret under the new number nothing opens either.
    leaves.learn(GroupKey::new(2, Cipher::AES_256_GCM, SECRET.map(|byte| byte ^ 1))).unwrap();
    assert!(matches!(open(&mut leaves, &new), Err(Error::NotAuthentic { .. })));
    assert_eq!(open(&mut stays, &new).unwrap(), None, "not yet told");
    stays.learn(key(2)).unwrap();
    assert_eq!(open(&mut stays, &late).unwrap().unwrap(), body(4), "the end of the old one");
    assert_eq!(open(&mut stays, &new).unwrap().unwrap(), body(5));
    is_replay(open(&mut stays, &late));
    assert!(stays.learn(key(2)).is_err() && stays.learn(key(1)).is_err());
}

#[test]
fn there_is_no_group_without_tags_and_no_end_of_epochs_told_ahead() {
    let weak = Cipher::ALL.into_iter().find(|cipher| cipher.is_insecure()).unwrap();
    let weak = || GroupKey::new(1, weak, SECRET);
    assert!(GroupSender::new(&weak(), LEN_MAX, DataPass::detect()).is_err());
    let mut member = receiver([]);
    assert!(member.learn(weak()).is_err());
    let told = (1..).take_while(|epoch| member.learn(key(*epoch)).is_ok()).count();
    assert_eq!((told, member.epoch()), (1024, Some(1024)));
    assert_eq!(format!("{:?}", key(1)), "GroupKey(..)");
    // So many epochs do not begin before one is told.
    let told = || receiver([1]);
    let later = seal(&mut sender(1025), &body(3));
    assert_eq!(open(&mut told(), &later).unwrap(), None);
    for epoch in [1026, u32::MAX] {
        is_replay(open(&mut told(), &seal(&mut sender(epoch), &body(3))));
    }
    // An offset far out is not worth the work to find its key.
    let mut far = seal(&mut sender(1), &body(3));
    far[8] = 1;
    is_replay(open(&mut receiver([1]), &far));
}
