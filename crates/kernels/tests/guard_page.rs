//! Nothing is read or written beyond a message: source and destination end where a page begins, or
//! begin where one ends, that faults when it is touched.

use fusewire_base::Sum;
use fusewire_kernels::execution::Scan;
use fusewire_kernels::stages::{Crc32c, Cxor, CxorSum, crc32c_of};
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Two pages that can be used, between two that cannot.
struct Guarded {
    base: *mut u8,
}

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: a new private mapping, of which nothing else knows.
        let base = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), 4 * PAGE, protection, MapFlags::PRIVATE)
        };
        let base = base.expect("four pages").cast::<u8>();
        for page in [0, 3] {
            // SAFETY: the page lies in the mapping and holds nothing.
            unsafe { mprotect(base.add(page * PAGE).cast(), PAGE, MprotectFlags::empty()) }
                .expect("a page without access");
        }
        Guarded { base }
    }

    /// `len` bytes at the end of the pages, or at their beginning.
    fn bytes(&mut self, len: usize, at_end: bool) -> &mut [u8] {
        assert!(len <= 2 * PAGE);
        let at = if at_end { 3 * PAGE - len } else { PAGE };
        // SAFETY: the pages between the guards are readable, writable and ours.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(at), len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        unsafe { munmap(self.base.cast(), 4 * PAGE) }.expect("the mapping is there");
    }
}

#[test]
fn transforms_stay_within_their_messages() {
    let (mut src, mut dst, mut back) = (Guarded::new(), Guarded::new(), Guarded::new());
    for level in Level::available() {
        for cipher in Cipher::ALL {
            let (key, nonce) = (&[4; 32][..cipher.key_len], &[9; 32][..cipher.nonce_len]);
            for execution in [Execution::Integrated, Execution::Blocked, Execution::Sequential] {
                let mut transform = Transform::new(level, execution, Swap::Bytes32, cipher, key);
                for len in (0..300).chain(1000..1040).chain([1408, 2 * PAGE]) {
                    if !len.is_multiple_of(transform.block_len()) {
                        continue;
                    }
                    for at_end in [true, false] {
                        let src = src.bytes(len, at_end);
                        src.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 5) as u8);
                        let (dst, back) = (dst.bytes(len, at_end), back.bytes(len, at_end));
                        let mut tag = vec![0; cipher.tag_len];
                        let sum = transform.send(nonce, b"aad", src, dst, &mut tag);
                        let opened = transform.receive(nonce, b"aad", dst, &tag, back);
                        assert!(opened.authentic && opened.sum == sum && src == back);
                    }
                }
            }
        }
    }
}

#[test]
fn scans_stay_within_their_messages() {
    let mut guarded = Guarded::new();
    for level in Level::available() {
        for len in (0..300).chain([1024, 1408]) {
            for at_end in [true, false] {
                let src = &*guarded.bytes(len, at_end);
                assert_eq!(fusewire_kernels::sum(level, src), Sum::of(src));
                assert_eq!(level.run(Scan { stage: &CxorSum, src }), Cxor::of(src));
                assert_eq!(level.run(Scan { stage: &Crc32c, src }), crc32c_of(src));
            }
        }
    }
}
