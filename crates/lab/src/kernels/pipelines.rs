//! The pipelines of the experiments and their methods.

use super::contest::{Buffers, Check, Found, Message, Method, contest};
use super::{Direction, Line, Plan};
use aegis::aegis128l::Aegis128L;
use aegis::aegis128x2::Aegis128X2;
use aegis::aegis256::Aegis256;
use fusewire_base::Sum;
use fusewire_experiments::ByPointer;
use fusewire_experiments::word_filter::{WordFilter, word_filters};
use fusewire_kernels::execution::{Blocked, Execution, InPlace, Integrated, Sequential};
use fusewire_kernels::gcm::{GcmKey, Pieces};
use fusewire_kernels::stage::{AnyStage, Stage, Then, then};
use fusewire_kernels::stages::{
    ChaChaKey, Copy, InternetSum, PesDecrypt, PesEncrypt, PesKey, SaferDecrypt, SaferEncrypt,
    SaferKey, SaferSimplifiedDecrypt, SaferSimplifiedEncrypt, SaferSimplifiedKey,
    Swap as SwapStage,
};
use fusewire_kernels::{Cipher, Level, Swap, Transform, sum as sum_of};
use std::hint::black_box;

const NONCE: [u8; 12] = *b"fusewire, 12";
const LONG_NONCE: [u8; 32] = *b"used once with a key, fusewire32";
const AAD: [u8; 16] = *b"a record's head.";
const KEY: [u8; 32] = *b"a key, and not one to keep to us";
const SHORT_KEY: [u8; 8] = *b"fusewire";

/// As many bytes of key as `cipher` wants.
fn key(cipher: Cipher) -> &'static [u8] {
    if cipher.key_len == 8 { &SHORT_KEY } else { &KEY[..cipher.key_len] }
}

/// As many bytes of nonce as `cipher` wants.
fn nonce(cipher: Cipher) -> &'static [u8] {
    if cipher.nonce_len == NONCE.len() { &NONCE } else { &LONG_NONCE[..cipher.nonce_len] }
}

/// Measures every pipeline in both directions at the sizes given, and hands each line on as soon as
/// it is there.
pub fn pipelines(plan: &Plan<'_>, give: &mut dyn FnMut(&Line)) {
    let level = plan.level;
    for &size in plan.sizes {
        let buffers = &mut Buffers::new(size);
        let mut go = |pipeline, direction, subject: Subject<'_>| {
            if plan.takes(pipeline, size) {
                give(&subject.measure(pipeline, direction, plan, buffers));
            }
        };
        copies(level, &mut go);
        block_ciphers(level, &mut go);
        for (name, cipher) in [
            ("swap32 ▸ aes-256-gcm ▸ internet ▸ store", Cipher::AES_256_GCM),
            ("swap32 ▸ aes-128-gcm ▸ internet ▸ store", Cipher::AES_128_GCM),
            ("swap32 ▸ chacha20-poly1305 ▸ internet ▸ store", Cipher::CHACHA20_POLY1305),
            ("swap32 ▸ aegis-128l ▸ internet ▸ store", Cipher::AEGIS_128L),
            ("swap32 ▸ aegis-256 ▸ internet ▸ store", Cipher::AEGIS_256),
            ("swap32 ▸ aegis-128x2 ▸ internet ▸ store", Cipher::AEGIS_128X2),
        ] {
            for direction in [Direction::Send, Direction::Receive] {
                go(name, direction, Subject::aead(level, direction, cipher));
            }
        }
    }
}

/// Each of three stages called through a pointer.
fn each<A: Stage, B: Stage, C: Stage>(
    Then(a, Then(b, c)): Then<A, Then<B, C>>,
) -> Then<ByPointer<A>, Then<ByPointer<B>, ByPointer<C>>> {
    then(ByPointer(a), then(ByPointer(b), ByPointer(c)))
}

type Go<'g> = dyn FnMut(&'static str, Direction, Subject<'_>) + 'g;

fn copies(level: Level, go: &mut Go<'_>) {
    let name = "copy ▸ internet ▸ store";
    let sum = |(_, sum)| sum;
    let send = || then(Copy, InternetSum);
    let pointed = then(ByPointer(Copy), ByPointer(InternetSum));
    let subject = Subject::new(level, send, sum).pointers(level, pointed, sum).words(send, sum);
    go(name, Direction::Send, subject.memcpy());
    let sum = |(sum, _)| sum;
    let receive = || then(InternetSum, Copy);
    let pointed = then(ByPointer(InternetSum), ByPointer(Copy));
    let subject =
        Subject::new(level, receive, sum).pointers(level, pointed, sum).words(receive, sum);
    go(name, Direction::Receive, subject.memcpy());
}

fn block_ciphers(level: Level, go: &mut Go<'_>) {
    use Direction::{Receive, Send};
    let name = "swap32 ▸ pes ▸ internet ▸ store";
    let key = PesKey::new(SHORT_KEY);
    let [send, receive] = own(level, Cipher::PES, PesEncrypt(key), PesDecrypt(key));
    let words = || then(SwapStage::<4>, then(PesEncrypt(key), InternetSum));
    go(name, Send, send.words(words, |((), ((), sum))| sum));
    let words = || then(InternetSum, then(PesDecrypt(key), SwapStage::<4>));
    go(name, Receive, receive.words(words, |(sum, _)| sum));

    let name = "swap32 ▸ safer-simplified ▸ internet ▸ store";
    let key = &SaferSimplifiedKey::new(SHORT_KEY);
    let (encrypt, decrypt) = (SaferSimplifiedEncrypt(key), SaferSimplifiedDecrypt(key));
    let [send, receive] = own(level, Cipher::SAFER_SIMPLIFIED, encrypt, decrypt);
    go(name, Send, send);
    go(name, Receive, receive);

    let name = "swap32 ▸ safer-k64:6 ▸ internet ▸ store";
    let key = &SaferKey::k64(SHORT_KEY, 6);
    let [send, receive] = own(level, Cipher::SAFER_K64, SaferEncrypt(key), SaferDecrypt(key));
    go(name, Send, send);
    go(name, Receive, receive);
}

/// A cipher of ours, both ways, by pointers too.
fn own<'a, E, D>(level: Level, cipher: Cipher, encrypt: E, decrypt: D) -> [Subject<'a>; 2]
where
    E: AnyStage + Stage<Output = ()> + 'a,
    D: AnyStage + Stage<Output = ()> + 'a,
{
    let swap = SwapStage::<4>;
    let send = each(then(swap, then(encrypt, InternetSum)));
    let receive = each(then(InternetSum, then(decrypt, swap)));
    let subject = |direction| Subject::cipher(level, direction, cipher);
    [
        subject(Direction::Send).pointers(level, send, |((), ((), sum))| sum),
        subject(Direction::Receive).pointers(level, receive, |(sum, _)| sum),
    ]
}

/// What is done to the buffers once, before anything is timed.
type Prepare<'a> = Box<dyn FnOnce(&mut Buffers) + 'a>;

/// One pipeline's methods.
struct Subject<'a> {
    integrated: Method<'a>,
    blocked: Method<'a>,
    sequential: Method<'a>,
    function_pointers: Option<Method<'a>>,
    word_filters: Option<Method<'a>>,
    reference: Option<Method<'a>>,
    reference_check: Check,
    prepare: Option<Prepare<'a>>,
}

impl<'a> Subject<'a> {
    /// Of a pipeline of stages that run at every level; `sum` finds the sum in what it gives.
    fn new<S: AnyStage + 'a>(
        level: Level,
        make: impl Fn() -> S,
        sum: fn(S::Output) -> Sum,
    ) -> Subject<'a> {
        let (one, two, three) = (make(), make(), make());
        let found = move |output| Found { sum: sum(output), tag: [0; 32] };
        Subject {
            integrated: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, .. }| {
                    found(level.run(Integrated { stage: &one, src, dst }))
                })
            }),
            blocked: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, .. }| {
                    found(level.run(Blocked { stage: &two, src, dst }))
                })
            }),
            sequential: Box::new(move |b, turns| {
                b.turns(turns, |Message { src, dst, work }| {
                    found(level.run(Sequential { stage: &three, src, work, dst }))
                })
            }),
            function_pointers: None,
            word_filters: None,
            reference: None,
            reference_check: Check::All,
            prepare: None,
        }
    }

    /// Of a cipher with the data path's swap and sum.
    fn cipher(level: Level, direction: Direction, cipher: Cipher) -> Subject<'a> {
        let new = |execution| Transform::new(level, execution, Swap::Bytes32, cipher, key(cipher));
        let by = |execution| transform(new(execution), cipher, direction);
        let mut sealer = new(Execution::Integrated);
        let prepare = move |b: &mut Buffers| {
            let tag = &mut b.tag[..cipher.tag_len];
            sealer.send(nonce(cipher), &AAD, &b.src, &mut b.dst, tag);
            b.src.copy_from_slice(&b.dst);
        };
        Subject {
            integrated: by(Execution::Integrated),
            blocked: by(Execution::Blocked),
            sequential: by(Execution::Sequential),
            function_pointers: None,
            word_filters: None,
            reference: None,
            reference_check: Check::All,
            prepare: (direction == Direction::Receive).then(|| Box::new(prepare) as _),
        }
    }

    /// Of an AEAD. Its reference is the library, working in the message's place, with our best passes
    /// around it: as sequential, but without a pass that only stores.
    fn aead(level: Level, direction: Direction, cipher: Cipher) -> Subject<'a> {
        let (blocked, swap) = (Execution::Blocked, Swap::Bytes32);
        let direct = Transform::with_library(level, blocked, swap, cipher, key(cipher));
        let mut subject = Subject::cipher(level, direction, cipher);
        subject.reference = match direct {
            Some(direct) => Some(transform(direct, cipher, direction)),
            None => Some(libaegis(level, direction, cipher)),
        };
        subject.function_pointers = if cipher == Cipher::CHACHA20_POLY1305 {
            Some(chacha_by_pointer(level, direction, &KEY))
        } else if cipher.nonce_len == NONCE.len() {
            gcm_by_pointer(level, direction, key(cipher))
        } else {
            None
        };
        subject
    }

    /// With function pointers; `stage` is the pipeline with its stages called through them.
    fn pointers<S: AnyStage + 'a>(
        mut self,
        level: Level,
        stage: S,
        sum: fn(S::Output) -> Sum,
    ) -> Self {
        self.function_pointers = Some(Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| Found {
                sum: sum(level.run(Integrated { stage: &stage, src, dst })),
                tag: [0; 32],
            })
        }));
        self
    }

    /// With word filters.
    fn words<F: WordFilter + 'a>(
        mut self,
        make: impl Fn() -> F,
        sum: fn(F::Output) -> Sum,
    ) -> Self {
        let filter = make();
        self.word_filters = Some(Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| Found {
                sum: sum(word_filters(&filter, src, dst)),
                tag: [0; 32],
            })
        }));
        self
    }

    /// The reference is a plain copy.
    fn memcpy(mut self) -> Self {
        self.reference = Some(Box::new(|b, turns| {
            b.turns(turns, |Message { src, dst, .. }| dst.copy_from_slice(src));
            Found { sum: Sum::ZERO, tag: [0; 32] }
        }));
        self.reference_check = Check::Nothing;
        self
    }

    fn measure(
        self,
        pipeline: &'static str,
        direction: Direction,
        plan: &Plan<'_>,
        buffers: &mut Buffers,
    ) -> Line {
        if let Some(prepare) = self.prepare {
            prepare(buffers);
        }
        let mut methods = vec![
            (self.integrated, Check::All),
            (self.blocked, Check::All),
            (self.sequential, Check::All),
        ];
        let mut more = |method: Option<Method<'a>>, check| {
            method.map(|method| {
                methods.push((method, check));
                methods.len() - 1
            })
        };
        let function_pointers = more(self.function_pointers, Check::All);
        let word_filters = more(self.word_filters, Check::All);
        let reference = more(self.reference, self.reference_check);
        let rates = contest(buffers, plan.effort, &mut methods);
        Line {
            pipeline,
            direction,
            size_bytes: buffers.src.len(),
            level: plan.level.name(),
            integrated: rates[0],
            blocked: rates[1],
            sequential: rates[2],
            function_pointers: function_pointers.map(|i| rates[i]),
            word_filters: word_filters.map(|i| rates[i]),
            reference: reference.map(|i| rates[i]),
        }
    }
}

/// A transform's method. On receive the message is one that was sealed with the same key.
fn transform<'a>(mut transform: Transform, cipher: Cipher, direction: Direction) -> Method<'a> {
    let (nonce, tag_len) = (nonce(cipher), cipher.tag_len);
    match direction {
        Direction::Send => Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| {
                let mut tag = [0; 32];
                let found = transform.send(nonce, &AAD, src, dst, &mut tag[..tag_len]);
                Found { sum: found.sum().unwrap_or_default(), tag }
            })
        }),
        Direction::Receive => Box::new(move |b, turns| {
            let tag = b.tag;
            b.turns(turns, |Message { src, dst, .. }| {
                let opened = transform.receive(nonce, &AAD, src, &tag[..tag_len], dst);
                assert!(opened.authentic, "the message was sealed with this key");
                Found { sum: opened.sum.sum().unwrap_or_default(), tag }
            })
        }),
    }
}

/// AEGIS of the library libaegis, with our best passes around it.
fn libaegis<'a>(level: Level, direction: Direction, cipher: Cipher) -> Method<'a> {
    if cipher == Cipher::AEGIS_128L {
        let new = move || {
            let key = key(cipher).first_chunk().expect("16 bytes");
            Aegis128L::<16>::new(key, nonce(cipher).first_chunk().expect("16 bytes"))
        };
        libaegis_by(
            level,
            direction,
            move |bytes| wide(&new().encrypt_in_place(bytes, &AAD)),
            move |src, dst, tag| {
                let mut opening = new().decryptor(&AAD, dst);
                opening.update(src).expect("room for the message");
                opening.finalize(tag.first_chunk().expect("a tag")).is_ok()
            },
        )
    } else if cipher == Cipher::AEGIS_128X2 {
        let new = move || {
            let key = key(cipher).first_chunk().expect("16 bytes");
            Aegis128X2::<16>::new(key, nonce(cipher).first_chunk().expect("16 bytes"))
        };
        libaegis_by(
            level,
            direction,
            move |bytes| wide(&new().encrypt_in_place(bytes, &AAD)),
            move |src, dst, tag| {
                let mut opening = new().decryptor(&AAD, dst);
                opening.update(src).expect("room for the message");
                opening.finalize(tag.first_chunk().expect("a tag")).is_ok()
            },
        )
    } else {
        let new = move || Aegis256::<32>::new(&KEY, &LONG_NONCE);
        libaegis_by(
            level,
            direction,
            move |bytes| new().encrypt_in_place(bytes, &AAD),
            move |src, dst, tag| {
                let mut opening = new().decryptor(&AAD, dst);
                opening.update(src).expect("room for the message");
                opening.finalize(tag).is_ok()
            },
        )
    }
}

/// `seal` works in place and gives the tag; `open` says whether it was right.
fn libaegis_by<'a>(
    level: Level,
    direction: Direction,
    seal: impl Fn(&mut [u8]) -> [u8; 32] + 'a,
    open: impl Fn(&[u8], &mut [u8], &[u8; 32]) -> bool + 'a,
) -> Method<'a> {
    let swap = SwapStage::<4>;
    match direction {
        Direction::Send => Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| {
                level.run(Integrated { stage: &swap, src, dst });
                let tag = seal(dst);
                Found { sum: sum_of(level, dst), tag }
            })
        }),
        Direction::Receive => Box::new(move |b, turns| {
            let tag = b.tag;
            b.turns(turns, |Message { src, dst, .. }| {
                let sum = sum_of(level, src);
                assert!(open(src, dst, &tag), "the message was sealed with this key");
                level.run(InPlace { stage: &swap, bytes: dst });
                Found { sum, tag }
            })
        }),
    }
}

/// A tag of 16 bytes with zeros after it.
fn wide(tag: &[u8; 16]) -> [u8; 32] {
    let mut wide = [0; 32];
    wide[..16].copy_from_slice(tag);
    wide
}

/// ChaCha20-Poly1305 with each stage called through a pointer.
fn chacha_by_pointer<'a>(level: Level, direction: Direction, key: &[u8; 32]) -> Method<'a> {
    let mut key = ChaChaKey::new(key);
    let swap = SwapStage::<4>;
    match direction {
        Direction::Send => Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| {
                let cipher = key.seal(&NONCE, &AAD, src.len());
                let stage = &each(then(swap, then(cipher, InternetSum)));
                let ((), (tag, sum)) = level.run(Integrated { stage, src, dst });
                Found { sum, tag: wide(&tag) }
            })
        }),
        Direction::Receive => Box::new(move |b, turns| {
            b.turns(turns, |Message { src, dst, .. }| {
                let cipher = key.open(&NONCE, &AAD, src.len());
                let stage = &each(then(InternetSum, then(cipher, swap)));
                let (sum, (tag, ())) = level.run(Integrated { stage, src, dst });
                Found { sum, tag: wide(&tag) }
            })
        }),
    }
}

/// Bytes of a unit of AES-GCM: eight vectors of the widest level.
const UNIT: usize = 512;

/// AES-GCM with each stage called through a pointer; none at a level without AES.
fn gcm_by_pointer<'a>(level: Level, direction: Direction, key: &[u8]) -> Option<Method<'a>> {
    let key = GcmKey::new(level, key)?;
    let sum_it = black_box(sum_of as fn(Level, &[u8]) -> Sum);
    Some(match direction {
        Direction::Send => Box::new(move |b, turns| {
            let swap = black_box(
                (|level, src, dst| level.run(Integrated { stage: &SwapStage::<4>, src, dst }))
                    as fn(Level, &[u8], &mut [u8]),
            );
            let seal =
                black_box((|pieces, piece| pieces.seal(piece)) as fn(&mut Pieces<'_>, &mut [u8]));
            b.turns(turns, |Message { src, dst, .. }| {
                let (mut pieces, mut sum) = (key.pieces(&NONCE, &AAD, src.len()), Sum::ZERO);
                for (src, dst) in src.chunks(UNIT).zip(dst.chunks_mut(UNIT)) {
                    swap(level, src, dst);
                    seal(&mut pieces, dst);
                    sum += sum_it(level, dst);
                }
                Found { sum, tag: wide(&pieces.finish()) }
            })
        }),
        Direction::Receive => Box::new(move |b, turns| {
            let swap = black_box(
                (|level, bytes| level.run(InPlace { stage: &SwapStage::<4>, bytes }))
                    as fn(Level, &mut [u8]),
            );
            let open = black_box(
                (|pieces, src, dst| pieces.open(src, dst)) as fn(&mut Pieces<'_>, &[u8], &mut [u8]),
            );
            b.turns(turns, |Message { src, dst, .. }| {
                let (mut pieces, mut sum) = (key.pieces(&NONCE, &AAD, src.len()), Sum::ZERO);
                for (src, dst) in src.chunks(UNIT).zip(dst.chunks_mut(UNIT)) {
                    sum += sum_it(level, src);
                    open(&mut pieces, src, dst);
                    swap(level, dst);
                }
                Found { sum, tag: wide(&pieces.finish()) }
            })
        }),
    })
}
