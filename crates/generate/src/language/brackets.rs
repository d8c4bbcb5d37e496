//! Brackets of a TOML file: the first one that is never closed. A parser that goes on after it finds an error in each line
//! that follows, so that one is reported alone.

use fusewire_asn1::{Diagnostic, Source, Span};

/// A bracket that is open.
#[derive(Clone, Copy)]
struct Open {
    at: usize,
    bracket: u8,
    /// The bracket begins a line: that of a table header.
    is_header: bool,
}

/// Returns the first bracket without its end, if there is one.
pub fn unclosed(source: &Source) -> Option<Diagnostic> {
    let open = find(source.text().as_bytes())?;
    let at = u32::try_from(open.at).unwrap_or(u32::MAX);
    let (bracket, end) = (open.bracket as char, closing(open.bracket) as char);
    let error = Diagnostic::error(0, Span::new(at, at.saturating_add(1)), {
        format!("`{bracket}` is not closed")
    });
    let help = match open.bracket {
        b'{' => "write `}` at the end of the same line: tables in braces have one line".to_owned(),
        _ => format!("write `{end}`"),
    };
    Some(error.about(&bracket.to_string()).help(help))
}

fn closing(bracket: u8) -> u8 {
    if bracket == b'[' { b']' } else { b'}' }
}

fn find(text: &[u8]) -> Option<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    // Only white space stands before this place in its line.
    let mut is_first = true;
    while at < text.len() {
        let byte = text[at];
        match byte {
            b'#' => {
                at += text[at..].iter().position(|b| *b == b'\n').unwrap_or(text.len() - at) - 1
            }
            b'"' | b'\'' => at = string_end(text, at) - 1,
            b'[' | b'{' => {
                let is_header = is_first && byte == b'[' && open.is_empty();
                open.push(Open { at, bracket: byte, is_header });
            }
            b']' | b'}' => match open.pop() {
                Some(last) if closing(last.bracket) != byte => return Some(last),
                _ => {}
            },
            // A list has no keys: the one that stands here is of the table around it.
            b'=' => {
                if let Some(last) = open.last().filter(|last| last.bracket == b'[') {
                    return Some(*last);
                }
            }
            b'\n' => {
                let ends = |one: &&Open| one.bracket == b'{' || one.is_header;
                if let Some(last) = open.last().filter(ends) {
                    return Some(*last);
                }
            }
            _ => {}
        }
        is_first = byte == b'\n' || is_first && matches!(byte, b' ' | b'\t' | b'\r' | b'[');
        at += 1;
    }
    open.first().copied()
}

/// The place after a string that begins here; one that is not closed ends with its line, or with the file.
fn string_end(text: &[u8], start: usize) -> usize {
    let quote = text[start];
    let is_long = text[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_long { 3 } else { 1 };
    while at < text.len() {
        match text[at] {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !is_long => return at,
            byte if byte == quote && (!is_long || text[at..].starts_with(&[quote; 3])) => {
                return at + if is_long { 3 } else { 1 };
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bracket_without_an_end_is_found() {
        for (text, place) in [
            ("a = [1, 2]\nb = {c = [1], d = \"]\"}\n[t]\n[[u]]\n", None),
            ("a = [1,\n  2, # [\n  '{',\n]\n", None),
            ("a = [[1], [\n2]]\nb = \"\"\"\n[ \"\" {\n\"\"\"\n", None),
            ("a = [1, 2\nb = 3\n", Some(4)),
            ("a = [1, 2\n", Some(4)),
            ("a = {b = [1, 2}\n", Some(9)),
            ("a = {b = [1, 2, c = 1}\n", Some(9)),
            ("a = {b = 1\nc = 2\n", Some(4)),
            ("[t\na = 1\n", Some(0)),
            ("  [t\na = [1]\n", Some(2)),
            ("a = \"\\\"[\"\n]\n", None),
        ] {
            assert_eq!(find(text.as_bytes()).map(|open| open.at), place, "{text}");
        }
    }
}
