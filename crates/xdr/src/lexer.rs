//! Text into tokens (RFC 4506, section 6.2), and what stands around them in files that were written for
//! rpcgen: `%` lines for its C, and lines of the C preprocessor.

use std::collections::HashSet;

use fusewire_asn1::Diagnostic;
use fusewire_asn1::source::{Source, Span};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name.
    Word,
    /// Digits, with a minus sign or not, or with `0x`.
    Number,
    /// A string between quotation marks, which are part of the span.
    Text,
    /// `#define`, when a name and a number or a string follow.
    Define,
    /// Any other single sign.
    Sign(u8),
    /// The end of the file.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// All tokens, the last of which is [`Kind::End`], and what is wrong.
pub fn tokens(source: &Source) -> (Vec<Token>, Vec<Diagnostic>) {
    let mut lexer = Lexer {
        source,
        text: source.text().as_bytes(),
        at: 0,
        tokens: Vec::new(),
        diagnostics: Vec::new(),
        defined: HashSet::new(),
        conditions: Vec::new(),
        after_percent: false,
    };
    lexer.run();
    (lexer.tokens, lexer.diagnostics)
}

/// An `#if` that is open.
struct Condition {
    at: Span,
    /// Whether its lines are read.
    holds: bool,
    /// Whether a branch of it was read.
    was_taken: bool,
}

struct Lexer<'s> {
    source: &'s Source,
    text: &'s [u8],
    at: usize,
    tokens: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
    /// Names that a `#define` gave.
    defined: HashSet<String>,
    conditions: Vec<Condition>,
    /// Whether the line before was one of rpcgen's C: one warning is enough for a block of them.
    after_percent: bool,
}

impl<'s> Lexer<'s> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            self.line_start();
            while self.at < self.text.len() && !self.is_line_end() {
                self.token();
            }
            self.at += 1;
        }
        let end = self.text.len();
        if let Some(open) = self.conditions.pop() {
            let message = "this condition of the preprocessor has no #endif";
            self.diagnostics.push(Diagnostic::error(0, open.at, message).help("add #endif"));
        }
        self.push(Kind::End, end, end);
    }

    fn is_line_end(&self) -> bool {
        matches!(self.text.get(self.at), Some(b'\n' | b'\r'))
    }

    fn line(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        from + rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len())
    }

    /// Lines that are not in the language.
    fn line_start(&mut self) {
        let start = self.at;
        let end = self.line(start);
        if self.text.get(start) == Some(&b'%') {
            if self.reads() && !self.after_percent {
                let message = "a line for rpcgen's C is passed over";
                let help = "what it declares must be written in Rust beside the generated code";
                self.diagnostics
                    .push(Diagnostic::warning(0, span(start, start + 1), message).help(help));
            }
            self.after_percent = true;
            self.at = self.continued(end);
            return;
        }
        self.after_percent = false;
        let blanks = self.text[start..end].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        if self.text.get(start + blanks) == Some(&b'#') {
            let end = self.continued(end);
            self.at = end;
            self.directive(start + blanks, end);
        } else if !self.reads() {
            self.at = end;
        }
    }

    /// Returns the end of a line of C that ends at `end` unless a backslash joins it with the next one.
    fn continued(&self, mut end: usize) -> usize {
        while end < self.text.len() && self.text[..end].ends_with(b"\\") {
            end = self.line((end + 1).min(self.text.len()));
        }
        end
    }

    fn reads(&self) -> bool {
        self.conditions.iter().all(|c| c.holds)
    }

    fn directive(&mut self, start: usize, end: usize) {
        let line = self.source.slice(span(start, end));
        let at = span(start, start + line.trim_end().len());
        let body = line[1..].trim();
        let word_len = body.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (word, rest) = body.split_at(word_len);
        let rest = rest.trim();
        match word {
            "ifdef" => self.open(at, self.defined.contains(first_word(rest))),
            "ifndef" => self.open(at, !self.defined.contains(first_word(rest))),
            "if" => {
                let holds = self.condition(at, rest);
                self.open(at, holds);
            }
            "else" | "elif" => {
                let holds = word == "else" || self.condition(at, rest);
                match self.conditions.last_mut() {
                    Some(open) => {
                        open.holds = !open.was_taken && holds;
                        open.was_taken |= open.holds;
                    }
                    None => self.unopened(at),
                }
            }
            "endif" if self.conditions.pop().is_none() => self.unopened(at),
            "endif" => {}
            _ if !self.reads() => {}
            "define" => self.define(start, at, rest),
            "undef" => {
                self.defined.remove(first_word(rest));
            }
            // What cpp writes to say where a line came from.
            "line" => {}
            _ if word.starts_with(|c: char| c.is_ascii_digit()) || body.is_empty() => {}
            _ => {
                let message = format!("#{word} is passed over");
                let help = "run the C preprocessor first: cpp -P FILE.x";
                self.diagnostics.push(Diagnostic::warning(0, at, message).help(help));
            }
        }
    }

    fn open(&mut self, at: Span, holds: bool) {
        self.conditions.push(Condition { at, holds, was_taken: holds });
    }

    fn unopened(&mut self, at: Span) {
        let message = "no #if is open here";
        self.diagnostics.push(Diagnostic::error(0, at, message).help("remove this line"));
    }

    /// `0`, `1`, `defined(NAME)` and their negation; anything else holds, with a warning.
    fn condition(&mut self, at: Span, text: &str) -> bool {
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, text),
        };
        let holds = match rest.strip_prefix("defined") {
            Some(name) => {
                let name = name.trim().trim_start_matches('(').trim_end_matches(')').trim();
                self.defined.contains(name)
            }
            None if rest == "0" => false,
            None if rest == "1" => true,
            None => {
                let message = "this condition is not read, and taken for true";
                let help = "run the C preprocessor first: cpp -P FILE.x";
                self.diagnostics.push(Diagnostic::warning(0, at, message).help(help));
                return true;
            }
        };
        holds != negated
    }

    /// A name alone is for `#ifdef`; a name with a number or another name is a constant.
    fn define(&mut self, start: usize, at: Span, rest: &str) {
        let name = first_word(rest);
        self.defined.insert(name.to_owned());
        let value = rest[name.len()..].trim();
        // A string is a constant if only a comment follows it.
        let text_len = text_len(value.as_bytes()).filter(|len| {
            let after = value[*len..].trim_start();
            after.is_empty() || after.starts_with("/*")
        });
        let value = match text_len {
            Some(len) => &value[..len],
            None => value.split("/*").next().unwrap_or("").trim(),
        };
        if value.is_empty() {
            return;
        }
        let is_word = value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let is_constant = is_word || text_len.is_some();
        if name.is_empty() || rest[name.len()..].starts_with('(') || !is_constant {
            let message = "this definition of the preprocessor is no constant and is passed over";
            let help = "run the C preprocessor first: cpp -P FILE.x";
            self.diagnostics.push(Diagnostic::warning(0, at, message).help(help));
            return;
        }
        let text = self.source.text();
        let place = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        self.push(Kind::Define, start, start + 1);
        self.push(Kind::Word, place(name), place(name) + name.len());
        let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let kind = match is_number {
            _ if text_len.is_some() => Kind::Text,
            true => Kind::Number,
            false => Kind::Word,
        };
        self.push(kind, place(value), place(value) + value.len());
    }

    fn token(&mut self) {
        let (start, text) = (self.at, self.text);
        let rest = &text[start..];
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        match rest[0] {
            b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
            b'/' if rest.starts_with(b"/*") => self.comment(),
            b'/' if rest.starts_with(b"//") => {
                self.at = self.line(start);
                let message = "// is no comment of the XDR language, and is read as one";
                let help = "comments stand between /* and */";
                self.diagnostics
                    .push(Diagnostic::warning(0, span(start, start + 2), message).help(help));
            }
            b if b.is_ascii_alphabetic() || b == b'_' => {
                self.at += rest.iter().take_while(|b| word(b)).count();
                self.push(Kind::Word, start, self.at);
            }
            b if b.is_ascii_digit()
                || (b == b'-' && rest.get(1).is_some_and(u8::is_ascii_digit)) =>
            {
                self.at += 1 + rest[1..].iter().take_while(|b| word(b)).count();
                self.push(Kind::Number, start, self.at);
            }
            b'"' => match text_len(rest) {
                Some(len) => {
                    self.at += len;
                    self.push(Kind::Text, start, self.at);
                }
                None => {
                    self.at = self.line(start);
                    let message = "this string has no end on its line";
                    self.diagnostics
                        .push(Diagnostic::error(0, span(start, self.at), message).help("add `\"`"));
                }
            },
            b if b.is_ascii_graphic() => {
                self.at += 1;
                self.push(Kind::Sign(b), start, self.at);
            }
            _ => {
                let len = self.source.text()[start..].chars().next().map_or(1, char::len_utf8);
                self.at += len;
                let message = "this character is not of the XDR language";
                let help = "remove it; only comments and % lines may have such characters";
                self.diagnostics
                    .push(Diagnostic::error(0, span(start, self.at), message).help(help));
            }
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = &self.text[start + 2..];
        match rest.windows(2).position(|w| w == b"*/") {
            Some(len) => self.at = start + len + 4,
            None => {
                self.at = self.text.len();
                let message = "this comment has no end";
                self.diagnostics
                    .push(Diagnostic::error(0, span(start, start + 2), message).help("add */"));
            }
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        self.tokens.push(Token { kind, span: span(start, end) });
    }
}

/// Returns the length of the string that the bytes begin with, including its quotation marks.
fn text_len(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes.strip_prefix(b"\"")?;
    loop {
        match rest {
            [b'"', ..] => return Some(bytes.len() - rest.len() + 1),
            [] | [b'\n' | b'\r', ..] => return None,
            [b'\\', b'\n' | b'\r', ..] | [b'\\'] => return None,
            [b'\\', _, after @ ..] | [_, after @ ..] => rest = after,
        }
    }
}

fn first_word(text: &str) -> &str {
    let len = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    &text[..len]
}

fn span(start: usize, end: usize) -> Span {
    Span::new(start as u32, end as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> (Vec<String>, usize) {
        let source = Source::new("x", text.as_bytes());
        let (tokens, diagnostics) = tokens(&source);
        (tokens.iter().map(|t| source.slice(t.span).to_owned()).collect(), diagnostics.len())
    }

    #[test]
    fn signs_words_and_numbers() {
        let (found, wrong) = words("const A_1=-5;/* x\n */ string s<0x1F>;");
        let expected = ["const", "A_1", "=", "-5", ";", "string", "s", "<", "0x1F", ">", ";", ""];
        assert_eq!((found, wrong), (expected.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn lines_of_others() {
        let text = "# 1 \"a.x\"\n#define N 7 /* n */\n#ifdef N\nint\n#else\nno\n#endif\n#ifdef RPC_HDR\n%x\nno\n#endif\n%a\n%b\n#pragma x\n";
        let (found, wrong) = words(text);
        assert_eq!(found, ["#", "N", "7", "int", ""].map(str::to_owned));
        assert_eq!(wrong, 2, "one for the block of % lines, one for #pragma");
        assert_eq!(
            words("#endif\n").1 + words("#if 0\nx").1 + words("/* ").1 + words("\u{e9}").1,
            4
        );
    }
}
