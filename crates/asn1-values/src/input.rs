//! What a file of BER may be wrapped in: nothing, PEM (RFC 7468), or hexadecimal digits.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use std::borrow::Cow;
use std::fmt;

/// How the bytes stand in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Whichever it looks like.
    #[default]
    Auto,
    /// As they are.
    Ber,
    /// In base 64 between `-----BEGIN X-----` and `-----END X-----`.
    Pem,
    /// As digits; space, colons, commas and `0x` between them are passed over.
    Hex,
}

/// One encoding out of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded<'a> {
    /// What PEM calls it.
    pub label: Option<String>,
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// A file is not in the form that it should be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Which form.
    pub form: &'static str,
    /// What is wrong.
    pub problem: String,
    /// The line, from one.
    pub line: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no {}: {} in line {}", self.form, self.problem, self.line)
    }
}

impl std::error::Error for Malformed {}

/// The encodings in a file: one, or those of PEM, of which there may be several.
///
/// # Errors
/// The file is not in the form that it should be in.
pub fn encodings(file: &[u8], form: Form) -> Result<Vec<Encoded<'_>>, Malformed> {
    let whole = |bytes| vec![Encoded { label: None, bytes }];
    match form {
        Form::Ber => Ok(whole(Cow::Borrowed(file))),
        Form::Hex => Ok(whole(Cow::Owned(hex(file)?))),
        Form::Pem => pem(file),
        Form::Auto if find(file, BEGIN, 0).is_some_and(|at| is_text(&file[..at])) => pem(file),
        // Digits that are BER by themselves would be text of a rare kind.
        Form::Auto if is_hex(file) && !crate::dump::is_ber(file) => {
            Ok(whole(Cow::Owned(hex(file)?)))
        }
        Form::Auto => Ok(whole(Cow::Borrowed(file))),
    }
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";

fn find(text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.windows(what.len()).position(|w| w == what).map(|at| from + at)
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| !b.is_ascii_control() || b.is_ascii_whitespace())
}

fn is_hex(bytes: &[u8]) -> bool {
    let digits = bytes.iter().filter(|b| b.is_ascii_hexdigit()).count();
    digits >= 4 && bytes.iter().all(|b| b.is_ascii_hexdigit() || b" \t\r\n:,xX".contains(b))
}

fn line_of(file: &[u8], at: usize) -> usize {
    1 + file[..at.min(file.len())].iter().filter(|b| **b == b'\n').count()
}

fn hex(file: &[u8]) -> Result<Vec<u8>, Malformed> {
    let error = |at, problem: String| Malformed {
        form: "hexadecimal text",
        problem,
        line: line_of(file, at),
    };
    let mut digits = Vec::with_capacity(file.len());
    let mut at = 0;
    while let Some(&byte) = file.get(at) {
        let prefix = byte == b'0' && matches!(file.get(at + 1), Some(b'x' | b'X'));
        match byte {
            _ if prefix => at += 1,
            b if b.is_ascii_hexdigit() => digits.push(b),
            b' ' | b'\t' | b'\r' | b'\n' | b':' | b',' => {}
            b => return Err(error(at, format!("`{}`", b.escape_ascii()))),
        }
        at += 1;
    }
    if digits.len() % 2 == 1 {
        return Err(error(file.len(), "an odd number of digits".to_owned()));
    }
    HEXLOWER_PERMISSIVE.decode(&digits).map_err(|_| error(0, "a digit".to_owned()))
}

fn pem(file: &[u8]) -> Result<Vec<Encoded<'static>>, Malformed> {
    let error = |at, problem: &str| Malformed {
        form: "PEM",
        problem: problem.to_owned(),
        line: line_of(file, at),
    };
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(begin) = find(file, BEGIN, from) {
        let label_at = begin + BEGIN.len();
        let Some(label_end) = find(file, b"-----", label_at) else {
            return Err(error(begin, "a BEGIN that is not closed"));
        };
        let body = label_end + 5;
        let Some(end) = find(file, END, body) else {
            return Err(error(begin, "a BEGIN without END"));
        };
        let label = &file[label_at..label_end];
        let closing = [END, label, b"-----"].concat();
        if !file[end..].starts_with(&closing) {
            return Err(error(end, "an END of another label than BEGIN's"));
        }
        // Headers of RFC 1421 end with an empty line.
        let mut text = &file[body..end];
        if let Some(colon) = text.iter().position(|b| *b == b':') {
            let blank = [&b"\n\n"[..], b"\r\n\r\n"].iter().find_map(|b| find(text, b, colon));
            text = &text[blank.unwrap_or(0)..];
        }
        let digits: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
        let bytes = BASE64.decode(&digits).map_err(|_| error(body, "text that is not base 64"))?;
        let label = Some(String::from_utf8_lossy(label).into_owned());
        found.push(Encoded { label, bytes: Cow::Owned(bytes) });
        from = end + closing.len();
    }
    match found.is_empty() {
        true => Err(error(0, "nothing begins with `-----BEGIN `")),
        false => Ok(found),
    }
}
