//! The few instructions of x86-64 that synthetic functions are made of (Intel SDM volume 2).
//!
//! Memory operands always have a displacement of 32 bits, so that the length of an instruction depends
//! on its registers alone.

/// Where a message's word lies: `[base + RDX + disp]`.
pub(super) const SRC: u8 = 7;
pub(super) const DST: u8 = 6;
pub(super) const INDEX: u8 = 2;
/// The context's address.
pub(super) const CONTEXT: u8 = 1;

/// An operand in memory.
#[derive(Clone, Copy)]
pub(super) enum Memory {
    /// `[base + RDX + disp]`.
    Message(u8, i32),
    /// `[RCX + disp]`.
    Context(i32),
    /// `[RCX + index * 8 + disp]`.
    Table(u8, i32),
}

/// 256-bit registers by VEX, 512-bit by EVEX.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Y,
    Z,
}

/// The second operand of an instruction.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Register(u8),
    Memory(Memory),
}

impl Operand {
    /// Whether REX.B or its like is wanted, and REX.X.
    fn extensions(self) -> (bool, bool) {
        match self {
            // In EVEX the fifth bit of a register is X.
            Operand::Register(r) => (r & 8 != 0, r & 16 != 0),
            Operand::Memory(Memory::Table(index, _)) => (false, index & 8 != 0),
            Operand::Memory(_) => (false, false),
        }
    }
}

#[derive(Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put_i32(&mut self, x: i32) {
        self.put(&x.to_le_bytes());
    }

    /// ModRM, SIB and displacement.
    fn operand(&mut self, reg: u8, operand: Operand) {
        let reg = (reg & 7) << 3;
        match operand {
            Operand::Register(r) => self.put(&[0xC0 | reg | (r & 7)]),
            Operand::Memory(Memory::Message(base, disp)) => {
                self.put(&[0x84 | reg, INDEX << 3 | base]);
                self.put_i32(disp);
            }
            Operand::Memory(Memory::Context(disp)) => {
                self.put(&[0x80 | reg | CONTEXT]);
                self.put_i32(disp);
            }
            Operand::Memory(Memory::Table(index, disp)) => {
                self.put(&[0x84 | reg, 3 << 6 | (index & 7) << 3 | CONTEXT]);
                self.put_i32(disp);
            }
        }
    }

    /// An instruction on general registers: `reg` and another operand.
    fn general(&mut self, wide: bool, opcode: u8, reg: u8, operand: Operand) {
        let (b, x) = operand.extensions();
        let rex =
            u8::from(wide) << 3 | u8::from(reg & 8 != 0) << 2 | u8::from(x) << 1 | u8::from(b);
        if rex != 0 {
            self.put(&[0x40 | rex]);
        }
        self.put(&[opcode]);
        self.operand(reg, operand);
    }

    pub(super) fn load(&mut self, wide: bool, reg: u8, from: Memory) {
        self.general(wide, 0x8B, reg, Operand::Memory(from));
    }

    pub(super) fn store(&mut self, wide: bool, to: Memory, reg: u8) {
        self.general(wide, 0x89, reg, Operand::Memory(to));
    }

    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.general(true, 0x89, from, Operand::Register(to));
    }

    /// `to += reg`.
    pub(super) fn add(&mut self, wide: bool, to: Operand, reg: u8) {
        self.general(wide, 0x01, reg, to);
    }

    /// `reg ^= [from]`.
    pub(super) fn xor_from(&mut self, wide: bool, reg: u8, from: Memory) {
        self.general(wide, 0x33, reg, Operand::Memory(from));
    }

    pub(super) fn add_immediate(&mut self, wide: bool, reg: u8, x: i32) {
        self.general(wide, 0x81, 0, Operand::Register(reg));
        self.put_i32(x);
    }

    /// Leaves the high half zero.
    pub(super) fn and_immediate(&mut self, reg: u8, x: i32) {
        self.general(false, 0x81, 4, Operand::Register(reg));
        self.put_i32(x);
    }

    pub(super) fn invert(&mut self, wide: bool, reg: u8) {
        self.general(wide, 0xF7, 2, Operand::Register(reg));
    }

    /// Flags of `reg & reg`.
    pub(super) fn test(&mut self, reg: u8) {
        self.general(true, 0x85, reg, Operand::Register(reg));
    }

    pub(super) fn push(&mut self, reg: u8) {
        if reg & 8 != 0 {
            self.put(&[0x41]);
        }
        self.put(&[0x50 | (reg & 7)]);
    }

    pub(super) fn pop(&mut self, reg: u8) {
        if reg & 8 != 0 {
            self.put(&[0x41]);
        }
        self.put(&[0x58 | (reg & 7)]);
    }

    /// Jumps forward if the last result was zero; [`Encoder::land`] says to where.
    pub(super) fn jump_if_zero(&mut self) -> usize {
        self.put(&[0x0F, 0x84]);
        self.put_i32(0);
        self.bytes.len()
    }

    /// The jump that ended at `from` comes here.
    pub(super) fn land(&mut self, from: usize) {
        let distance = (self.bytes.len() - from) as i32;
        self.bytes[from - 4..from].copy_from_slice(&distance.to_le_bytes());
    }

    /// Jumps back to `to` if the last result was not zero.
    pub(super) fn loop_to(&mut self, to: usize) {
        self.put(&[0x0F, 0x85]);
        let distance = to as i64 - (self.bytes.len() as i64 + 4);
        self.put_i32(distance as i32);
    }

    /// To the next multiple of 64, by long no-operations.
    pub(super) fn align(&mut self) {
        while !self.bytes.len().is_multiple_of(64) {
            let left = 64 - self.bytes.len() % 64;
            match left {
                1 => self.put(&[0x90]),
                2 => self.put(&[0x66, 0x90]),
                3 => self.put(&[0x0F, 0x1F, 0x00]),
                4..8 => self.put(&[0x0F, 0x1F, 0x40, 0x00]),
                _ => self.put(&[0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0]),
            }
        }
    }

    pub(super) fn zero_upper(&mut self) {
        self.put(&[0xC5, 0xF8, 0x77]);
    }

    pub(super) fn ret(&mut self) {
        self.put(&[0xC3]);
    }

    /// A vector instruction of opcode map 0F with prefix `pp` (1: 66, 2: F3): `reg`, `second` and an operand.
    fn vector(&mut self, width: Width, pp: u8, opcode: u8, reg: u8, second: u8, operand: Operand) {
        let (b, x) = operand.extensions();
        let not = |bit: bool, at: u8| u8::from(!bit) << at;
        match width {
            Width::Y => {
                debug_assert!(reg < 16 && second < 16);
                let first = not(reg & 8 != 0, 7) | not(x, 6) | not(b, 5) | 1;
                // W = 0, L = 1.
                self.put(&[0xC4, first, (!second & 15) << 3 | 1 << 2 | pp]);
            }
            Width::Z => {
                let first =
                    not(reg & 8 != 0, 7) | not(x, 6) | not(b, 5) | not(reg & 16 != 0, 4) | 1;
                // No mask, 512 bits.
                let third = 2 << 5 | not(second & 16 != 0, 3);
                self.put(&[0x62, first, (!second & 15) << 3 | 1 << 2 | pp, third]);
            }
        }
        self.put(&[opcode]);
        self.operand(reg, operand);
    }

    pub(super) fn vector_load(&mut self, width: Width, reg: u8, from: Memory) {
        self.vector(width, 2, 0x6F, reg, 0, Operand::Memory(from));
    }

    pub(super) fn vector_store(&mut self, width: Width, to: Memory, reg: u8) {
        self.vector(width, 2, 0x7F, reg, 0, Operand::Memory(to));
    }

    /// `to = a + b`, in 32-bit lanes.
    pub(super) fn vector_add(&mut self, width: Width, to: u8, a: u8, b: Operand) {
        self.vector(width, 1, 0xFE, to, a, b);
    }

    /// `to = a ^ b`.
    pub(super) fn vector_xor(&mut self, width: Width, to: u8, a: u8, b: Operand) {
        self.vector(width, 1, 0xEF, to, a, b);
    }
}
