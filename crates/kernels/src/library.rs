//! The library's AEADs (aws-lc-rs): the reference, the sequential execution's cipher, and what levels
//! without a fused cipher use.
#![forbid(unsafe_code)]

use crate::scratch::Scratch;
use crate::transform::{Opened, Pipeline, Plan, Public, swap_pass, swap_pass_in_place};
use crate::{Execution, Found};
use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};

/// Passes of ours around an AEAD of the library's that works in place: sequential or, without the last pass, the
/// best that is to be had where nothing is fused.
pub(crate) struct LibraryLoops {
    plan: Plan,
    key: LessSafeKey,
    work: Scratch,
}

impl LibraryLoops {
    pub(crate) fn new(plan: Plan, algorithm: &'static Algorithm, key: &[u8]) -> LibraryLoops {
        let key = UnboundKey::new(algorithm, key).expect("the key's length is the algorithm's");
        LibraryLoops { plan, key: LessSafeKey::new(key), work: Scratch::default() }
    }
}

fn seal(key: &LessSafeKey, public: &Public<'_>, bytes: &mut [u8], tag: &mut [u8]) {
    let nonce = Nonce::assume_unique_for_key(*public.nonce());
    let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(public.aad), bytes);
    let sealed = sealed.expect("a message is shorter than the algorithm's limit");
    tag.copy_from_slice(sealed.as_ref());
}

impl Pipeline for LibraryLoops {
    fn send(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &mut [u8]) -> Found {
        let Plan { level, execution, swap, .. } = self.plan;
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        if execution == Execution::Sequential {
            let work = self.work.room(src.len());
            swap_pass(level, swap, src, work);
            seal(&self.key, public, work, tag);
            let found = public.check.of(level, work);
            dst.copy_from_slice(work);
            return found;
        }
        swap_pass(level, swap, src, dst);
        seal(&self.key, public, dst, tag);
        public.check.of(level, dst)
    }

    fn receive(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &[u8]) -> Opened {
        let Plan { level, execution, swap, .. } = self.plan;
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        let sum = public.check.of(level, src);
        let sequential = execution == Execution::Sequential;
        let place = if sequential { self.work.room(src.len()) } else { &mut *dst };
        let nonce = Nonce::assume_unique_for_key(*public.nonce());
        let aad = Aad::from(public.aad);
        let authentic = self.key.open_separate_gather(nonce, aad, src, tag, place).is_ok();
        if authentic {
            swap_pass_in_place(level, swap, place);
            if sequential {
                dst.copy_from_slice(self.work.take(src.len()));
            }
        } else {
            dst.fill(0);
        }
        Opened { sum, authentic }
    }

    fn is_one_pass(&self) -> bool {
        false
    }

    fn reserve(&mut self, len: usize) {
        if self.plan.execution == Execution::Sequential {
            self.work.reserve(len);
        }
    }
}
