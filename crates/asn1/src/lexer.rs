//! Text into tokens (X.680 clause 12), white space and comments among them: the tokens together are the
//! text. Total and linear; what is no token is [`TokenKind::Unknown`].

use crate::source::Span;

/// What a token is. Keywords are [`TokenKind::Upper`]: which words are reserved depends on where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Spaces and line ends.
    White,
    /// `-- …` up to a line's end or `--`, and `/* … */`, which nest.
    Comment,
    /// A word that begins with a capital.
    Upper,
    /// A word that begins with a small letter.
    Lower,
    /// `&Word`.
    FieldUpper,
    /// `&word`.
    FieldLower,
    /// Digits.
    Number,
    /// Digits with a fraction or an exponent.
    Real,
    /// `'0101'B`.
    Bits,
    /// `'0aF'H`.
    Hex,
    /// `"text"`.
    Text,
    /// `::=`.
    Assign,
    /// `..`.
    Range,
    /// `...`.
    Ellipsis,
    /// Any other single sign.
    Sign(u8),
    /// No token of ASN.1.
    Unknown,
    /// The end of the file; never in a list of tokens.
    End,
}

impl TokenKind {
    /// Whether a parser passes over it.
    pub fn is_trivia(self) -> bool {
        matches!(self, TokenKind::White | TokenKind::Comment)
    }
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it is.
    pub span: Span,
    /// Whether it ends as it must: a comment or string that the file's end cut short does not.
    pub is_whole: bool,
}

/// All tokens of a text, in order, without gaps.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    while lexer.at < text.len() {
        let start = lexer.at;
        let (kind, is_whole) = lexer.next();
        while !text.is_char_boundary(lexer.at) {
            lexer.at += 1;
        }
        tokens.push(Token { kind, span: Span::new(start as u32, lexer.at as u32), is_whole });
    }
    tokens
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn take_while(&mut self, mut is: impl FnMut(u8) -> bool) {
        while self.at < self.bytes.len() && is(self.bytes[self.at]) {
            self.at += 1;
        }
    }

    /// The next token's kind, `at` past it, and whether it is whole.
    fn next(&mut self) -> (TokenKind, bool) {
        let first = self.peek(0);
        let kind = match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                self.take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c));
                TokenKind::White
            }
            b'-' if self.peek(1) == b'-' => return self.line_comment(),
            b'/' if self.peek(1) == b'*' => return self.block_comment(),
            b'A'..=b'Z' => self.word(TokenKind::Upper),
            b'a'..=b'z' => self.word(TokenKind::Lower),
            b'&' if self.peek(1).is_ascii_alphabetic() => {
                self.at += 1;
                let upper = self.peek(0).is_ascii_uppercase();
                self.word(if upper { TokenKind::FieldUpper } else { TokenKind::FieldLower })
            }
            b'0'..=b'9' => self.number(),
            b'\'' => return self.quoted(),
            b'"' => return self.string(),
            b':' if self.bytes[self.at..].starts_with(b"::=") => {
                self.at += 3;
                TokenKind::Assign
            }
            b'.' if self.bytes[self.at..].starts_with(b"...") => {
                self.at += 3;
                TokenKind::Ellipsis
            }
            b'.' if self.peek(1) == b'.' => {
                self.at += 2;
                TokenKind::Range
            }
            0x21..=0x7e => {
                self.at += 1;
                TokenKind::Sign(first)
            }
            _ => return self.unknown(),
        };
        (kind, true)
    }

    /// A byte that begins no token; a space of Unicode is white.
    fn unknown(&mut self) -> (TokenKind, bool) {
        let c = self.text[self.at..].chars().next().unwrap_or('\0');
        self.at += c.len_utf8();
        (if c.is_whitespace() { TokenKind::White } else { TokenKind::Unknown }, true)
    }

    /// Letters, digits and single hyphens; an underscore, which ASN.1 has not, is left to the parser to say.
    fn word(&mut self, kind: TokenKind) -> TokenKind {
        while self.at < self.bytes.len() {
            match self.bytes[self.at] {
                b if b.is_ascii_alphanumeric() || b == b'_' => self.at += 1,
                b'-' if self.peek(1).is_ascii_alphanumeric() => self.at += 1,
                _ => break,
            }
        }
        kind
    }

    fn number(&mut self) -> TokenKind {
        let digit = |b: u8| b.is_ascii_digit();
        self.take_while(digit);
        let mut kind = TokenKind::Number;
        // "1..5" is a range of integers. "1...5" is a range from the real number "1.", because a lexical item is as long as
        // it can be (X.680 12.1, 12.9); behind "1" no "..." can stand.
        let dots = (0..4).take_while(|n| self.peek(*n) == b'.').count();
        if dots == 1 || dots == 3 {
            self.at += 1;
            self.take_while(digit);
            kind = TokenKind::Real;
        }
        let sign = usize::from(self.peek(1) == b'-');
        if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
            self.at += 1 + sign;
            self.take_while(digit);
            kind = TokenKind::Real;
        }
        kind
    }

    fn line_comment(&mut self) -> (TokenKind, bool) {
        self.at += 2;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\n' | b'\r' | 0x0b | 0x0c => break,
                b'-' if self.peek(1) == b'-' => {
                    self.at += 2;
                    break;
                }
                _ => self.at += 1,
            }
        }
        (TokenKind::Comment, true)
    }

    fn block_comment(&mut self) -> (TokenKind, bool) {
        self.at += 2;
        let mut depth = 1_u32;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return (TokenKind::Comment, true);
                    }
                }
                _ => self.at += 1,
            }
        }
        (TokenKind::Comment, false)
    }

    /// `'…'B` or `'…'H`; an apostrophe alone is no token. No such string holds anything but digits and white.
    fn quoted(&mut self) -> (TokenKind, bool) {
        let start = self.at;
        self.at += 1;
        self.take_while(|b| b.is_ascii_hexdigit() || b.is_ascii_whitespace());
        if self.peek(0) == b'\'' {
            let kind = match self.peek(1) {
                b'B' | b'b' => Some(TokenKind::Bits),
                b'H' | b'h' => Some(TokenKind::Hex),
                _ => None,
            };
            if let Some(kind) = kind {
                let digits = &self.bytes[start + 1..self.at];
                self.at += 2;
                let binary = |b: &u8| matches!(b, b'0' | b'1') || b.is_ascii_whitespace();
                return (kind, kind == TokenKind::Hex || digits.iter().all(binary));
            }
        }
        if let Some(kind) = self.doubly_quoted(start) {
            return (kind, true);
        }
        self.at = start + 1;
        (TokenKind::Unknown, true)
    }

    /// `''…''B` or `''…''H`, as some word processors leave it: nothing else looks so. The parser says it.
    fn doubly_quoted(&mut self, start: usize) -> Option<TokenKind> {
        if !self.bytes[start..].starts_with(b"''") {
            return None;
        }
        self.at = start + 2;
        self.take_while(|b| b.is_ascii_hexdigit());
        let digits = &self.bytes[start + 2..self.at];
        let kind = match &self.bytes[self.at..] {
            [b'\'', b'\'', b'B', ..] if digits.iter().all(|b| matches!(b, b'0' | b'1')) => {
                TokenKind::Bits
            }
            [b'\'', b'\'', b'H', ..] => TokenKind::Hex,
            _ => return None,
        };
        self.at += 3;
        Some(kind)
    }

    /// `"…"` with `""` for a quotation mark; it may run over lines.
    fn string(&mut self) -> (TokenKind, bool) {
        self.at += 1;
        while self.at < self.bytes.len() {
            if self.peek(0) == b'"' {
                if self.peek(1) != b'"' {
                    self.at += 1;
                    return (TokenKind::Text, true);
                }
                self.at += 1;
            }
            self.at += 1;
        }
        self.at = self.bytes.len();
        (TokenKind::Text, false)
    }
}
