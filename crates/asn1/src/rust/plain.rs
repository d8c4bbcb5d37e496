//! How a value is written and read where it is used, in the syntaxes that write forwards. Mostly its Rust type says it
//! all; where a constraint changes the encoding (widths, fixed sizes) each syntax says it of what it is
//! ([`Entry::form`]), from what several have in common here.

use super::ENCODINGS;
use super::checks::Side;
use super::encoding::{Entry, Form, Place, What};
use super::limits::Limits;
use super::lower::fitting;
use super::model::*;
use super::write::{Writer, type_range};

impl Writer<'_> {
    /// An expression that writes a value; `base` is its place, or a reference to it.
    pub fn put(&self, syntax: &Entry, ty: &Use, base: &str, is_ref: bool) -> String {
        let way = self.leaf(ty).way;
        match self.form(syntax, ty, &Place::new(base, is_ref, &way)) {
            Some(form) => form.put,
            None => {
                let reference = if is_ref { "" } else { "&" };
                format!("{}::Encode::encode({reference}{base}, to)", syntax.module)
            }
        }
    }

    /// An expression that writes a component or an alternative, with its name in the errors.
    ///
    /// There is no name where only the sink can fail, so that numbers of the machine stay fast.
    pub fn put_named(&self, syntax: &Entry, field: &Field, base: &str, is_ref: bool) -> String {
        let put = self.put(syntax, &field.ty, base, is_ref);
        if self.is_special(syntax, &field.ty) {
            in_field(&put, field)
        } else {
            self.named(put, field)
        }
    }

    /// Adds a name to the errors of an expression that writes a component or an alternative, unless each value of its
    /// Rust type can be written.
    pub fn named(&self, put: String, field: &Field) -> String {
        match self.leaf(&field.ty).kind {
            Kind::Plain("bool" | "()" | "f64", _) => put,
            Kind::Plain(path, _) if type_range(path).is_some() => put,
            _ => in_field(&put, field),
        }
    }

    /// A function that reads a value.
    pub fn take(&self, syntax: &Entry, ty: &Use) -> String {
        match self.special_take(syntax, ty) {
            Some(read) => format!("|from| {read}"),
            None => format!("{}::Decode::decode", syntax.module),
        }
    }

    /// An expression that reads a value from `from`.
    pub fn read(&self, syntax: &Entry, ty: &Use) -> String {
        self.special_take(syntax, ty)
            .unwrap_or_else(|| format!("{}::Decode::decode(from)", syntax.module))
    }

    fn special_take(&self, syntax: &Entry, ty: &Use) -> Option<String> {
        let mut read = self.form(syntax, ty, &Place::new("", false, ""))?.take;
        for id in self.leaf(ty).newtypes.iter().rev() {
            read += &format!(".map({})", self.path(*id));
        }
        Some(if ty.is_boxed { read + ".map(Box::new)" } else { read })
    }

    /// Whether what a type is at last has a form that its Rust type does not say.
    pub fn is_special(&self, syntax: &Entry, ty: &Use) -> bool {
        self.form(syntax, ty, &Place::new("", false, "")).is_some()
    }

    /// Whether a type says more than its Rust type does: a constraint that is asked for, or changes an encoding.
    pub fn says_more(&self, ty: &Use) -> bool {
        ENCODINGS.iter().any(|syntax| self.is_special(syntax, ty))
            || !self.checks(ty, "value", true, &Side::Encode, "").is_empty()
    }

    /// How a struct around a value writes it.
    pub fn put_inner(&self, syntax: &Entry, of: &Newtype) -> String {
        if syntax.canonical.is_some() && of.has_free_zeros() {
            // X.696 clause 13.3.1: zeros at the end of named bits are not sent.
            return format!("{}::Encode::encode(&self.0.trimmed(), to)", syntax.module);
        }
        self.put(syntax, &of.inner, "self.0", false)
    }

    fn form(&self, syntax: &Entry, ty: &Use, at: &Place) -> Option<Form> {
        let leaf = self.leaf(ty);
        if leaf.is_known() {
            return None;
        }
        let mut form = (syntax.form)(self, What::of(&leaf)?, leaf.limits, at)?;
        if matches!(leaf.kind, Kind::SetOf(_)) {
            form.take += ".map(types::SetOf)";
        }
        Some(form)
    }

    /// All elements of a list one after the other, and how one of them is read.
    pub fn elements(&self, syntax: &Entry, of: &Use, at: &Place) -> Elements {
        let (module, base) = (syntax.module, &at.base);
        let is_special = self.is_special(syntax, of);
        let all = match is_special {
            true => format!(
                "{base}.iter().enumerate().try_for_each(|(i, e)| {}.map_err(|error| error.in_element(i)))",
                self.put(syntax, of, "e", true)
            ),
            false => format!("{module}::Encode::encode_all(&{base}[..], to)"),
        };
        Elements { module, is_special, all, read: self.take(syntax, of) }
    }
}

/// An expression whose errors have the name of a component or alternative.
fn in_field(put: &str, field: &Field) -> String {
    format!("{put}.map_err(|error| error.in_field({:?}))", field.names.asn)
}

/// The elements of a list.
pub struct Elements {
    module: &'static str,
    /// They have a form that their Rust type does not say.
    pub is_special: bool,
    /// Writes all of them, without their count.
    pub all: String,
    /// A function that reads one.
    pub read: String,
}

impl Elements {
    /// As many as the type says.
    pub fn fixed(self, count: u32) -> Option<Form> {
        let Elements { module, is_special, all, read } = self;
        let each = match is_special {
            true => format!("from.elements({count}, {read})"),
            false => format!("{module}::Decode::decode_all({count}, from)"),
        };
        Form::new(all, format!("from.nested(|from| {each})"))
    }

    /// Behind what `count` writes; nothing where the Rust type says it.
    pub fn counted(self, count: String) -> Option<Form> {
        if !self.is_special {
            return None;
        }
        let Elements { all, read, .. } = self;
        Form::new(format!("{count}.and_then(|()| {all})"), format!("from.sequence_of_each({read})"))
    }
}

/// The one size that a type has.
pub fn fixed(limits: &Limits) -> Option<u32> {
    limits.sizes.only().and_then(|n| u32::try_from(n).ok())
}

/// The size that a type has at most.
pub fn at_most(limits: &Limits) -> Option<u32> {
    limits.sizes.high().and_then(|n| u32::try_from(n).ok())
}

/// Asks whether there are `n` bits: named ones may come with fewer zeros at their end than their size has.
pub fn are_whole(n: u32, at: &Place) -> String {
    let len = format!("{}.len()", at.base);
    format!(
        "codec::check::size({len} == {n}, {len}, {n}, {n}).map_err(|problem| to.error(problem))"
    )
}

/// A BIT STRING of one size as octets, which the function `put` writes.
pub fn bits_as_octets(limits: &Limits, at: &Place, put: &str) -> Option<Form> {
    let n = fixed(limits)?;
    let (bytes, unused) = (n.div_ceil(8), n.wrapping_neg() % 8);
    Form::new(
        format!("{}.and_then(|()| to.{put}({}.as_bytes()))", are_whole(n, at), at.base),
        format!(
            "from.octets_fixed({bytes}).and_then(|bytes| types::BitString::new(bytes, {unused})\
             .ok_or_else(|| from.error(codec::Problem::Contents(\"a BIT STRING\"))))"
        ),
    )
}

/// An INTEGER whose Rust type holds every number, as one of the machine: its bounds were given where the type is used,
/// and it is a struct around a value. `has_fixed`: what has no bounds has another form than 64 bits with a sign.
pub fn machine_integer(module: &str, limits: &Limits, at: &Place, has_fixed: bool) -> Option<Form> {
    let path = fitting(limits.values.low()?, limits.values.high()?)?;
    let convert = match path {
        "u64" => "types::Integer::from_u64",
        _ => "|n| types::Integer::from(i64::from(n))",
    };
    let (put, take) = match path {
        "i64" if has_fixed => ("to.fixed(n, 8)".to_owned(), "from.fixed(8)".to_owned()),
        _ => (
            format!("{module}::Encode::encode(&n, to)"),
            format!("<{path} as {module}::Decode>::decode(from)"),
        ),
    };
    let reference = &at.reference;
    Form::new(
        format!(
            "codec::check::machine_integer::<{path}>({reference}).map_err(|problem| to.error(problem)).and_then(|n| {put})"
        ),
        format!("{take}.map({convert})"),
    )
}

/// An INTEGER of the machine with both bounds, in as many bytes as these take.
pub fn of_its_width(module: &str, limits: &Limits, path: &str, at: &Place) -> Option<Form> {
    let width = fitting(limits.values.low()?, limits.values.high()?)?;
    if width == "i64" {
        return Form::new(
            format!("to.fixed({}, 8)", cast(path, "i64", at)),
            match path {
                "i64" => "from.fixed(8)".to_owned(),
                _ => format!("from.fixed(8).map(|n| n as {path})"),
            },
        );
    }
    if width == path {
        return None;
    }
    // Narrower, or of another sign, where it is used than where it is defined.
    let value = &at.value;
    Form::new(
        format!(
            "{width}::try_from({value}).map_err(|_| to.error(codec::Problem::IntegerTooWide {{ bytes: 8 }}))\
             .and_then(|n| {module}::Encode::encode(&n, to))"
        ),
        format!("<{width} as {module}::Decode>::decode(from).map(|n| n as {path})"),
    )
}

/// A number as one of another type.
pub fn cast(path: &str, to: &str, at: &Place) -> String {
    if path == to { at.value.clone() } else { format!("({}) as {to}", at.value) }
}
