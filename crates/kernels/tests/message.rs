//! Law 1 for messages that pass the pipeline while they are marshalled: the bytes, sum and tag that the whole
//! message has in passes of their own, for every level, execution, cipher, swap and split into pieces.

use fusewire_base::Sum;
use fusewire_kernels::message::{GATHER, Marshal, Opening, Sealing, Segments, Unmarshal};
use fusewire_kernels::{Check, Cipher, Cxor, Execution, Found, Level, Swap, Transform};

/// Bytes of the machine's order in elements of a width.
#[derive(Clone)]
struct Piece {
    bytes: Vec<u8>,
    width: usize,
}

#[derive(Clone)]
struct Pieces {
    pieces: Vec<Piece>,
    /// What it says, and whether it lends where it can.
    len: usize,
    lends: bool,
}

/// The obvious way.
fn network_order(piece: &Piece) -> Vec<u8> {
    piece.bytes.chunks(piece.width).flat_map(|element| element.iter().rev().copied()).collect()
}

impl Pieces {
    fn new(pieces: Vec<Piece>, lends: bool) -> Pieces {
        let len = pieces.iter().map(|piece| piece.bytes.len()).sum();
        Pieces { pieces, len, lends }
    }

    fn marshalled(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(network_order).collect()
    }
}

impl Marshal for Pieces {
    fn marshalled_len(&self) -> usize {
        self.len
    }

    fn marshal(&self, to: &mut Sealing<'_>) {
        let mut taken = 0;
        for piece in &self.pieces {
            let lent = if self.lends { to.lend(piece.bytes.len()) } else { None };
            if let Some(room) = lent {
                room.copy_from_slice(&network_order(piece));
            } else if piece.width == 1 {
                to.put(&piece.bytes);
            } else {
                to.put_elements(&piece.bytes, piece.width);
            }
            taken += piece.bytes.len();
            if taken <= self.len {
                assert_eq!(to.taken(), taken);
            }
        }
    }
}

/// Reads pieces of the same widths and lengths.
struct Read {
    wanted: Vec<Piece>,
    wiped: bool,
}

impl Unmarshal for Read {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        for piece in &mut self.wanted {
            piece.bytes.fill(0xee);
            let (given, left) = (from.given(), from.left());
            let len = piece.bytes.len();
            let taken = match piece.width {
                1 => from.take(&mut piece.bytes),
                width => from.take_elements(&mut piece.bytes, width),
            };
            assert!(taken);
            assert_eq!((from.given(), from.left()), (given + len, left - len));
        }
        assert!(!from.take(&mut vec![0; from.left() + 1]), "more than there is");
    }

    fn wipe(&mut self) {
        self.wiped = true;
        self.wanted.iter_mut().for_each(|piece| piece.bytes.fill(0));
    }
}

fn new(level: Level, execution: Execution, swap: Swap, cipher: Cipher) -> Transform {
    let key: Vec<u8> = (1..=cipher.key_len as u8).collect();
    Transform::new(level, execution, swap, cipher, &key)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn piece(&mut self, width: usize, count: usize) -> Piece {
        let bytes = (0..width * count).map(|_| self.below(256) as u8).collect();
        Piece { bytes, width }
    }

    /// Scalars and arrays, as messages have them, and lengths around every limit.
    fn pieces(&mut self) -> Vec<Piece> {
        let count = self.below(7);
        (0..count)
            .map(|_| {
                let width = [1, 2, 4, 8][self.below(4)];
                let most = [8, 60, 600, 3000, 2 * GATHER + 40][self.below(5)];
                let count = 1 + self.below(most) / width;
                self.piece(width, count)
            })
            .collect()
    }
}

const EXECUTIONS: [Execution; 3] =
    [Execution::Integrated, Execution::Blocked, Execution::Sequential];
const SWAPS: [Swap; 4] = [Swap::None, Swap::Bytes16, Swap::Bytes32, Swap::Bytes64];

/// Segments of so many bytes, and the lengths and sums that they hear of.
struct Cut {
    each: usize,
    sums: Vec<(usize, Sum)>,
}

impl Segments for Cut {
    fn end(&self, at: usize) -> usize {
        (at / self.each + 1) * self.each
    }

    fn add(&mut self, at: usize, len: usize, sum: Sum) {
        assert!(at % self.each + len <= self.each, "of one segment");
        match self.sums.last_mut() {
            Some((before, all)) if !at.is_multiple_of(self.each) => {
                (*all, *before) = (all.then(*before, sum), *before + len);
            }
            _ => self.sums.push((len, sum)),
        }
    }
}

/// A message through one transform both ways, and through the passes of their own.
fn walk(
    level: Level,
    execution: Execution,
    (swap, check): (Swap, Check),
    cipher: Cipher,
    message: &Pieces,
) {
    let (nonce, aad) = (&[3; 32][..cipher.nonce_len], [5; 16]);
    let mut oracle = new(Level::PORTABLE, Execution::Sequential, swap, cipher);
    let mut one = new(level, execution, swap, cipher);
    one.set_check(check);
    let block = one.block_len();
    let mut plain = message.marshalled();
    plain.resize(message.len.next_multiple_of(block), 0);
    let (mut expected, mut expected_tag) = (vec![0; plain.len()], vec![0; cipher.tag_len]);
    oracle.send(nonce, &aad, &plain, &mut expected, &mut expected_tag);
    let expected_sum = match check {
        Check::Internet => Found::Sum(Sum::of(&expected)),
        Check::Cxor if cipher.tag_len == 0 => Found::Cxor(Cxor::of(&expected)),
        Check::Cxor | Check::None => Found::Nothing,
    };

    let (mut sealed, mut tag) = (vec![0xaa; plain.len()], vec![0; cipher.tag_len]);
    let sum = one.send_message(nonce, &aad, message, &mut sealed, &mut tag).expect("all was given");
    assert!(sealed == expected, "{execution:?} {swap:?}: other bytes");
    assert_eq!((&tag, sum), (&expected_tag, expected_sum));
    if cipher.nonce_len == 0 && cipher.tag_len == 0 {
        let each = [1, 15, 16, 33, 1448][message.len % 5];
        let mut cut = Cut { each, sums: Vec::new() };
        sealed.fill(0xaa);
        assert!(one.send_segments(message, &mut sealed, &mut cut), "all was given");
        assert!(sealed == expected, "{execution:?} {swap:?}: other bytes in segments");
        let sums: Vec<Sum> = expected.chunks(each).map(Sum::of).collect();
        let found: Vec<Sum> = cut.sums.iter().map(|(_, sum)| *sum).collect();
        assert_eq!(found, sums, "{execution:?} {swap:?}: segments of {each}");
    }
    // The transform is what it was.
    let again = one.send(nonce, &aad, &plain, &mut sealed, &mut tag);
    assert_eq!((&sealed, &tag, again), (&expected, &expected_tag, expected_sum));

    let mut read = Read { wanted: message.pieces.clone(), wiped: false };
    let src = (&*sealed, message.len);
    let opened = one.receive_message(nonce, &aad, src, &tag, &mut read);
    assert!(opened.authentic && !read.wiped);
    assert_eq!(opened.sum, expected_sum);
    for (found, sent) in read.wanted.iter().zip(&message.pieces) {
        assert!(found.bytes == sent.bytes, "{execution:?} {swap:?}: other values");
    }
    let mut back = vec![0; plain.len()];
    assert!(one.receive(nonce, &aad, &sealed, &tag, &mut back).authentic);
    assert_eq!(back, plain);
}

#[test]
fn the_same_bytes_as_in_passes_of_their_own() {
    let mut random = Random(1);
    let mut levels = 0;
    for level in Level::available() {
        levels += 1;
        println!("{level}");
        for cipher in Cipher::ALL {
            for swap in SWAPS {
                for execution in EXECUTIONS {
                    let rounds = if execution == Execution::Integrated { 40 } else { 4 };
                    for round in 0..rounds {
                        let message = Pieces::new(random.pieces(), round % 4 == 0);
                        let check = Check::ALL[round % 3];
                        walk(level, execution, (swap, check), cipher, &message);
                    }
                    // A count and an array, as LWS has them, of every width.
                    for (first, width) in [(4, 4), (4, 8), (8, 8), (2, 2), (1, 4)] {
                        let message =
                            vec![random.piece(1, first), random.piece(width, 16384 / width)];
                        let message = Pieces::new(message, false);
                        for check in Check::ALL {
                            walk(level, execution, (swap, check), cipher, &message);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(levels, Level::available().len());
}

/// Nothing of a message stays where its tag is wrong, whatever was taken before.
#[test]
fn a_forgery_is_wiped() {
    let mut random = Random(2);
    for level in Level::available() {
        for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.tag_len > 0) {
            let mut transform = new(level, Execution::Integrated, Swap::None, cipher);
            let message = Pieces::new(vec![random.piece(1, 20), random.piece(4, 2000)], false);
            let (mut sealed, mut tag) = (vec![0; message.len], vec![0; cipher.tag_len]);
            let nonce = &[1; 32][..cipher.nonce_len];
            transform.send_message(nonce, &[], &message, &mut sealed, &mut tag).unwrap();
            for at in [0, 30, message.len - 1, message.len] {
                match sealed.get_mut(at) {
                    Some(byte) => *byte ^= 1,
                    None => tag[3] ^= 1,
                }
                let mut read = Read { wanted: message.pieces.clone(), wiped: false };
                let src = (&*sealed, message.len);
                let opened = transform.receive_message(nonce, &[], src, &tag, &mut read);
                assert!(!opened.authentic && read.wiped);
                assert_eq!(opened.sum, Sum::of(&sealed));
                assert!(read.wanted.iter().all(|piece| piece.bytes.iter().all(|byte| *byte == 0)));
                if let Some(byte) = sealed.get_mut(at) {
                    *byte ^= 1;
                }
            }
        }
    }
}

/// Who reads less than there is has the whole message authenticated.
#[test]
fn what_nobody_reads_is_authenticated() {
    let mut random = Random(3);
    for cipher in Cipher::ALL {
        for execution in EXECUTIONS {
            let mut transform = new(Level::detect(), execution, Swap::Bytes32, cipher);
            let message = Pieces::new(vec![random.piece(1, 16), random.piece(8, 700)], false);
            let (mut sealed, mut tag) = (vec![0; message.len], vec![0; cipher.tag_len]);
            let nonce = &[1; 32][..cipher.nonce_len];
            let sum = transform.send_message(nonce, &[], &message, &mut sealed, &mut tag).unwrap();
            let mut few = [0; 10];
            let src = (&*sealed, message.len);
            let mut transform = new(Level::detect(), execution, Swap::Bytes32, cipher);
            struct Few<'a>(&'a mut [u8]);
            impl Unmarshal for Few<'_> {
                fn unmarshal(&mut self, from: &mut Opening<'_>) {
                    from.take(self.0);
                }
                fn wipe(&mut self) {}
            }
            let opened = transform.receive_message(nonce, &[], src, &tag, &mut Few(&mut few));
            assert_eq!((opened.authentic, opened.sum), (true, sum));
            assert_eq!(few, message.pieces[0].bytes[..10]);
        }
    }
}

/// Looks at the beginning of what is empty, so often.
struct Look(usize);

impl Unmarshal for Look {
    fn unmarshal(&mut self, from: &mut Opening<'_>) {
        for _ in 0..self.0 {
            assert_eq!(from.peek::<4>(), None);
            assert!(!from.take(&mut [0]) && !from.take_elements(&mut [0; 4], 4));
            assert_eq!((from.given(), from.left()), (0, 0));
        }
    }
    fn wipe(&mut self) {}
}

/// What an empty message was filled up with passes once, however often somebody looks for the message.
#[test]
fn an_empty_message_that_was_filled_up_is_authentic() {
    for level in Level::available() {
        for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.tag_len > 0) {
            for execution in EXECUTIONS {
                let mut transform = new(level, execution, Swap::Bytes32, cipher);
                let nonce = &[1; 32][..cipher.nonce_len];
                for filled in [0, 1, 16, 512, 1024, 2 * GATHER + 40] {
                    let (mut sealed, mut tag) = (vec![0; filled], vec![0; cipher.tag_len]);
                    let sum = transform.send(nonce, &[], &vec![0; filled], &mut sealed, &mut tag);
                    for looks in 0..4 {
                        let (src, mut look) = ((&*sealed, 0), Look(looks));
                        let opened = transform.receive_message(nonce, &[], src, &tag, &mut look);
                        let found = (opened.authentic, opened.sum);
                        let case = format!("{cipher} {execution:?} {filled} bytes, {looks} looks");
                        assert_eq!(found, (true, sum), "{level} {case}");
                    }
                }
            }
        }
    }
}

/// A message that is not as long as it had said is not sent.
#[test]
fn another_length_than_it_said() {
    let mut random = Random(4);
    for cipher in Cipher::ALL {
        for execution in EXECUTIONS {
            for pieces in [vec![(1, 100)], vec![(1, 5), (4, 1000)], vec![(1, 4000)]] {
                let pieces = pieces.iter().map(|&(width, count)| random.piece(width, count));
                let message = Pieces::new(pieces.collect(), false);
                for len in [0, 8, 80, message.len - 8, message.len + 8, message.len + 5000] {
                    let wrong = Pieces { len, ..message.clone() };
                    let mut transform = new(Level::detect(), execution, Swap::None, cipher);
                    let room = len.next_multiple_of(transform.block_len());
                    let (mut sealed, mut tag) = (vec![0xaa; room], vec![0; cipher.tag_len]);
                    let nonce = &[1; 32][..cipher.nonce_len];
                    let sum = transform.send_message(nonce, &[], &wrong, &mut sealed, &mut tag);
                    assert!(sum.is_none());
                    assert!(sealed.iter().all(|byte| *byte == 0), "nothing of it stays");
                }
            }
        }
    }
}
