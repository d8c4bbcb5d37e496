//! Values into notation.

use std::fmt::Write;

use super::strings;
use crate::dump;
use crate::number;
use crate::schema::{Kind, Schema, TypeId};
use crate::value::{Open, Structure, Unknown, Value};

/// A value of a type, on as many lines as it takes.
pub fn to_text(schema: &Schema<'_, '_>, value: &Value, ty: TypeId) -> String {
    let mut printer = Printer { schema, out: String::new(), indent: 0 };
    printer.value(value, ty);
    printer.out
}

/// Elements that stand on one line, together.
const LINE_CHARS_MAX: usize = 100;

struct Printer<'s, 'w, 'a> {
    schema: &'s Schema<'w, 'a>,
    out: String,
    indent: usize,
}

impl Printer<'_, '_, '_> {
    fn line(&mut self) {
        let _ = write!(self.out, "\n{:1$}", "", 2 * self.indent);
    }

    fn value(&mut self, value: &Value, ty: TypeId) {
        let kind = &self.schema.get(ty).kind;
        match (value, kind) {
            (Value::Structure(of), Kind::Structure(kind)) => {
                let members = kind.members.iter().zip(&of.members);
                let there = members.filter_map(|(m, v)| Some((m, v.as_ref()?)));
                let there: Vec<_> = there.map(|(m, v)| (m.name.as_str(), m.ty, v)).collect();
                self.components(&there, of);
            }
            (Value::List(elements), Kind::List(kind)) => self.list(elements, kind.element),
            (Value::Choice(index, value), Kind::Choice(kind)) => {
                let Some(alternative) = kind.alternatives.get(*index) else { return };
                let _ = write!(self.out, "{} : ", alternative.name);
                self.value(value, alternative.ty);
            }
            (Value::Open(Open::Typed(ty, value)), _) => {
                let _ = write!(self.out, "{} : ", self.schema.get(*ty).name);
                self.value(value, *ty);
            }
            (value, kind) => self.out += &scalar(value, kind),
        }
    }

    fn components(&mut self, there: &[(&str, TypeId, &Value)], of: &Structure) {
        if there.is_empty() && of.unknown.is_empty() {
            self.out += "{}";
            return;
        }
        self.out.push('{');
        self.indent += 1;
        let parts = there.len() + of.unknown.len();
        for (n, (name, ty, value)) in there.iter().enumerate() {
            self.line();
            let _ = write!(self.out, "{name} ");
            self.value(value, *ty);
            if n + 1 < parts {
                self.out.push(',');
            }
        }
        for (n, unknown) in of.unknown.iter().enumerate() {
            self.line();
            self.out += &extension(unknown);
            if there.len() + n + 1 < parts {
                self.out.push(',');
            }
        }
        self.indent -= 1;
        self.line();
        self.out.push('}');
    }

    fn list(&mut self, elements: &[Value], ty: TypeId) {
        let plain = |v: &Value| {
            !matches!(v, Value::Structure(_) | Value::List(_) | Value::Choice(..) | Value::Open(_))
        };
        if elements.is_empty() {
            self.out += "{}";
            return;
        }
        if elements.iter().all(plain) {
            return self.row(elements, ty);
        }
        self.out.push('{');
        self.indent += 1;
        for (n, element) in elements.iter().enumerate() {
            self.line();
            self.value(element, ty);
            if n + 1 < elements.len() {
                self.out.push(',');
            }
        }
        self.indent -= 1;
        self.line();
        self.out.push('}');
    }

    /// Elements beside each other, on as few lines as that takes.
    fn row(&mut self, elements: &[Value], ty: TypeId) {
        let kind = &self.schema.get(ty).kind;
        let texts: Vec<String> = elements.iter().map(|e| scalar(e, kind)).collect();
        let len: usize = texts.iter().map(|t| t.len() + 2).sum();
        if len <= LINE_CHARS_MAX {
            let _ = write!(self.out, "{{ {} }}", texts.join(", "));
            return;
        }
        self.out.push('{');
        self.indent += 1;
        let mut room = 0;
        for (n, text) in texts.iter().enumerate() {
            if text.len() + 2 > room {
                self.line();
                room = LINE_CHARS_MAX;
            } else {
                self.out.push(' ');
            }
            room = room.saturating_sub(text.len() + 2);
            self.out += text;
            if n + 1 < texts.len() {
                self.out.push(',');
            }
        }
        self.indent -= 1;
        self.line();
        self.out.push('}');
    }
}

/// An extension that the type does not know, as [`fusewire_asn1::ast::Extension`] writes it.
fn extension(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Ber(bytes) => format!("... {}", strings::hex(bytes)),
        Unknown::Counted(n, bytes) => format!("... {n} : {}", strings::hex(bytes)),
        Unknown::Tagged(tag, bytes) => format!("... {tag} : {}", strings::hex(bytes)),
    }
}

/// A value without parts.
fn scalar(value: &Value, kind: &Kind) -> String {
    match (value, kind) {
        (Value::Boolean(value), _) => (if *value { "TRUE" } else { "FALSE" }).to_owned(),
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Integer(bytes), kind) => {
            let named = match kind {
                Kind::Integer(of) => number::to_i128(bytes)
                    .and_then(|n| of.names.iter().find(|(_, number)| *number == n)),
                _ => None,
            };
            match named {
                Some((name, _)) => name.clone(),
                // What is too long for decimal digits.
                None => number::to_decimal(bytes).unwrap_or_else(|| strings::hex(bytes)),
            }
        }
        (Value::Enumerated(number), Kind::Enumerated(of)) => {
            let item = of.items.iter().find(|(_, n)| n == number);
            item.map_or_else(|| number.to_string(), |(name, _)| name.clone())
        }
        (Value::Enumerated(number), _) => number.to_string(),
        (Value::Real(real), _) => strings::real(real.value),
        (Value::Bits(bytes, unused), Kind::Bits(names, _)) => {
            named_bits(bytes, *unused, names).unwrap_or_else(|| strings::bits(bytes, *unused))
        }
        (Value::Bits(bytes, unused), _) => strings::bits(bytes, *unused),
        (Value::Octets(bytes), _) => strings::hex(bytes),
        (Value::Oid(contents), kind) => {
            let is_relative = matches!(kind, Kind::RelativeOid);
            strings::oid(contents, is_relative).unwrap_or_else(|| strings::hex(contents))
        }
        (Value::Text(bytes), Kind::Text(simple, _)) => strings::text(*simple, bytes),
        (Value::Text(bytes), _) => strings::hex(bytes),
        (Value::Open(Open::Raw(bytes, _)), Kind::Opaque(_)) => strings::hex(bytes),
        (Value::Open(Open::Raw(bytes, _)), _) => raw(bytes),
        (Value::UnknownChoice(unknown), _) => extension(unknown),
        // A value that is none of its type, which no decoder gives.
        (Value::Structure(_) | Value::List(_) | Value::Choice(..) | Value::Open(_), _) => {
            "{}".to_owned()
        }
    }
}

/// `{ a, b }` where every bit that is set has a name, and reading that gives the same bits.
fn named_bits(bytes: &[u8], unused: u8, names: &[(String, u32)]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let len = 8 * bytes.len() - usize::from(unused);
    let mut set = Vec::new();
    for n in (0..len).filter(|n| bytes[n / 8] & (0x80 >> (n % 8)) != 0) {
        set.push(names.iter().find(|(_, bit)| *bit as usize == n)?.0.as_str());
    }
    let last = (0..len).rfind(|n| bytes[n / 8] & (0x80 >> (n % 8)) != 0).map_or(0, |n| n + 1);
    match set.as_slice() {
        _ if last != len => None,
        [] => Some("{}".to_owned()),
        set => Some(format!("{{ {} }}", set.join(", "))),
    }
}

/// An open type of which only the encoding is known: by the type that its tag says, where the value would be
/// encoded just so again; otherwise octets.
fn raw(bytes: &[u8]) -> String {
    let mut found = None;
    let mut count = 0;
    let walked = dump::walk(bytes, dump::Options::default(), |event| {
        count += 1;
        if let dump::Event::Element(element) = event {
            found = Some(element);
        }
    });
    let (Ok(()), 1, Some(element)) = (walked, count, found) else { return strings::hex(bytes) };
    plain(&element).unwrap_or_else(|| strings::hex(bytes))
}

fn plain(element: &dump::Element<'_>) -> Option<String> {
    use dump::Contents;
    let header = element.header;
    if header.class != dump::Class::Universal || header.constructed || header.length.is_padded() {
        return None;
    }
    let bytes = element.contents;
    let name = element.name()?;
    let text = match (dump::contents(element), header.number) {
        (Contents::Boolean(true), _) if bytes == [0xff] => "TRUE".to_owned(),
        (Contents::Boolean(false), _) => "FALSE".to_owned(),
        (Contents::Null, _) => return Some("NULL : NULL".to_owned()),
        (Contents::Number(text), 2) if number::minimal(bytes).len() == bytes.len() => text,
        (Contents::Oid(_), tag) => strings::oid(bytes, tag == 13)?,
        (Contents::Text(_) | Contents::Time(..), 12 | 18..=20 | 22..=24 | 26 | 30) => {
            let simple = fusewire_asn1::ast::Simple::from_word(name)?;
            let text = strings::text(simple, bytes);
            text.starts_with('"').then_some(text)?
        }
        (Contents::Octets, 4) => strings::hex(bytes),
        (Contents::Bits(unused), 3) if bytes.len() > 1 => {
            let mask = (1_u16 << unused) as u8 - 1;
            (bytes[bytes.len() - 1] & mask == 0).then(|| strings::bits(&bytes[1..], unused))?
        }
        _ => return None,
    };
    Some(format!("{name} : {text}"))
}
