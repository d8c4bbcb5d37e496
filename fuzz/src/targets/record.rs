//! The record layer: a record opens only if it is, byte for byte, what was sealed for its offset; what
//! fails leaves nothing in the destination.
use crate::Choices;
use fusewire_base::Sum;
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{HEADER_LEN, RecordParams};
use fusewire_session::{
    Cipher, DataPass, Error, Execution, HeaderProtection, Level, RecordReceiver, RecordSender,
    RecordType, Swap,
};

pub(super) const CIPHERS: [Cipher; Cipher::ALL.len()] = Cipher::ALL;
const ELEMENTS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];
const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const KINDS: [RecordType; 3] = [RecordType::Adu, RecordType::EndOfStream, RecordType::Padding];
const BODY_LEN_MAX: u32 = 2048;
/// What the destination holds before: sealed bodies are made of other bytes.
const BEFORE: u8 = 0xa5;

struct Sealed {
    offset: u64,
    record: Vec<u8>,
    body: Vec<u8>,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let cipher = CIPHERS[usize::from(choices.u8()) % CIPHERS.len()];
    let form = choices.u8();
    let element = ELEMENTS[usize::from(form & 3)];
    let mut params = RecordParams::new(cipher, element, BODY_LEN_MAX, data_pass(form));
    // Epochs of four kilobytes: keys change within an input.
    params.epoch_exponent = 12;
    params.integrity_limit = 16;
    if form & 0x80 != 0 && cipher.mask.is_some() {
        params.protection = HeaderProtection::with_padding(1 << (form >> 4 & 7));
    }
    let begin = u64::from(choices.u16());
    let secret = || TrafficSecret::from_bytes([0x5a; 32]);
    let mut sender = RecordSender::new(params, secret(), begin).expect("an epoch holds a record");
    let mut receiver = RecordReceiver::new(params, secret(), begin).expect("as the sender");
    let mut sealed: Vec<Sealed> = Vec::new();
    while !choices.is_empty() && sealed.len() < 32 {
        match choices.u8() % 4 {
            0 => sealed.extend(seal(&mut sender, &mut choices)),
            1 => {
                // As it was sealed, in any order, as often as it comes.
                if let Some(s) = pick(&sealed, choices.u8()) {
                    open(&mut receiver, cipher, &sealed, s.offset, &s.record);
                }
            }
            2 => {
                if let Some(s) = pick(&sealed, choices.u8()) {
                    let mut record = s.record.clone();
                    let offset = mutate(&mut choices, s.offset, &mut record);
                    open(&mut receiver, cipher, &sealed, offset, &record);
                }
            }
            _ => {
                let offset = begin + u64::from(choices.u16());
                let len = usize::from(choices.u8());
                let raw = choices.bytes(len);
                open(&mut receiver, cipher, &sealed, offset, raw);
            }
        }
    }
}

/// Each cipher: some records sealed, opened out of order and twice, one changed, one of no meaning.
pub fn seeds() -> Vec<Vec<u8>> {
    let script = [
        [0, 0, 5, 77, 1],
        [0, 0, 0, 255, 2],
        [1, 1, 1, 0, 1],
        [1, 0, 2, 0, 2],
        [0, 20, 4, 0, 0],
        [3, 9, 9, 3, 1],
        [0, 0, 4, 255, 0],
        [1, 1, 1, 1, 2],
    ];
    (0..CIPHERS.len() as u8)
        .map(|cipher| [&[cipher, cipher << 4 | cipher, 0, 99][..], &script.concat()].concat())
        .collect()
}

fn pick(sealed: &[Sealed], which: u8) -> Option<&Sealed> {
    sealed.get(usize::from(which) % sealed.len().max(1))
}

fn seal(sender: &mut RecordSender, choices: &mut Choices<'_>) -> Option<Sealed> {
    let kind = KINDS[usize::from(choices.u8()).saturating_sub(250) % 3];
    let len = if kind == RecordType::EndOfStream {
        0
    } else {
        usize::from(choices.u16()) % (BODY_LEN_MAX as usize + 1)
    };
    let seed = choices.u8();
    let body: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
    let offset = sender.next_offset();
    let mut record = vec![0; sender.record_len(len)];
    match sender.seal(offset, kind, &body, &mut record) {
        Ok(sum) => {
            assert_eq!(sum, Sum::of(&record));
            Some(Sealed { offset, record, body })
        }
        Err(Error::Misuse(_)) if sender.ended() => None,
        Err(error) => panic!("{error}"),
    }
}

/// One of the levels that the machine has, and of the executions.
pub(super) fn data_pass(form: u8) -> DataPass {
    let levels = Level::available();
    DataPass {
        level: levels[usize::from(form >> 4) % levels.len()],
        execution: EXECUTIONS[usize::from(form >> 2 & 3) % EXECUTIONS.len()],
    }
}

/// Changes bytes, length or place.
pub(super) fn mutate(choices: &mut Choices<'_>, mut offset: u64, record: &mut Vec<u8>) -> u64 {
    for _ in 0..=choices.u8() % 4 {
        let at = usize::from(choices.u16()) % record.len().max(1);
        match choices.u8() % 5 {
            0 => record.truncate(at),
            1 => record.extend_from_slice(choices.bytes(8)),
            2 => offset = offset.wrapping_add_signed(i64::from(choices.u16() as i16)),
            _ if record.is_empty() => {}
            3 => record[at] = choices.u8(),
            _ => record[at] ^= 1 << (choices.u8() & 7),
        }
    }
    offset
}

fn open(
    receiver: &mut RecordReceiver,
    cipher: Cipher,
    sealed: &[Sealed],
    offset: u64,
    record: &[u8],
) {
    if let Ok(header) = receiver.header(offset, record) {
        assert!(header.body_len <= BODY_LEN_MAX);
        assert!(receiver.record_len(&header) >= HEADER_LEN + header.body_len as usize);
    }
    let mut dst = vec![BEFORE; BODY_LEN_MAX as usize + 3];
    let original = sealed.iter().find(|s| s.offset == offset && s.record == record);
    match receiver.open(offset, record, &mut dst) {
        Ok(opened) => {
            assert_eq!(opened.sum, Sum::of(record));
            let len = opened.header.body_len as usize;
            assert!(dst[len..].iter().all(|&b| b == BEFORE), "written beyond the body");
            match original {
                Some(original) => assert_eq!(dst[..len], original.body),
                None => assert_eq!(cipher.tag_len, 0, "a forged record was opened"),
            }
        }
        Err(failed) => {
            assert_eq!(failed.sum, Sum::of(record));
            let wiped = dst.iter().position(|&b| b != 0).unwrap_or(dst.len());
            assert!(dst[wiped..].iter().all(|&b| b == BEFORE), "something of it is left");
            if let Error::NotAuthentic { .. } = failed.error {
                assert!(original.is_none(), "a sealed record was refused");
            }
        }
    }
}
