//! Tables of TOML with the places of their keys and values; what is wrong is said, and reading goes on.

use std::ops;

use fusewire_asn1::names::nearest;
use fusewire_asn1::{Diagnostic, Source, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::brackets;
use super::keys::{Key, Word};
use super::value::{Bounds, Clausal, Clause, Looser, Origin, Range, Value, as_it_stands};

/// What reads one file.
pub struct Reader<'s> {
    source: &'s Source,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    /// Why the file is no TOML: the first error. What else is found in such a file follows from it.
    pub broken: Option<Diagnostic>,
}

/// A table whose keys are known.
#[derive(Clone)]
pub struct Table<'t> {
    /// `network`, `adu.Audio`; empty for the file.
    name: String,
    /// Where it stands.
    pub span: Span,
    keys: &'static [Key],
    entries: Vec<(&'static Key, Span, &'t Spanned<DeValue<'t>>)>,
}

/// A value of TOML and its place.
pub type Item<'t> = Spanned<DeValue<'t>>;

impl<'s> Reader<'s> {
    /// Reads this file.
    pub fn new(source: &'s Source) -> Reader<'s> {
        Reader { source, diagnostics: Vec::new(), broken: None }
    }

    /// The file's table; what is no TOML is said.
    pub fn document(&mut self) -> Spanned<DeTable<'s>> {
        if let Some(at) = self.source.not_utf8() {
            let help = "write TOML, version 1, which is UTF-8";
            self.error(Span::new(at, at), "the file is no UTF-8", help);
        }
        let (document, errors) = DeTable::parse_recoverable(self.source.text());
        for error in errors {
            let end = self.source.text().len();
            let span = self.span(error.span().unwrap_or(end..end));
            let help = match (error.message(), first_of(self.source, document.get_ref(), span)) {
                ("duplicate key", Some(at)) => {
                    let at = self.source.position(at);
                    format!("it stands at {}:{} already: leave one out", at.line, at.column)
                }
                _ => "write TOML, version 1".to_owned(),
            };
            self.error(span, error.message(), help);
            if error.message() != "duplicate key" && self.broken.is_none() {
                let first = self.diagnostics.last().cloned();
                self.broken = brackets::unclosed(self.source).or(first);
            }
        }
        document
    }

    /// A place in the file.
    pub fn span(&self, range: ops::Range<usize>) -> Span {
        let place = |at: usize| u32::try_from(at.min(self.source.text().len())).unwrap_or(u32::MAX);
        Span::new(place(range.start), place(range.end))
    }

    /// The value of a clause, as it stands in the file.
    pub fn value_of(&self, clause: &dyn Clausal) -> String {
        let value = as_it_stands(self.source, clause.clause());
        value.map_or_else(|| clause.text(), str::to_owned)
    }

    /// Says what is wrong.
    pub fn error(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        let token = self.source.slice(span).to_owned();
        self.diagnostics.push(Diagnostic::error(0, span, message).about(&token).help(help));
    }

    /// The entries of a table that has these keys.
    pub fn table<'t>(
        &mut self,
        name: &str,
        span: Span,
        table: &'t DeTable<'t>,
        keys: &'static [Key],
    ) -> Table<'t> {
        let mut entries = Vec::new();
        for (key, value) in table {
            let at = self.span(key.span());
            match keys.iter().find(|k| k.name == key.get_ref().as_ref()) {
                Some(known) => entries.push((known, at, value)),
                None => self.unknown(name, at, key.get_ref(), keys),
            }
        }
        Table { name: name.to_owned(), span, keys, entries }
    }

    fn unknown(&mut self, table: &str, at: Span, found: &str, keys: &'static [Key]) {
        let shown = fusewire_asn1::diagnostic::shortened(found);
        let of = if table.is_empty() { "the file".to_owned() } else { format!("`{table}`") };
        let stem = found.split('_').next().unwrap_or(found);
        let unit = keys.iter().find(|k| {
            k.name.split_once('_').is_some_and(|(name, _)| name == stem && found != k.name)
                && is_unit(k.name)
        });
        if let Some(key) = unit {
            let message = if found == stem {
                format!("`{shown}` has no unit")
            } else {
                format!("`{shown}` has another unit than {of} knows")
            };
            return self.error(at, message, format!("write `{}`: {}", key.name, key.expects));
        }
        let help = match nearest(found, keys.iter().map(|k| k.name)) {
            Some(meant) => format!("is `{meant}` meant?"),
            None => {
                let all: Vec<_> = keys.iter().map(|k| k.name).collect();
                format!("{of} has {}", all.join(", "))
            }
        };
        self.error(at, format!("{of} has no key `{shown}`"), help);
    }

    /// A table within one, or an empty one.
    pub fn within<'t>(&mut self, of: &Table<'t>, key: &str, keys: &'static [Key]) -> Table<'t> {
        let empty = Table { name: key.to_owned(), span: of.span, keys, entries: Vec::new() };
        let Some((known, at, value)) = of.entry(key) else { return empty };
        match value.get_ref() {
            DeValue::Table(table) => self.table(key, at, table, keys),
            _ => {
                self.expected(known, value);
                empty
            }
        }
    }

    /// Says what was expected in place of a value.
    pub fn expected(&mut self, key: &Key, value: &Item<'_>) {
        let span = self.span(value.span());
        let found = match value.get_ref() {
            DeValue::String(text) => {
                format!("\"{}\"", fusewire_asn1::diagnostic::shortened(text))
            }
            DeValue::Array(of) => format!("a list of {}", of.len()),
            other => format!("{} {}", article(other.type_str()), other.type_str()),
        };
        let message = format!("`{}` is {found}", key.name);
        self.error(span, message, format!("expected {}", key.expects));
    }

    /// A clause, written or not.
    pub fn value<'t, T: Clone>(
        &mut self,
        table: &Table<'t>,
        key: &str,
        (default, relaxed, looser): (T, T, Looser),
        read: impl FnOnce(&mut Self, &'static Key, &'t Item<'t>) -> Option<T>,
    ) -> Value<T> {
        let name = match table.name.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", table.name),
        };
        let (value, span, origin) = match table.entry(key) {
            None => (default, table.span, Origin::Default),
            Some((known, at, item)) => {
                let span = at.to(self.span(item.span()));
                // What could not be read is said already, and contradicts nothing.
                match read(self, known, item) {
                    Some(value) => (value, span, Origin::Written),
                    None => (default, span, Origin::Unread),
                }
            }
        };
        Value { value, relaxed, looser, clause: Clause { name, span, origin } }
    }

    /// Whether a key that must be there is.
    pub fn required(&mut self, table: &Table<'_>, key: &str) {
        let Some(known) = table.keys.iter().find(|k| k.name == key) else { return };
        if table.entry(key).is_none() {
            let of = match table.name.as_str() {
                "" => "the file".to_owned(),
                name => format!("`{name}`"),
            };
            let help = format!("expected {}", known.expects);
            self.error(table.span, format!("{of} has no `{key}`"), help);
        }
    }

    /// A number.
    pub fn number(&mut self, key: &'static Key, item: &Item<'_>, within: Bounds) -> Option<f64> {
        let Some(number) = plain(item.get_ref()) else {
            self.expected(key, item);
            return None;
        };
        let is_whole = !within.is_whole || number.trunc() == number;
        if is_whole && number >= within.low && number <= within.high {
            return Some(number);
        }
        let what = if within.is_whole { "a whole number" } else { "a number" };
        let span = self.span(item.span());
        // As it stands there: of many digits not all are a number's.
        let shown = fusewire_asn1::diagnostic::shortened(self.source.slice(span));
        let message = format!("`{}` is {shown}", key.name);
        let help = format!("expected {what} from {} to {}", within.low, within.high);
        self.error(span, message, help);
        None
    }

    /// A range `[least, most]`, or one number for both.
    pub fn range(&mut self, key: &'static Key, item: &Item<'_>, within: Bounds) -> Option<Range> {
        let DeValue::Array(of) = item.get_ref() else {
            let both = self.number(key, item, within)?;
            return Some(Range::new(both, both));
        };
        let mut of = of.iter();
        let (Some(low), Some(high), None) = (of.next(), of.next(), of.next()) else {
            self.expected(key, item);
            return None;
        };
        let ends = (self.number(key, low, within), self.number(key, high, within));
        let (Some(low), Some(high)) = ends else { return None };
        if low > high {
            let message = format!("`{}` begins with {low} and ends with {high}", key.name);
            let span = self.span(item.span());
            self.error(span, message, "write the least first");
            return None;
        }
        Some(Range { low, high })
    }

    /// A word of a list.
    pub fn word<T: Word>(&mut self, key: &'static Key, item: &Item<'_>) -> Option<T> {
        let found = item.get_ref().as_str().and_then(|text| {
            T::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
        });
        if found.is_none() {
            self.expected(key, item);
            let text = item.get_ref().as_str().unwrap_or_default();
            let meant = nearest(text, T::WORDS.iter().map(|(word, _)| *word));
            if let (Some(meant), Some(said)) = (meant, self.diagnostics.last_mut()) {
                said.help = format!("is \"{meant}\" meant? {}", said.help);
            }
        }
        found
    }

    /// A list of words, each once.
    pub fn words<T: Word>(&mut self, key: &'static Key, item: &Item<'_>) -> Option<Vec<T>> {
        let DeValue::Array(of) = item.get_ref() else {
            self.expected(key, item);
            return None;
        };
        let mut all = Vec::new();
        for item in of {
            let Some(word) = self.word::<T>(key, item) else { continue };
            if all.contains(&word) {
                let span = self.span(item.span());
                self.error(span, format!("\"{}\" stands twice", word.word()), "write it once");
            } else {
                all.push(word);
            }
        }
        Some(all)
    }

    /// A text.
    pub fn string(&mut self, key: &'static Key, item: &Item<'_>) -> Option<String> {
        match item.get_ref().as_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                self.expected(key, item);
                None
            }
        }
    }

    /// A list of texts with their places.
    pub fn strings(&mut self, key: &'static Key, item: &Item<'_>) -> Option<Vec<(String, Span)>> {
        let texts: Option<Vec<_>> = item.get_ref().as_array().and_then(|of| {
            of.iter()
                .map(|i| Some((i.get_ref().as_str()?.to_owned(), self.span(i.span()))))
                .collect()
        });
        if texts.is_none() {
            self.expected(key, item);
        }
        texts
    }

    /// True or false.
    pub fn boolean(&mut self, key: &'static Key, item: &Item<'_>) -> Option<bool> {
        let found = item.get_ref().as_bool();
        if found.is_none() {
            self.expected(key, item);
        }
        found
    }
}

impl<'t> Table<'t> {
    /// A key, where it stands, and its value.
    pub fn entry(&self, key: &str) -> Option<(&'static Key, Span, &'t Item<'t>)> {
        self.entries.iter().find(|(known, ..)| known.name == key).copied()
    }
}

/// Whether a key ends with a unit.
fn is_unit(key: &str) -> bool {
    ["_ms", "_mbit", "_kbit", "_bytes", "_hz", "_kib"].iter().any(|unit| key.ends_with(unit))
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'i']) { "an" } else { "a" }
}

/// A number, however large; or none (`nan`), which is within no bounds.
fn plain(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(of) => {
            let digits = i64::from_str_radix(of.as_str(), of.radix());
            // More than 64 bits are more than any clause lets be.
            Some(digits.map_or(f64::INFINITY, |number| number as f64))
        }
        DeValue::Float(of) => Some(of.as_str().parse().unwrap_or(f64::NAN)),
        _ => None,
    }
}

/// Where the key of this name stands first, in the table of one that stands here.
fn first_of(source: &Source, table: &DeTable<'_>, again: Span) -> Option<u32> {
    let name = source.slice(again);
    let mut first = None;
    let mut tables = vec![table];
    while let Some(table) = tables.pop() {
        for (key, item) in table {
            let (start, end) = (key.span().start as u32, item.span().end as u32);
            if key.get_ref() == name && start < again.start {
                first = first.max(Some(start));
            }
            // What stands in braces that are closed by then is of another table.
            let is_closed = source.slice(Span::new(item.span().start as u32, end)).starts_with('{')
                && end <= again.start;
            if let (DeValue::Table(inner), false) = (item.get_ref(), is_closed) {
                tables.push(inner);
            }
        }
    }
    first
}
