//! AEGIS-128L and AEGIS-128X2 with a tag of 16 bytes, and AEGIS-256 with one of 32 (draft-irtf-cfrg-aegis-aead), as
//! stages.
#![forbid(unsafe_code)]

use super::{Cipher, Standing, Suite};
use crate::arch::aegis::{AegisLanes, KEPT, Kept, State};
use crate::arch::gcm::Direction;
use crate::mask::Mask;
use crate::message::Piece;
use crate::stage::{Output, Run, Stage};
use crate::staged::{Pass, Staged, Tagged};
use crate::transform::{Pipeline, Plan, Public};
use core::marker::PhantomData;
use fusewire_base::Sum;
use zeroize::{Zeroize, ZeroizeOnDrop};

static AEGIS_128L: Suite = Suite {
    id: 4,
    name: "aegis-128l",
    key_len: 16,
    nonce_len: 16,
    tag_len: 16,
    bind: bind::<Long, 16, 16>,
    ..AEGIS
};

static AEGIS_256: Suite = Suite {
    id: 5,
    name: "aegis-256",
    key_len: 32,
    nonce_len: 32,
    tag_len: 32,
    bind: bind::<Wide, 32, 32>,
    ..AEGIS
};

static AEGIS_128X2: Suite = Suite {
    id: 6,
    name: "aegis-128x2",
    key_len: 16,
    nonce_len: 16,
    tag_len: 16,
    bind: bind::<Twin, 16, 16>,
    ..AEGIS
};

/// What they have in common.
const AEGIS: Suite = Suite {
    id: 0,
    name: "",
    parameter: None,
    key_len: 0,
    nonce_len: 0,
    tag_len: 0,
    block_len: 1,
    // The draft has none. AES-GCM's is far within what a tag of 128 bits bears (section "Security Guarantees").
    integrity_limit: 1 << 52,
    standing: Standing::Draft,
    source: "draft-irtf-cfrg-aegis-aead",
    mask: Some(Mask::aes),
    library: None,
    bind: bind::<Long, 16, 16>,
};

impl Cipher {
    /// AEGIS-128L with a tag of 16 bytes. A draft.
    pub const AEGIS_128L: Cipher = Cipher::of(&AEGIS_128L);
    /// AEGIS-256 with a tag of 32 bytes. A draft.
    pub const AEGIS_256: Cipher = Cipher::of(&AEGIS_256);
    /// AEGIS-128X2 with a tag of 16 bytes: twice AEGIS-128L, side by side. A draft.
    pub const AEGIS_128X2: Cipher = Cipher::of(&AEGIS_128X2);
}

fn bind<V: Variant, const KEY: usize, const TAG: usize>(
    plan: Plan,
    key: &[u8],
) -> Box<dyn Pipeline> {
    let key = key.try_into().expect("a key of the suite's length");
    let key = Key::<V, KEY, TAG> { key, kept: [0; KEPT], variant: PhantomData };
    Box::new(Staged::new(plan, key))
}

/// Which of them.
trait Variant: Send + Sync + 'static {
    const NAME: &'static str;
    const BLOCK: usize;
    /// Of a unit, when it enciphers and when it deciphers. Measured on Zen 3 beside swap and sum.
    const MOST_VECTORS: [usize; 2];
    type State<L: AegisLanes>: State<L>;
}

/// AEGIS-128L.
struct Long;
/// AEGIS-256.
struct Wide;
/// AEGIS-128X2.
struct Twin;

impl Variant for Long {
    const NAME: &'static str = "aegis-128l";
    const BLOCK: usize = 32;
    // Sealing is a tenth faster by four vectors than by eight, between which its state goes to memory, and opening a
    // tenth slower.
    const MOST_VECTORS: [usize; 2] = [4, 16];
    type State<L: AegisLanes> = L::Long;
}

impl Variant for Wide {
    const NAME: &'static str = "aegis-256";
    const BLOCK: usize = 16;
    const MOST_VECTORS: [usize; 2] = Long::MOST_VECTORS;
    type State<L: AegisLanes> = L::Wide;
}

impl Variant for Twin {
    const NAME: &'static str = "aegis-128x2";
    const BLOCK: usize = 64;
    // The state leaves no registers for more: by four it is a quarter slower.
    const MOST_VECTORS: [usize; 2] = [2, 2];
    type State<L: AegisLanes> = L::Twin;
}

/// A key, and bytes of the tag. Wiped when dropped. A message's nonce is as long as the key.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Key<V, const KEY: usize, const TAG: usize> {
    key: [u8; KEY],
    /// Of a message in pieces.
    kept: Kept,
    #[zeroize(skip)]
    variant: PhantomData<V>,
}

impl<V, const KEY: usize, const TAG: usize> Key<V, KEY, TAG> {
    fn stage<'a, const SEAL: bool>(
        &'a self,
        public: &Public<'a>,
    ) -> Message<'a, V, KEY, TAG, SEAL> {
        let (nonce, aad) = (public.nonce(), public.aad);
        Message {
            key: &self.key,
            nonce,
            aad,
            kept: None,
            done: 0,
            ends: true,
            variant: PhantomData,
        }
    }
}

/// What a stage found: the tag of a message that has ended, or the state of one that goes on.
fn tag<const TAG: usize>(found: &Kept) -> [u8; TAG] {
    *found.first_chunk().expect("a tag is shorter than a state")
}

impl<V: Variant, const KEY: usize, const TAG: usize> Tagged for Key<V, KEY, TAG> {
    type Tag = [u8; TAG];

    fn send(&mut self, public: &Public<'_>, pass: Pass<'_>) -> ([u8; TAG], Sum) {
        let (found, sum) =
            pass.level.run_with_or_without_aes(pass.sending(self.stage::<true>(public)));
        (tag(&found), sum)
    }

    fn receive(&mut self, public: &Public<'_>, pass: Pass<'_>) -> (Sum, [u8; TAG]) {
        let (sum, found) =
            pass.level.run_with_or_without_aes(pass.receiving(self.stage::<false>(public)));
        (sum, tag(&found))
    }

    const IN_PIECES: bool = true;

    fn piece(
        &mut self,
        piece: &Piece<'_>,
        done: usize,
        pass: Pass<'_>,
    ) -> (Sum, Option<[u8; TAG]>) {
        let (public, level) = (&piece.public, pass.level);
        let ends = done + pass.src.len() == piece.len;
        let kept = (done > 0).then_some(&self.kept);
        let (sum, found) = match piece.direction {
            Direction::Seal => {
                let stage = Message { kept, done, ends, ..self.stage::<true>(public) };
                let (found, sum) = level.run_with_or_without_aes(pass.sending(stage));
                (sum, found)
            }
            Direction::Open => {
                let stage = Message { kept, done, ends, ..self.stage::<false>(public) };
                level.run_with_or_without_aes(pass.receiving(stage))
            }
        };
        self.kept = found;
        (sum, ends.then(|| tag(&found)))
    }
}

/// The stage of one message, or of a piece of it.
struct Message<'a, V, const KEY: usize, const TAG: usize, const SEAL: bool> {
    key: &'a [u8; KEY],
    nonce: &'a [u8; KEY],
    aad: &'a [u8],
    /// What the piece before stopped with.
    kept: Option<&'a Kept>,
    /// Bytes of the message before this piece.
    done: usize,
    /// The message ends with it.
    ends: bool,
    variant: PhantomData<V>,
}

impl<V: Variant, const KEY: usize, const TAG: usize, const SEAL: bool> Stage
    for Message<'_, V, KEY, TAG, SEAL>
{
    type Output = Kept;
    const NAME: &'static str = V::NAME;
    const BLOCK: usize = V::BLOCK;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 256;
    const ORDERED: bool = true;
    const VECTORS: usize = 4;
    const MOST_VECTORS: usize = V::MOST_VECTORS[if SEAL { 0 } else { 1 }];
    const FOURS: bool = true;
}

impl<V: Variant, L, const KEY: usize, const TAG: usize, const SEAL: bool> Run<L>
    for Message<'_, V, KEY, TAG, SEAL>
where
    L: AegisLanes,
{
    type State = V::State<L>;
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        match self.kept {
            None => V::State::<L>::new(lanes, self.key, self.nonce, self.aad),
            Some(kept) => V::State::<L>::go_on(lanes, kept),
        }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        state.crypt_unit::<SEAL, N>(lanes, x);
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut Self::State, x: &mut L::V, valid: usize) {
        let mut bytes = [0; 64];
        lanes.store(&mut bytes, *x);
        state.crypt_last::<SEAL>(lanes, &mut bytes[..valid]);
        *x = lanes.load(&bytes);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Kept {
        if !self.ends {
            return state.keep(lanes);
        }
        let mut found = [0; KEPT];
        state.finish(lanes, [self.aad.len(), self.done + len], &mut found[..TAG]);
        found
    }
}
