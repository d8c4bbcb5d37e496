//! How a value is written and read where it is used, in the syntaxes that write forwards: OER, XDR and LWS. Mostly
//! its Rust type says it all; where a constraint changes the encoding (widths, fixed sizes) it is said here.

use super::checks::{Leaf, Side, character_width};
use super::limits::Limits;
use super::lower::fitting;
use super::model::*;
use super::write::{Writer, type_range};

/// A transfer syntax that is written forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// X.696.
    Oer,
    /// RFC 4506.
    Xdr,
    /// `docs/lws.md`.
    Lws,
}

impl Forward {
    /// Its module in `fusewire_codec`.
    pub fn module(self) -> &'static str {
        match self {
            Forward::Oer => "oer",
            Forward::Xdr => "xdr",
            Forward::Lws => "lws",
        }
    }
}

/// How values of a type are written, where its Rust type does not say it: expressions with `value`, a place, and
/// an expression with `from`.
struct Form {
    put: String,
    take: String,
}

impl Form {
    fn new(put: impl Into<String>, take: impl Into<String>) -> Option<Form> {
        Some(Form { put: put.into(), take: take.into() })
    }
}

impl Writer<'_> {
    /// An expression that writes a value; `base` is its place, or a reference to it.
    pub fn put(&self, syntax: Forward, ty: &Use, base: &str, is_ref: bool) -> String {
        let leaf = self.leaf(ty);
        if !leaf.is_known()
            && let Some(form) = self.form(syntax, &leaf)
        {
            let is_plain = is_ref && leaf.way.is_empty();
            let value = format!("{base}{}", leaf.way);
            let (place, reference) = match is_plain {
                true => (format!("*{base}"), base.to_owned()),
                false => (value.clone(), format!("&{value}")),
            };
            let put = form.put.replace("&VALUE)", &format!("{reference})"));
            let put = put.replace("&VALUE,", &format!("{reference},"));
            return put.replace("VALUE", &value).replace("PLACE", &place);
        }
        let reference = if is_ref { "" } else { "&" };
        format!("{}::Encode::encode({reference}{base}, to)", syntax.module())
    }

    /// A function that reads a value.
    pub fn take(&self, syntax: Forward, ty: &Use) -> String {
        match self.special_take(syntax, ty) {
            Some(read) => format!("|from| {read}"),
            None => format!("{}::Decode::decode", syntax.module()),
        }
    }

    /// An expression that reads a value from `from`.
    pub fn read(&self, syntax: Forward, ty: &Use) -> String {
        self.special_take(syntax, ty)
            .unwrap_or_else(|| format!("{}::Decode::decode(from)", syntax.module()))
    }

    fn special_take(&self, syntax: Forward, ty: &Use) -> Option<String> {
        let leaf = self.leaf(ty);
        let form = self.form(syntax, &leaf).filter(|_| !leaf.is_known())?;
        let mut read = form.take;
        for id in leaf.newtypes.iter().rev() {
            read += &format!(".map({})", self.path(*id));
        }
        Some(if ty.is_boxed { read + ".map(Box::new)" } else { read })
    }

    /// Whether what a type is at last has a form that its Rust type does not say.
    pub fn is_special(&self, syntax: Forward, ty: &Use) -> bool {
        let leaf = self.leaf(ty);
        !leaf.is_known() && self.form(syntax, &leaf).is_some()
    }

    /// Whether a type says more than its Rust type does: a constraint that is asked for, or changes an encoding.
    pub fn says_more(&self, ty: &Use) -> bool {
        [Forward::Oer, Forward::Xdr, Forward::Lws].iter().any(|&s| self.is_special(s, ty))
            || !self.checks(ty, "value", true, &Side::Encode, "").is_empty()
    }

    /// How a struct around a value writes it.
    pub fn put_inner(&self, syntax: Forward, of: &Newtype) -> String {
        if syntax == Forward::Oer && of.has_free_zeros() {
            // X.696 clause 13.3.1: zeros at the end of named bits are not sent.
            return "oer::Encode::encode(&self.0.trimmed(), to)".to_owned();
        }
        self.put(syntax, &of.inner, "self.0", false)
    }

    fn form(&self, syntax: Forward, leaf: &Leaf<'_>) -> Option<Form> {
        let limits = leaf.limits;
        match leaf.kind {
            Kind::Vec(of) => self.list(syntax, limits, of, ""),
            Kind::SetOf(of) => self.list(syntax, limits, of, ".map(types::SetOf)"),
            Kind::Plain("types::Octets", _) => octets(syntax, limits),
            Kind::Plain("types::BitString", _) => bits(syntax, limits),
            Kind::Plain("types::Integer", _) => wide(syntax, limits),
            Kind::Plain("f64", _) => real(syntax, limits),
            Kind::Plain(path, _) => match type_range(path) {
                Some(_) => number(syntax, limits, path),
                None => text(syntax, limits, path),
            },
            Kind::Named(_) => None,
        }
    }

    fn list(&self, syntax: Forward, limits: &Limits, of: &Use, wrap: &str) -> Option<Form> {
        let fixed = fixed(limits).filter(|_| syntax != Forward::Oer);
        let bound = limits.sizes.high().and_then(|n| u32::try_from(n).ok());
        let bounded = bound.filter(|_| syntax == Forward::Xdr);
        let is_special = self.is_special(syntax, of);
        if fixed.is_none() && bounded.is_none() && !is_special {
            return None;
        }
        let bound = bounded.map_or_else(|| "u32::MAX".to_owned(), |n| n.to_string());
        let module = syntax.module();
        let all = match is_special {
            true => format!(
                "VALUE.iter().enumerate().try_for_each(|(i, e)| {}.map_err(|error| error.in_element(i)))",
                self.put(syntax, of, "e", true)
            ),
            false => format!("{module}::Encode::encode_all(&VALUE[..], to)"),
        };
        let read = self.take(syntax, of);
        if let Some(n) = fixed {
            let each = match is_special {
                true => format!("from.elements({n}, {read})"),
                false => format!("{module}::Decode::decode_all({n}, from)"),
            };
            return Form::new(all, format!("from.nested(|from| {each}){wrap}"));
        }
        match syntax {
            Forward::Oer => Form::new(
                format!("to.natural(VALUE.len() as u64).and_then(|()| {all})"),
                format!("from.sequence_of_each({read}){wrap}"),
            ),
            Forward::Lws => Form::new(
                format!("to.count(VALUE.len()).and_then(|()| {all})"),
                format!("from.sequence_of_each({read}){wrap}"),
            ),
            Forward::Xdr if is_special => Form::new(
                format!(
                    "to.array_of(&VALUE, {bound}, |to, e| {})",
                    self.put(syntax, of, "e", true)
                ),
                format!("from.nested(|from| from.array_of({bound}, {read})){wrap}"),
            ),
            Forward::Xdr => Form::new(
                format!("to.array(&VALUE, {bound})"),
                format!("from.nested(|from| from.array({bound})){wrap}"),
            ),
        }
    }
}

/// The one size that a type has.
pub fn fixed(limits: &Limits) -> Option<u32> {
    limits.sizes.only().and_then(|n| u32::try_from(n).ok())
}

fn octets(syntax: Forward, limits: &Limits) -> Option<Form> {
    if let Some(n) = fixed(limits) {
        return match syntax {
            Forward::Oer => Form::new("to.put(&VALUE)", format!("from.octets_fixed({n})")),
            Forward::Lws => Form::new("to.octets_fixed(&VALUE)", format!("from.octets_fixed({n})")),
            Forward::Xdr => Form::new("to.opaque_fixed(&VALUE)", format!("from.octets_fixed({n})")),
        };
    }
    let most = limits.sizes.high().and_then(|n| u32::try_from(n).ok());
    let most = most.filter(|_| syntax == Forward::Xdr)?;
    Form::new(format!("to.opaque(&VALUE, {most})"), format!("from.octets({most})"))
}

fn bits(syntax: Forward, limits: &Limits) -> Option<Form> {
    let n = fixed(limits)?;
    // Named bits may come with fewer zeros at their end than their size has.
    let is_whole = format!(
        "codec::check::size(VALUE.len() == {n}, VALUE.len(), {n}, {n}).map_err(|problem| to.error(problem))"
    );
    let (put, take) = match syntax {
        Forward::Oer => {
            return Form::new(
                format!("{is_whole}.and_then(|()| to.bits_fixed(&VALUE))"),
                format!("from.bits_fixed({n})"),
            );
        }
        Forward::Lws => ("octets_fixed", "octets_fixed"),
        Forward::Xdr => ("opaque_fixed", "octets_fixed"),
    };
    let (bytes, unused) = (n.div_ceil(8), n.wrapping_neg() % 8);
    Form::new(
        format!("{is_whole}.and_then(|()| to.{put}(VALUE.as_bytes()))"),
        format!(
            "from.{take}({bytes}).and_then(|bytes| types::BitString::new(bytes, {unused})\
             .ok_or_else(|| from.error(codec::Problem::Contents(\"a BIT STRING\"))))"
        ),
    )
}

/// An INTEGER whose Rust type holds every number.
fn wide(syntax: Forward, limits: &Limits) -> Option<Form> {
    let (low, high) = (limits.values.low(), limits.values.high());
    if let (Some(low), Some(high)) = (low, high)
        && let Some(path) = fitting(low, high)
    {
        // The bounds were given where the type is used, and it is a struct around a value.
        let module = syntax.module();
        let convert = match path {
            "u64" => "types::Integer::from_u64",
            _ => "|n| types::Integer::from(i64::from(n))",
        };
        let put = match (path, syntax) {
            ("i64", Forward::Oer | Forward::Lws) => "to.fixed(n, 8)".to_owned(),
            _ => format!("{module}::Encode::encode(&n, to)"),
        };
        let take = match (path, syntax) {
            ("i64", Forward::Oer | Forward::Lws) => "from.fixed(8)".to_owned(),
            _ => format!("<{path} as {module}::Decode>::decode(from)"),
        };
        return Form::new(
            format!(
                "codec::check::narrowed::<{path}>(&VALUE).map_err(|problem| to.error(problem)).and_then(|n| {put})"
            ),
            format!("{take}.map({convert})"),
        );
    }
    let is_natural = syntax == Forward::Oer && low.is_some_and(|low| low >= 0);
    if !is_natural {
        return None;
    }
    Form::new("to.natural_wide(&VALUE)", "from.natural_wide()")
}

/// An INTEGER of the machine.
fn number(syntax: Forward, limits: &Limits, path: &str) -> Option<Form> {
    if syntax == Forward::Xdr {
        return None;
    }
    let (low, high) = (limits.values.low(), limits.values.high());
    match (low, high) {
        (Some(low), Some(high)) => {
            let width = fitting(low, high)?;
            if width == "i64" {
                return Form::new(
                    format!("to.fixed({}, 8)", cast(path, "i64")),
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
            let module = syntax.module();
            Form::new(
                format!(
                    "{width}::try_from(PLACE).map_err(|_| to.error(codec::Problem::IntegerTooWide {{ bytes: 8 }}))\
                     .and_then(|n| {module}::Encode::encode(&n, to))"
                ),
                format!("<{width} as {module}::Decode>::decode(from).map(|n| n as {path})"),
            )
        }
        (Some(low), None) if low >= 0 && syntax == Forward::Oer => Form::new(
            format!("to.natural({})", cast(path, "u64")),
            format!(
                "from.natural().and_then(|n| {path}::try_from(n).map_err(|_| \
                 from.error(codec::Problem::IntegerTooWide {{ bytes: 8 }})))"
            ),
        ),
        _ => None,
    }
}

fn cast(path: &str, to: &str) -> String {
    if path == to { "PLACE".to_owned() } else { format!("(PLACE) as {to}") }
}

fn real(syntax: Forward, limits: &Limits) -> Option<Form> {
    match (syntax, limits.binary?) {
        (Forward::Oer, 32) => {
            Form::new("to.binary32((PLACE) as f32)", "from.binary32().map(f64::from)")
        }
        (Forward::Oer, _) => Form::new("to.binary64(PLACE)", "from.binary64()"),
        (Forward::Xdr, 32) => Form::new("to.float((PLACE) as f32)", "from.float().map(f64::from)"),
        _ => None,
    }
}

fn text(syntax: Forward, limits: &Limits, path: &str) -> Option<Form> {
    let width = character_width(path)?;
    match syntax {
        // X.696 clause 27: of a fixed number of characters of a fixed size.
        Forward::Oer if width > 0 => {
            let bytes = fixed(limits)?.checked_mul(width)?;
            Form::new(
                "to.put(VALUE.as_bytes())",
                format!(
                    "from.octets_fixed({bytes}).and_then(|octets| {path}::new(octets).ok_or_else(|| from.error(codec::Problem::Contents({:?}))))",
                    path.trim_start_matches("types::")
                ),
            )
        }
        Forward::Xdr if width > 0 => {
            let bound = u32::try_from(limits.sizes.high()?).ok()?.checked_mul(width)?;
            Form::new(
                format!("to.opaque(VALUE.as_bytes(), {bound})"),
                format!("from.text({bound})"),
            )
        }
        _ => None,
    }
}
