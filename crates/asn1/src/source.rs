//! A file's text with its lines, and places in it.

/// A range of bytes in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From `start` up to `end`.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The smallest range that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Which file, by its place in the list that was given.
pub type FileId = usize;

/// Lines and columns count from one; a column is a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A file: its name for messages, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    lines: Vec<u32>,
    not_utf8: Option<u32>,
}

/// More than this in one file is refused: a place is 32 bits.
pub const FILE_BYTES_MAX: usize = 1 << 28;

impl Source {
    /// A file of bytes. What is not UTF-8 is read as ISO 8859-1, in which older modules were written.
    pub fn new(name: impl Into<String>, bytes: &[u8]) -> Source {
        let bytes = &bytes[..bytes.len().min(FILE_BYTES_MAX)];
        let latin = |bytes: &[u8]| bytes.iter().map(|&b| char::from(b)).collect::<String>();
        let (text, not_utf8) = match std::str::from_utf8(bytes) {
            Ok(text) => (text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(), None),
            Err(error) => {
                let before = latin(&bytes[..error.valid_up_to()]).len();
                (latin(bytes), Some(before as u32))
            }
        };
        let mut lines = vec![0];
        let bytes = text.as_bytes();
        for (i, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' || (byte == b'\r' && bytes.get(i + 1) != Some(&b'\n')) {
                lines.push(i as u32 + 1);
            }
        }
        Source { name: name.into(), text, lines, not_utf8 }
    }

    /// Where it is no UTF-8 first, and was read as ISO 8859-1.
    pub fn not_utf8(&self) -> Option<u32> {
        self.not_utf8
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of a span; nothing where there are none.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The number of the line that holds a byte, from zero.
    pub fn line_index(&self, offset: u32) -> usize {
        self.lines.partition_point(|&start| start <= offset) - 1
    }

    /// Line and column of a byte.
    pub fn position(&self, offset: u32) -> Position {
        let line = self.line_index(offset);
        let start = self.lines[line] as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self.text.get(start..end).map_or(end - start, |t| t.chars().count());
        Position { line: line as u32 + 1, column: column as u32 + 1 }
    }

    /// A line without its end, counted from zero.
    pub fn line(&self, index: usize) -> &str {
        let start = self.lines.get(index).map_or(self.text.len(), |&s| s as usize);
        let end = self.lines.get(index + 1).map_or(self.text.len(), |&s| s as usize);
        self.text.get(start..end).unwrap_or("").trim_end_matches(['\n', '\r'])
    }
}
