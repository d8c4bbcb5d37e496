//! The assembler's macros of the rounds: two quarter rounds of vectors at a time, and what scalar code is woven
//! into them, an instruction after each of theirs. Woven in groups, a loop takes 10 % longer.
//!
//! A macro of vectors calls its last argument but four, the weave, with the numbers 0 to 37 and its last four.
//! Operands: `w` points two bytes into [`Work::spill`](super::super::Work), as [`spill`](super::spill) says; other
//! fields are named by their offset from it.

/// Weaves in nothing.
macro_rules! nothing {
    () => {
        r"
.macro fw_nothing i p q r s
.endm
"
    };
}

/// Weaves in one block absorbed (see `stages/poly1305.rs`); its arguments are the limbs of the accumulator and
/// where the block is. The same outside of the rounds: `fw_alone`.
macro_rules! absorb {
    () => {
        r"
.macro fw_absorb i h0 h1 h2 at
.if \i == 0
mov rdx, \h0
.elseif \i == 1
mulx {t1}, {t0}, [{w}+{r0}]
.elseif \i == 2
mulx {t3}, {t2}, [{w}+{r1}]
.elseif \i == 4
mov rdx, \h1
.elseif \i == 5
mulx \h1, \h0, [{w}+{s1}]
.elseif \i == 7
add \h0, {t0}
.elseif \i == 8
adc \h1, {t1}
.elseif \i == 10
mulx {t1}, {t0}, [{w}+{r0}]
.elseif \i == 11
mov rdx, \h2
.elseif \i == 13
imul rdx, [{w}+{s1}]
.elseif \i == 14
imul \h2, [{w}+{r0}]
.elseif \i == 16
add {t2}, rdx
.elseif \i == 17
adc {t3}, 0
.elseif \i == 18
add {t2}, {t0}
.elseif \i == 20
adc {t3}, {t1}
.elseif \i == 21
add \h1, {t2}
.elseif \i == 23
adc \h2, {t3}
.elseif \i == 24
shrx {t0}, \h2, {w}
.elseif \i == 26
and \h2, 3
.elseif \i == 27
lea {t0}, [{t0}+4*{t0}]
.elseif \i == 29
add \h0, [\at]
.elseif \i == 30
adc \h1, [\at+8]
.elseif \i == 32
adc \h2, 1
.elseif \i == 33
add \h0, {t0}
.elseif \i == 35
adc \h1, 0
.elseif \i == 36
adc \h2, 0
.endif
.endm
.macro fw_alone h0 h1 h2 at
.irp i, 0,1,2,4,5,7,8,10,11,13,14,16,17,18,20,21,23,24,26,27,29,30,32,33,35,36
fw_absorb \i, \h0, \h1, \h2, \at
.endr
.endm
"
    };
}

/// Weaves in a quarter round of block 0 in scalar registers; word c is number `c` of [`Work::words`].
macro_rules! quarter {
    () => {
        r"
.macro fw_quarter i a b c d
.if \i == 0
add \a, \b
.elseif \i == 2
xor \d, \a
.elseif \i == 5
rol \d, 16
.elseif \i == 8
mov {t:e}, [{w}+{words}+4*\c]
.elseif \i == 10
add {t:e}, \d
.elseif \i == 13
xor \b, {t:e}
.elseif \i == 16
rol \b, 12
.elseif \i == 19
add \a, \b
.elseif \i == 21
xor \d, \a
.elseif \i == 24
rol \d, 8
.elseif \i == 27
add {t:e}, \d
.elseif \i == 29
mov [{w}+{words}+4*\c], {t:e}
.elseif \i == 32
xor \b, {t:e}
.elseif \i == 35
rol \b, 7
.endif
.endm
"
    };
}

/// Two quarter rounds x and y of one of two batches of eight blocks, `k` bytes into the rows. Row b is in a
/// register, rows a, c and d are taken from where `f` says and put where they belong.
macro_rules! pairs {
    () => {
        r"
.macro fw_pair_from k xb xa xc xd fa fc fd yb ya yc yd ga gc gd w p q r s
vpaddd ymm8, ymm\xb, [{w}-2+\fa+\k]
\w 0, \p, \q, \r, \s
vpaddd ymm11, ymm\yb, [{w}-2+\ga+\k]
\w 1, \p, \q, \r, \s
vpxor ymm10, ymm8, [{w}-2+\fd+\k]
\w 2, \p, \q, \r, \s
vpxor ymm13, ymm11, [{w}-2+\gd+\k]
vpshufb ymm10, ymm10, [rip+{rot}]
\w 4, \p, \q, \r, \s
vpshufb ymm13, ymm13, [rip+{rot}]
\w 5, \p, \q, \r, \s
vpaddd ymm9, ymm10, [{w}-2+\fc+\k]
vpaddd ymm12, ymm13, [{w}-2+\gc+\k]
\w 7, \p, \q, \r, \s
vpxor ymm\xb, ymm\xb, ymm9
\w 8, \p, \q, \r, \s
vpxor ymm\yb, ymm\yb, ymm12
vpsrld ymm14, ymm\xb, 20
\w 10, \p, \q, \r, \s
vpsrld ymm15, ymm\yb, 20
\w 11, \p, \q, \r, \s
vpslld ymm\xb, ymm\xb, 12
vpslld ymm\yb, ymm\yb, 12
\w 13, \p, \q, \r, \s
vpor ymm\xb, ymm\xb, ymm14
\w 14, \p, \q, \r, \s
vpor ymm\yb, ymm\yb, ymm15
vpaddd ymm8, ymm8, ymm\xb
\w 16, \p, \q, \r, \s
vpaddd ymm11, ymm11, ymm\yb
\w 17, \p, \q, \r, \s
vmovdqa [{w}-2+64*\xa+\k], ymm8
\w 18, \p, \q, \r, \s
vmovdqa [{w}-2+64*\ya+\k], ymm11
\w 19, \p, \q, \r, \s
vpxor ymm10, ymm10, ymm8
\w 20, \p, \q, \r, \s
vpxor ymm13, ymm13, ymm11
\w 21, \p, \q, \r, \s
vpshufb ymm10, ymm10, [rip+{rot}+32]
vpshufb ymm13, ymm13, [rip+{rot}+32]
\w 23, \p, \q, \r, \s
vmovdqa [{w}-2+64*\xd+\k], ymm10
\w 24, \p, \q, \r, \s
vmovdqa [{w}-2+64*\yd+\k], ymm13
vpaddd ymm9, ymm9, ymm10
\w 26, \p, \q, \r, \s
vpaddd ymm12, ymm12, ymm13
\w 27, \p, \q, \r, \s
vmovdqa [{w}-2+64*\xc+\k], ymm9
vmovdqa [{w}-2+64*\yc+\k], ymm12
\w 29, \p, \q, \r, \s
vpxor ymm\xb, ymm\xb, ymm9
\w 30, \p, \q, \r, \s
vpxor ymm\yb, ymm\yb, ymm12
vpsrld ymm14, ymm\xb, 25
\w 32, \p, \q, \r, \s
vpsrld ymm15, ymm\yb, 25
\w 33, \p, \q, \r, \s
vpslld ymm\xb, ymm\xb, 7
vpslld ymm\yb, ymm\yb, 7
\w 35, \p, \q, \r, \s
vpor ymm\xb, ymm\xb, ymm14
\w 36, \p, \q, \r, \s
vpor ymm\yb, ymm\yb, ymm15
.endm
.macro fw_pair k xb xa xc xd yb ya yc yd w=fw_nothing p=0 q=0 r=0 s=0
fw_pair_from \k, \xb,\xa,\xc,\xd, 64*\xa,64*\xc,64*\xd, \yb,\ya,\yc,\yd, 64*\ya,64*\yc,64*\yd, \w,\p,\q,\r,\s
.endm
"
    };
}

/// Round 1 of both batches, as far as [`Work::start`](super::super::Work) does not have it: the quarter round
/// with the counter. Rows b go to their registers, 0 to 3 and 4 to 7.
macro_rules! first_column {
    () => {
        r"
vmovdqa ymm8, [{w}+{start}]
vmovdqa ymm0, [{w}+{start}+256]
vpxor ymm10, ymm8, [{w}+{input}+768]
vpxor ymm13, ymm8, [{w}+{input}+800]
vpshufb ymm10, ymm10, [rip+{rot}]
vpshufb ymm13, ymm13, [rip+{rot}]
vpaddd ymm9, ymm10, [{w}+{start}+512]
vpaddd ymm12, ymm13, [{w}+{start}+512]
vpxor ymm4, ymm0, ymm12
vpxor ymm0, ymm0, ymm9
vpsrld ymm14, ymm0, 20
vpsrld ymm15, ymm4, 20
vpslld ymm0, ymm0, 12
vpslld ymm4, ymm4, 12
vpor ymm0, ymm0, ymm14
vpor ymm4, ymm4, ymm15
vpaddd ymm11, ymm8, ymm4
vpaddd ymm8, ymm8, ymm0
vmovdqa [{w}-2], ymm8
vmovdqa [{w}-2+32], ymm11
vpxor ymm10, ymm10, ymm8
vpxor ymm13, ymm13, ymm11
vpshufb ymm10, ymm10, [rip+{rot}+32]
vpshufb ymm13, ymm13, [rip+{rot}+32]
vmovdqa [{w}-2+768], ymm10
vmovdqa [{w}-2+800], ymm13
vpaddd ymm9, ymm9, ymm10
vpaddd ymm12, ymm12, ymm13
vmovdqa [{w}-2+512], ymm9
vmovdqa [{w}-2+544], ymm12
vpxor ymm0, ymm0, ymm9
vpxor ymm4, ymm4, ymm12
vpsrld ymm14, ymm0, 25
vpsrld ymm15, ymm4, 25
vpslld ymm0, ymm0, 7
vpslld ymm4, ymm4, 7
vpor ymm0, ymm0, ymm14
vpor ymm4, ymm4, ymm15
vmovdqa ymm1, [{w}+{start}+320]
vmovdqa ymm2, [{w}+{start}+384]
vmovdqa ymm3, [{w}+{start}+448]
vmovdqa ymm5, ymm1
vmovdqa ymm6, ymm2
vmovdqa ymm7, ymm3
"
    };
}

/// Half of two quarter rounds x and y of eight blocks: additions, xors, and rotations of rows d by bytes (`rot` is
/// the shuffle) and of rows b by `left` bits. Rows are in registers, but c comes from where `f` says. Clobbers
/// ymm10 and ymm11.
macro_rules! halves {
    () => {
        r"
.macro fw_half xa xb xc xd ya yb yc yd xf yf rot left right w=fw_nothing p=0 q=0 r=0 s=0
vpaddd ymm\xa, ymm\xa, ymm\xb
\w 0, \p, \q, \r, \s
\w 1, \p, \q, \r, \s
\w 2, \p, \q, \r, \s
vpaddd ymm\ya, ymm\ya, ymm\yb
\w 4, \p, \q, \r, \s
vpxor ymm\xd, ymm\xd, ymm\xa
\w 5, \p, \q, \r, \s
vpxor ymm\yd, ymm\yd, ymm\ya
\w 7, \p, \q, \r, \s
\w 8, \p, \q, \r, \s
vpshufb ymm\xd, ymm\xd, [rip+{rot}+\rot]
\w 10, \p, \q, \r, \s
\w 11, \p, \q, \r, \s
vpshufb ymm\yd, ymm\yd, [rip+{rot}+\rot]
\w 13, \p, \q, \r, \s
vpaddd ymm\xc, ymm\xd, \xf
\w 14, \p, \q, \r, \s
\w 16, \p, \q, \r, \s
vpaddd ymm\yc, ymm\yd, \yf
\w 17, \p, \q, \r, \s
\w 18, \p, \q, \r, \s
vpxor ymm\xb, ymm\xb, ymm\xc
\w 19, \p, \q, \r, \s
\w 20, \p, \q, \r, \s
vpxor ymm\yb, ymm\yb, ymm\yc
\w 21, \p, \q, \r, \s
\w 23, \p, \q, \r, \s
vpsrld ymm10, ymm\xb, \right
\w 24, \p, \q, \r, \s
vpsrld ymm11, ymm\yb, \right
\w 26, \p, \q, \r, \s
\w 27, \p, \q, \r, \s
vpslld ymm\xb, ymm\xb, \left
\w 29, \p, \q, \r, \s
\w 30, \p, \q, \r, \s
vpslld ymm\yb, ymm\yb, \left
\w 32, \p, \q, \r, \s
vpor ymm\xb, ymm\xb, ymm10
\w 33, \p, \q, \r, \s
\w 35, \p, \q, \r, \s
vpor ymm\yb, ymm\yb, ymm11
\w 36, \p, \q, \r, \s
.endm
"
    };
}

pub(super) use {absorb, first_column, halves, nothing, pairs, quarter};
