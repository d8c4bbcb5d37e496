//! marshal ▸ AES-256-GCM ▸ Internet ▸ store of an array of INTEGERs in LWS32, and its inverse: in one pass, and in
//! passes of their own, the best that there are of each.
//!
//! Apart, what is sent is marshalled into a buffer, encrypted there, summed there and copied to its frame; what is
//! received is summed, decrypted into a buffer, and unmarshalled from there. The cipher's pass is ours or aws-lc's.

use super::values::wrong;
use super::{Case, Plan};
use crate::{Error, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fusewire_codec::lws;
use fusewire_codec::pipeline::{Message, Placed};
use fusewire_codec::{Limits, SliceSink, SliceSource, Source};
use fusewire_kernels::gcm::GcmKey;
use fusewire_kernels::{Cipher, Execution, Found, Level, Swap, Transform};
use std::hint::black_box;

/// Elements of the array: 16 KiB, and its count.
pub(super) const ELEMENTS: usize = 4096;
/// What the cases are called.
pub(super) const TYPE: &str = "array";
pub(super) const ONE: &str = "LWS32 sealed in one pass";
pub(super) const APART: [&str; 2] = ["LWS32 sealed in passes", "LWS32 sealed by aws-lc"];
/// Each pass by itself: what they need together, over what the cipher needs, is the most that one pass can gain.
const ALONE: [&str; 4] =
    ["LWS32 marshalled alone", "AES-256-GCM alone", "Internet sum alone", "copy alone"];

const KEY: [u8; 32] = [7; 32];
const NONCE: [u8; 12] = [1; 12];
const AAD: [u8; 16] = [2; 16];
/// The count and the elements.
const BYTES: usize = 4 + 4 * ELEMENTS;

/// The cipher's pass over a buffer.
enum Pass {
    Ours(Box<GcmKey>),
    Library(LessSafeKey),
}

impl Pass {
    fn all(level: Level) -> Result<Vec<(&'static str, Pass)>> {
        let key = UnboundKey::new(&AES_256_GCM, &KEY);
        let key = key.map_err(|_| differ("aws-lc has no AES-256-GCM"))?;
        let library = (APART[1], Pass::Library(LessSafeKey::new(key)));
        let ours = GcmKey::new(level, &KEY).map(|key| (APART[0], Pass::Ours(Box::new(key))));
        Ok(ours.into_iter().chain([library]).collect())
    }

    fn seal(&self, bytes: &mut [u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        match self {
            Pass::Ours(key) => key.seal_in_place(&NONCE, &AAD, bytes, &mut tag),
            Pass::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(NONCE);
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(AAD), bytes);
                if let Ok(found) = sealed {
                    tag.copy_from_slice(found.as_ref());
                }
            }
        }
        tag
    }

    fn open(&self, src: &[u8], tag: &[u8; 16], dst: &mut [u8]) -> bool {
        match self {
            Pass::Ours(key) => key.open_alone(&NONCE, &AAD, src, tag, dst),
            Pass::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(NONCE);
                key.open_separate_gather(nonce, Aad::from(AAD), src, tag, dst).is_ok()
            }
        }
    }
}

/// Each in both directions; verified to make the same before any is timed.
pub(super) fn cases<'c>(plan: &Plan<'_>, cases: &mut Vec<Case<'c>>) -> Result<()> {
    let level = plan.level;
    let make =
        || Transform::new(level, Execution::Integrated, Swap::None, Cipher::AES_256_GCM, &KEY);
    let array: Vec<i32> =
        (0..ELEMENTS as i32).map(|i| i.wrapping_mul(0x9e37_79b9u32 as i32)).collect();
    let (mut sealed, mut tag) = (vec![0; BYTES], [0; 16]);
    let mut one = make();
    let message = Message::lws::<u32>(&array).map_err(|e| wrong(ONE, &e))?;
    let found = one.send_message(&NONCE, &AAD, &message, &mut sealed, &mut tag);
    let sum = found.and_then(Found::sum);
    let mut add = |codec: &str, direction, round| {
        let (codec, of) = (codec.into(), TYPE.into());
        cases.push(Case { codec, of, direction, elements: ELEMENTS, bytes: BYTES, round });
    };

    for (name, pass) in Pass::all(level)? {
        let (mut work, mut frame) = (vec![0; BYTES], vec![0; BYTES]);
        let found = apart(&array, level, &pass, &mut work, &mut frame);
        if (found, &frame) != ((tag, sum), &sealed) {
            return Err(differ("the passes make something else"));
        }
        let values = array.clone();
        add(
            name,
            "encode",
            Box::new(move || {
                let values = black_box(&values);
                black_box(apart(values, level, &pass, &mut work, black_box(&mut frame)));
            }),
        );
    }
    if let Some(key) = GcmKey::new(level, &KEY) {
        let [marshalled, encrypted, summed, copied] = ALONE;
        let (values, mut work) = (array.clone(), vec![0; BYTES]);
        let marshal = Box::new(move || {
            black_box(marshal(black_box(&values), black_box(&mut work)));
        });
        add(marshalled, "encode", marshal);
        let (pass, mut work) = (Pass::Ours(Box::new(key)), vec![0; BYTES]);
        let encrypt = Box::new(move || {
            black_box(pass.seal(black_box(&mut work)));
        });
        add(encrypted, "encode", encrypt);
        let work = sealed.clone();
        let sum = Box::new(move || {
            black_box(fusewire_kernels::sum(level, black_box(&work)));
        });
        add(summed, "encode", sum);
        let (work, mut frame) = (sealed.clone(), vec![0; BYTES]);
        let copy = Box::new(move || black_box(&mut frame).copy_from_slice(black_box(&work)));
        add(copied, "encode", copy);
    }
    for (name, pass) in Pass::all(level)? {
        let (mut work, mut values) = (vec![0; BYTES], vec![0; ELEMENTS]);
        let sealed = sealed.clone();
        if back(&sealed, &tag, level, &pass, &mut work, &mut values) != sum || values != array {
            return Err(differ("the passes receive something else"));
        }
        add(
            name,
            "decode",
            Box::new(move || {
                let sealed = black_box(&sealed);
                black_box(back(sealed, &tag, level, &pass, &mut work, black_box(&mut values)));
            }),
        );
    }

    let mut values = vec![0; ELEMENTS];
    let (mut transform, received) = (make(), sealed.clone());
    if !receive(&mut transform, &received, &tag, &mut values) || values != array {
        return Err(differ("one pass receives something else"));
    }
    let mut frame = vec![0; BYTES];
    add(
        ONE,
        "encode",
        Box::new(move || {
            if let Ok(message) = Message::lws::<u32>(black_box(&array)) {
                let mut tag = [0; 16];
                let frame = black_box(&mut frame);
                black_box(one.send_message(&NONCE, &AAD, &message, frame, &mut tag));
            }
        }),
    );
    add(
        ONE,
        "decode",
        Box::new(move || {
            let values = black_box(&mut values);
            black_box(receive(&mut transform, black_box(&received), &tag, values));
        }),
    );
    Ok(())
}

fn differ(what: &str) -> Error {
    Error::Wrong { method: "pipeline".into(), what: what.into() }
}

/// One pass over what was received.
fn receive(transform: &mut Transform, sealed: &[u8], tag: &[u8; 16], into: &mut [i32]) -> bool {
    let mut placed = Placed::lws::<u32>(into);
    let opened = transform.receive_message(&NONCE, &AAD, (sealed, BYTES), tag, &mut placed);
    opened.authentic && placed.finish().is_ok()
}

type Sealed = ([u8; 16], Option<fusewire_base::Sum>);

fn marshal(array: &Vec<i32>, work: &mut [u8]) -> bool {
    let mut encoder = lws::Encoder::<_, u32>::new(SliceSink::new(work));
    lws::Encode::encode(array, &mut encoder).is_ok()
}

/// Four passes.
fn apart(array: &Vec<i32>, level: Level, pass: &Pass, work: &mut [u8], frame: &mut [u8]) -> Sealed {
    if !marshal(array, work) {
        return ([0; 16], None);
    }
    let tag = pass.seal(work);
    let sum = fusewire_kernels::sum(level, work);
    frame.copy_from_slice(work);
    (tag, Some(sum))
}

/// Three passes.
fn back(
    sealed: &[u8],
    tag: &[u8; 16],
    level: Level,
    pass: &Pass,
    work: &mut [u8],
    into: &mut [i32],
) -> Option<fusewire_base::Sum> {
    let sum = fusewire_kernels::sum(level, sealed);
    if !pass.open(sealed, tag, work) {
        return None;
    }
    let mut source = SliceSource::new(work);
    let mut decoder = lws::Decoder::<_, u32>::new(&mut source, Limits::default());
    if decoder.count(4).ok()? != into.len() {
        return None;
    }
    source.take_elements(bytemuck::cast_slice_mut(into), 4).ok()?;
    Some(sum)
}
