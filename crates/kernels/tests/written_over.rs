//! A pass that stores once never reads what it has stored: its tag is of the ciphertext that it made, whatever another process
//! writes there meanwhile. Otherwise that one could have the tag of a text of its own.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fusewire_kernels::message::{Marshal, Sealing};
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const LEN: usize = 16 << 10;

/// Memory that is mapped twice: here, and where the other process has it.
struct Twice([*mut u8; 2]);

impl Twice {
    fn new() -> Twice {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(LEN as u64).unwrap();
        Twice([(); 2].map(|()| {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let (anywhere, shared) = (std::ptr::null_mut(), MapFlags::SHARED);
            // SAFETY: a new mapping, of which nothing else knows.
            unsafe { mmap(anywhere, LEN, protection, shared, &file, 0) }.unwrap().cast()
        }))
    }

    fn here(&mut self) -> &mut [u8] {
        // SAFETY: mapped, and nobody else has a reference to this mapping.
        unsafe { std::slice::from_raw_parts_mut(self.0[0], LEN) }
    }

    fn there(&self) -> &'static [AtomicU64] {
        // SAFETY: mapped longer than the threads below run; bytes of any value are words.
        unsafe { std::slice::from_raw_parts(self.0[1].cast(), LEN / 8) }
    }
}

impl Drop for Twice {
    fn drop(&mut self) {
        for base in self.0 {
            // SAFETY: the mappings are ours and nothing borrows from them any more.
            unsafe { munmap(base.cast(), LEN) }.unwrap();
        }
    }
}

fn write_over(words: &[AtomicU64]) {
    words.iter().for_each(|word| word.store(0x5555_5555_5555_5555, Ordering::Relaxed));
}

/// Bytes that are written over as soon as the first half of them has passed.
struct Halves<'a>(&'a [u8], &'a [AtomicU64]);

impl Marshal for Halves<'_> {
    fn marshalled_len(&self) -> usize {
        self.0.len()
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        let (front, rest) = self.0.split_at(LEN / 2);
        to.put_elements(front, 1);
        write_over(self.1);
        to.put_elements(rest, 1);
    }
}

/// Ends the other thread, also where a tag is wrong.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_tag_is_of_what_was_made() {
    let src: Vec<u8> =
        (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
    let (mut memory, ends) = (Twice::new(), AtomicBool::new(false));
    let words = memory.there();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                write_over(words);
            }
        });
        let _end = End(&ends);
        for level in Level::available() {
            for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.tag_len > 0) {
                let (key, nonce) = (&[4; 32][..cipher.key_len], &[9; 32][..cipher.nonce_len]);
                let make = || Transform::new(level, Execution::Integrated, Swap::None, cipher, key);
                let mut transform = make();
                if !transform.stores_once() {
                    continue;
                }
                for len in [LEN, LEN - 7, 1000] {
                    let (mut sealed, mut right) = (vec![0; len], vec![0; cipher.tag_len]);
                    transform.send(nonce, b"aad", &src[..len], &mut sealed, &mut right);
                    for _ in 0..64 {
                        let mut tag = vec![0; cipher.tag_len];
                        transform.send(
                            nonce,
                            b"aad",
                            &src[..len],
                            &mut memory.here()[..len],
                            &mut tag,
                        );
                        assert_eq!(tag, right, "{cipher} at {level:?}, {len} bytes");
                    }
                }
                let (mut sealed, mut right) = (vec![0; LEN], vec![0; cipher.tag_len]);
                transform.send(nonce, b"aad", &src, &mut sealed, &mut right);
                let mut tag = vec![0; cipher.tag_len];
                let message = Halves(&src, words);
                transform.send_message(nonce, b"aad", &message, memory.here(), &mut tag).unwrap();
                assert_eq!(tag, right, "{cipher} at {level:?}, in pieces");
                println!("{cipher} at {level:?}");
            }
        }
    });
}
