//! Blocks and their hashes: the BLAKE3 tree, cut at 1 MiB.
//!
//! A file is hashed in blocks of 2^20 bytes, each a subtree of the file's BLAKE3 tree. The hash of a block
//! (its chaining value) is what travels behind it and what a resumed transfer is checked against; joined
//! upwards they give the hash that `b3sum` prints for the file. Blocks can come in any order.

use blake3::Hasher;
use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a block; the last block of a file may be shorter.
pub const BLOCK_LEN: u64 = 1 << 20;

/// The hash of a block.
pub(crate) type BlockHash = [u8; 32];

/// Blocks of a file of `size` bytes.
pub(crate) const fn block_count(size: u64) -> u64 {
    size.div_ceil(BLOCK_LEN)
}

/// `range` begins at the border of a block and ends at one or at the end of the file of `size` bytes.
pub(crate) const fn is_bordered(range: &Range<u64>, size: u64) -> bool {
    range.start <= range.end
        && range.start.is_multiple_of(BLOCK_LEN)
        && (range.end == size || range.end < size && range.end.is_multiple_of(BLOCK_LEN))
}

/// Hashes one block in order, or only counts its bytes.
#[derive(Clone, Debug)]
pub(crate) struct BlockHasher {
    hasher: Option<Hasher>,
    count: u64,
}

impl BlockHasher {
    /// Of block number `index`.
    pub(crate) fn new(index: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(index * BLOCK_LEN);
        BlockHasher { hasher: Some(hasher), count: 0 }
    }

    /// Where nobody asks for a hash.
    pub(crate) fn counting() -> Self {
        BlockHasher { hasher: None, count: 0 }
    }

    /// It has no hash.
    pub(crate) fn only_counts(&self) -> bool {
        self.hasher.is_none()
    }

    /// The next bytes of the block.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.count += bytes.len() as u64;
    }

    /// The next `len` bytes of the block, all zero.
    pub(crate) fn update_zeros(&mut self, mut len: u64) {
        const ZEROS: &[u8] = &[0; 16 << 10];
        if self.only_counts() {
            return self.skip(len);
        }
        while len > 0 {
            let n = len.min(ZEROS.len() as u64);
            self.update(&ZEROS[..n as usize]);
            len -= n;
        }
    }

    /// The next `len` bytes of the block, where they are only counted.
    pub(crate) fn skip(&mut self, len: u64) {
        debug_assert!(self.only_counts());
        self.count += len;
    }

    /// Bytes so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The block's hash, where it is hashed. There was at least one byte.
    pub(crate) fn hash(&self) -> Option<BlockHash> {
        self.hasher.as_ref().map(Hasher::finalize_non_root)
    }

    /// The file's hash, when this block is the whole of it.
    pub(crate) fn root(&self) -> Option<BlockHash> {
        self.hasher.as_ref().map(|hasher| hasher.finalize().into())
    }
}

/// Joins the hashes of blocks to the hash of the file, in whatever order they come.
#[derive(Debug)]
pub(crate) struct Tree {
    blocks: u64,
    /// The first block of each subtree, how many blocks it has (a power of two), and its chaining value.
    nodes: BTreeMap<u64, (u64, BlockHash)>,
}

impl Tree {
    /// Of a file of `blocks` blocks.
    pub(crate) fn new(blocks: u64) -> Self {
        Tree { blocks, nodes: BTreeMap::new() }
    }

    /// The hash of block `index`, given once.
    pub(crate) fn insert(&mut self, index: u64, hash: BlockHash) {
        let (mut start, mut len, mut hash) = (index, 1, hash);
        // The topmost join is the root's and is made in `root`.
        while 2 * len < self.blocks {
            let (left, right) =
                if start % (2 * len) == 0 { (start, start + len) } else { (start - len, start) };
            let sibling = if left == start { right } else { left };
            match self.nodes.get(&sibling) {
                Some(&(sibling_len, other)) if sibling_len == len => {
                    self.nodes.remove(&sibling);
                    let (l, r) = if left == start { (&hash, &other) } else { (&other, &hash) };
                    hash = merge_subtrees_non_root(l, r, Mode::Hash);
                }
                _ => break,
            }
            (start, len) = (left, 2 * len);
        }
        self.nodes.insert(start, (len, hash));
    }

    /// The file's hash, for a file of two blocks or more all of whose blocks were given.
    pub(crate) fn root(&self) -> Option<BlockHash> {
        if self.nodes.values().map(|(len, _)| len).sum::<u64>() != self.blocks
            || self.nodes.len() < 2
        {
            return None;
        }
        let mut nodes = self.nodes.values().map(|(_, hash)| *hash).rev();
        let mut right = nodes.next()?;
        let mut left = nodes.next()?;
        for next in nodes {
            right = merge_subtrees_non_root(&left, &right, Mode::Hash);
            left = next;
        }
        Some(merge_subtrees_root(&left, &right, Mode::Hash).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_join_to_the_hash_of_the_whole_in_any_order() {
        let bytes: Vec<u8> = (0..9 * BLOCK_LEN + 5).map(|i| ((i * i) >> 7) as u8).collect();
        for len in [
            1,
            BLOCK_LEN - 1,
            BLOCK_LEN,
            BLOCK_LEN + 1,
            2 * BLOCK_LEN,
            3 * BLOCK_LEN,
            4 * BLOCK_LEN,
            5 * BLOCK_LEN + 1,
            6 * BLOCK_LEN,
            7 * BLOCK_LEN - 3,
            8 * BLOCK_LEN,
            9 * BLOCK_LEN + 5,
        ] {
            let bytes = &bytes[..len as usize];
            let expected: BlockHash = blake3::hash(bytes).into();
            let hashers: Vec<BlockHasher> = (0..)
                .zip(bytes.chunks(BLOCK_LEN as usize))
                .map(|(i, block)| {
                    let mut hasher = BlockHasher::new(i);
                    let (a, b) = block.split_at(block.len() / 3);
                    hasher.update(a);
                    hasher.update(b);
                    hasher
                })
                .collect();
            let n = block_count(len);
            if n == 1 {
                assert_eq!(hashers[0].root(), Some(expected));
                continue;
            }
            for step in [1, 5, 7, 11] {
                let mut tree = Tree::new(n);
                let mut order: Vec<u64> = (0..n).collect();
                order.sort_by_key(|i| (i * step) % 13);
                for i in order {
                    assert_eq!(tree.root(), None);
                    tree.insert(i, hashers[i as usize].hash().unwrap());
                }
                assert_eq!(tree.root(), Some(expected), "{len} bytes, step {step}");
            }
        }
    }

    #[test]
    fn zeros_are_zeros() {
        let (mut a, mut b) = (BlockHasher::new(3), BlockHasher::new(3));
        a.update_zeros(70_000);
        b.update(&[0; 70_000]);
        assert_eq!((a.hash(), a.count()), (b.hash(), 70_000));
        let mut counting = BlockHasher::counting();
        counting.update_zeros(70_000);
        counting.update(&[0; 5]);
        assert_eq!((counting.hash(), counting.count()), (None, 70_005));
    }
}
