//! Notation into values: what the parser gives, beside the type that says what it means.

use fusewire_asn1::ast::{self, Argument, AssignmentKind, Braced, Name, Reference, ValueKind};
use fusewire_asn1::names::{Target, World, well_known};
use fusewire_asn1::resolve::{Bound, Env, Ty};
use fusewire_asn1::{File, FileId, Source};
use fusewire_codec::types::{Oid, RelativeOid};

use super::strings;
use crate::characters;
use crate::error::Error;
use crate::number;
use crate::schema::{Kind, Schema, Structure as StructureType, TypeId, tags};
use crate::value::{Open, Place, Real, Structure, Unknown, Value};

/// Values within values, and names of names, go so deep.
const DEPTH_MAX: u32 = 120;

/// Named bits are not further back.
const BIT_MAX: u32 = 1 << 20;

/// A text of notation as a module of its own, which imports what all others define.
pub struct Text {
    file: File,
    /// What stands in front of the text, in bytes.
    before: u32,
}

impl Text {
    /// Reads `value`, `name Type ::= value`, or a module's worth of such definitions, of which the last is meant.
    /// `others` are the modules that names may be of.
    ///
    /// # Errors
    /// It is no value notation.
    pub fn new(
        id: FileId,
        name: &str,
        text: &str,
        others: &[File],
        ty: &str,
    ) -> Result<Text, Error> {
        let modules = others.iter().flat_map(|f| &f.modules);
        let mut seen = std::collections::HashMap::new();
        for module in modules.clone() {
            for assignment in &module.assignments {
                *seen.entry(assignment.name.text.as_str()).or_insert(0) += 1;
            }
        }
        let mut header = String::from("Fusewire-Input DEFINITIONS ::= BEGIN IMPORTS");
        for module in modules {
            let names = module.assignments.iter().map(|a| a.name.text.as_str());
            let names: Vec<&str> = names.filter(|n| seen.get(n) == Some(&1)).collect();
            if !names.is_empty() {
                header += &format!(" {} FROM {}", names.join(","), module.name.text);
            }
        }
        header += ";\n";
        if !is_definition(text) {
            header += &format!("value {ty} ::= ");
        }
        let before = header.len() as u32;
        let file = File::parse(id, Source::new(name, format!("{header}{text}\nEND\n").as_bytes()));
        if let Some(wrong) = file.diagnostics.iter().find(|d| d.is_error()) {
            let help =
                if wrong.help.is_empty() { String::new() } else { format!(" ({})", wrong.help) };
            let error = Error::of_value(format!("{}{help}", wrong.message)).about(id, wrong.span);
            return Err(Text { file, before }.placed(error));
        }
        Ok(Text { file, before })
    }

    /// The file, which stands among the others in the world that a schema is made of.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// An error with the line and column of the text as it was given.
    pub fn placed(&self, mut error: Error) -> Error {
        let Some((file, span)) = error.place else { return error };
        if file == self.file.id {
            let text = self.file.source.text();
            let at = (span.start.max(self.before) as usize).min(text.len());
            let given = text.get(self.before as usize..at).unwrap_or("");
            let line = given.matches('\n').count() + 1;
            let column = given.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            let message = format!("{}:{line}:{column}: {}", self.file.source.name(), error.problem);
            error.problem = crate::error::Problem::Value(message);
            error.place = None;
        }
        error
    }
}

/// Whether a text begins with `name Type ::=`, and is not a value alone.
fn is_definition(text: &str) -> bool {
    let tokens = fusewire_asn1::lexer::tokens(text);
    let mut depth = 0_u32;
    for token in tokens.iter().take(1000) {
        match token.kind {
            fusewire_asn1::lexer::TokenKind::Assign if depth == 0 => return true,
            fusewire_asn1::lexer::TokenKind::Sign(b'{') => depth += 1,
            fusewire_asn1::lexer::TokenKind::Sign(b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The value that a text means, of a type. The schema's world holds the text's file.
///
/// # Errors
/// It is none of the type.
pub fn from_text<'a>(schema: &mut Schema<'_, 'a>, text: &Text, ty: TypeId) -> Result<Value, Error> {
    let world: &World<'a> = schema.world;
    let module = world.own_modules().find(|m| world.modules[*m].file.id == text.file.id);
    let module = module.ok_or_else(|| Error::of_value("the text is none of these modules"))?;
    let assignments = &world.modules[module].ast.assignments;
    let value = assignments.iter().rev().find_map(|a| match &a.kind {
        AssignmentKind::Value(_, value) => Some(value),
        _ => None,
    });
    let value =
        value.ok_or_else(|| Error::of_value("a value is missing: write `name Type ::= value`"))?;
    let read = schema.value_of(value, &Env::of(module, &[]), ty);
    read.map_err(|e| text.placed(e))
}

impl<'a> Schema<'_, 'a> {
    /// The value that notation means beside its type.
    ///
    /// # Errors
    /// It is none of the type.
    pub fn value_of(
        &mut self,
        value: &'a ast::Value,
        env: &Env<'a>,
        ty: TypeId,
    ) -> Result<Value, Error> {
        self.read(value, env, ty, 0)
    }

    fn file_of(&self, env: &Env<'a>) -> FileId {
        self.world.modules[env.module].file.id
    }

    fn read(
        &mut self,
        value: &'a ast::Value,
        env: &Env<'a>,
        ty: TypeId,
        depth: u32,
    ) -> Result<Value, Error> {
        let placed = |e: Error| e.about(self.file_of(env), value.span);
        if depth > DEPTH_MAX {
            return Err(placed(Error::of_value("nested too deeply")));
        }
        let kind = self.shared(ty);
        let read = match &value.kind {
            ValueKind::Reference(reference) => self.named(reference, env, ty, depth),
            ValueKind::Field(reference, path) => self.field(reference, path, env, ty, depth),
            _ => self.literal(value, env, &kind.kind, depth),
        };
        let file = self.file_of(env);
        read.map_err(|e| e.about(file, value.span))
    }

    /// A name: one that the type gives, a parameter's, or a definition's.
    fn named(
        &mut self,
        reference: &'a Reference,
        env: &Env<'a>,
        ty: TypeId,
        depth: u32,
    ) -> Result<Value, Error> {
        let name = reference.name.text.as_str();
        let given = match &self.get(ty).kind {
            Kind::Integer(of) => {
                of.names.iter().find(|(n, _)| n == name).map(|(_, n)| Value::integer(*n))
            }
            Kind::Enumerated(of) => {
                of.items.iter().find(|(n, _)| n == name).map(|(_, n)| Value::Enumerated(*n))
            }
            _ => None,
        };
        if let Some(given) = given.filter(|_| reference.module.is_none()) {
            return Ok(given);
        }
        if let Some(bound) = env.parameter(name).filter(|_| reference.module.is_none()) {
            return match bound {
                Bound::Actual(Argument::Value(next), outer) => {
                    self.read(next, &outer, ty, depth + 1)
                }
                Bound::Actual(Argument::Braced(braced), outer) => {
                    let next = self.world.value_in(outer.module, *braced);
                    self.read(next, &outer, ty, depth + 1)
                }
                _ => Err(Error::of_value(format!("`{name}` stands for no value"))),
            };
        }
        match self.world.definition(reference, env) {
            Some((assignment, inner)) => match &assignment.kind {
                AssignmentKind::Value(_, next) => self.read(next, &inner, ty, depth + 1),
                _ => Err(Error::of_value(format!("`{name}` is no value"))),
            },
            None => Err(Error::of_value(format!("`{name}` is no value of {}", self.get(ty).name))),
        }
    }

    /// `object.&field`.
    fn field(
        &mut self,
        reference: &'a Reference,
        path: &'a [Name],
        env: &Env<'a>,
        ty: TypeId,
        depth: u32,
    ) -> Result<Value, Error> {
        let wrong = || Error::of_value("the object has no such value");
        let [field] = path else { return Err(wrong()) };
        let object = self.world.object(reference, env, 0).ok_or_else(wrong)?;
        let settings: &'a [_] = object.settings;
        let setting = settings.iter().find(|s| s.field == field.text).ok_or_else(wrong)?;
        match &setting.to {
            Argument::Value(next) => self.read(next, &object.env, ty, depth + 1),
            Argument::Braced(braced) => {
                let next = self.world.value_in(object.env.module, *braced);
                self.read(next, &object.env, ty, depth + 1)
            }
            Argument::Type(_) => Err(wrong()),
        }
    }

    fn literal(
        &mut self,
        value: &'a ast::Value,
        env: &Env<'a>,
        kind: &Kind,
        depth: u32,
    ) -> Result<Value, Error> {
        let wrong = |what: &str| Error::of_value(format!("this is no value of {what}"));
        match (kind, &value.kind) {
            (Kind::Boolean, ValueKind::Boolean(b)) => Ok(Value::Boolean(*b)),
            (Kind::Null, ValueKind::Null) => Ok(Value::Null),
            (Kind::Integer(_), ValueKind::Integer(Some(n))) => Ok(Value::integer(*n)),
            (Kind::Integer(_), ValueKind::Integer(None)) => {
                let text = self.world.modules[env.module].file.source.slice(value.span);
                let bytes = number::from_decimal(text);
                bytes
                    .map(Value::Integer)
                    .ok_or_else(|| Error::of_value("a number with too many digits"))
            }
            // Our own, for numbers with too many digits.
            (Kind::Integer(_), ValueKind::Hex(digits)) => {
                Ok(Value::Integer(number::minimal(&strings::of_hex(digits)).to_vec()))
            }
            (Kind::Enumerated(of), ValueKind::Integer(Some(n))) if of.is_extensible => {
                i64::try_from(*n).map(Value::Enumerated).map_err(|_| wrong("the ENUMERATED"))
            }
            (Kind::Real(_), _) => self.real(value, env),
            (Kind::Bits(names, _), _) => self.bits(value, env, names),
            (Kind::Octets(_), ValueKind::Hex(digits)) => Ok(Value::Octets(strings::of_hex(digits))),
            (Kind::Octets(_), ValueKind::Bits(digits)) => {
                Ok(Value::Octets(strings::of_bits(digits).0))
            }
            (Kind::Oid, ValueKind::Braced(braced)) => self.oid(*braced, env, depth),
            (Kind::RelativeOid, ValueKind::Braced(braced)) => {
                let arcs = self.arcs(*braced, env, true, depth)?;
                let oid = RelativeOid::from_arcs(&arcs).ok_or_else(|| wrong("RELATIVE-OID"))?;
                Ok(Value::Oid(oid.as_contents().to_vec()))
            }
            (Kind::Oid | Kind::RelativeOid, ValueKind::Hex(digits)) => {
                let contents = strings::of_hex(digits);
                let is_right = match kind {
                    Kind::Oid => Oid::from_contents(contents.as_slice()).is_some(),
                    _ => RelativeOid::from_contents(contents.as_slice()).is_some(),
                };
                match is_right {
                    true => Ok(Value::Oid(contents)),
                    false => Err(wrong("OBJECT IDENTIFIER")),
                }
            }
            (Kind::Text(simple, _), _) => {
                let read = self.text(*simple, value, env)?;
                if let Value::Text(bytes) = &read {
                    characters::check(*simple, bytes)?;
                }
                Ok(read)
            }
            (Kind::Structure(of), ValueKind::Braced(braced)) => {
                self.components(of, *braced, env, depth)
            }
            (Kind::List(of), ValueKind::Braced(braced)) => {
                let items = self.world.read_list(env.module, *braced);
                let items = items.ok_or_else(|| Error::of_value("these are no elements"))?;
                let mut elements = Vec::with_capacity(items.len());
                for (n, item) in items.iter().enumerate() {
                    let value = item.value.as_ref().ok_or_else(|| wrong("the element's type"))?;
                    let read = self.read(value, env, of.element, depth + 1);
                    elements.push(read.map_err(|e| e.in_element(n))?);
                }
                Ok(Value::List(elements))
            }
            (Kind::Choice(of), ValueKind::Choice(name, inner)) => {
                let index = of.alternatives.iter().position(|a| a.name == name.text);
                let index = index.ok_or_else(|| {
                    Error::of_value(format!("the CHOICE has no alternative `{}`", name.text))
                })?;
                let read = self.read(inner, env, of.alternatives[index].ty, depth + 1);
                Ok(Value::Choice(index, Box::new(read.map_err(|e| e.in_field(&name.text))?)))
            }
            (Kind::Choice(of), ValueKind::Extension(given)) if of.is_extensible => {
                self.extension(given, env).map(Value::UnknownChoice)
            }
            (Kind::Open(_), ValueKind::Open(ty, inner)) => {
                let ty = Ty { ty, env: env.clone() };
                let id = self.node(ty, None, Vec::new(), None);
                self.drain()?;
                Ok(Value::Open(Open::Typed(id, Box::new(self.read(inner, env, id, depth + 1)?))))
            }
            (Kind::Open(_), ValueKind::Hex(digits)) => {
                Ok(Value::Open(Open::Raw(strings::of_hex(digits), Place::default())))
            }
            (Kind::Open(_), _) => Err(Error::of_value(
                "a value of an open type has its type before it: write `Type : value`, or its encoding as '…'H",
            )),
            (Kind::Opaque(_), ValueKind::Hex(digits)) => {
                Ok(Value::Open(Open::Raw(strings::of_hex(digits), Place::default())))
            }
            (Kind::Opaque(of), _) => Err(Error::of_value(format!(
                "`{}` is of a module that is not there: write the encoding of its value as '…'H, or add its file",
                of.name
            ))),
            (Kind::Unknown(reason), _) => Err(Error::of_type(reason.clone())),
            (kind, _) => Err(wrong(described(kind))),
        }
    }

    /// An extension that its type does not know.
    fn extension(&self, given: &'a ast::Extension, env: &Env<'a>) -> Result<Unknown, Error> {
        let wrong = || Error::of_value("a number or tag of an extension that is too large");
        let octets = strings::of_hex(&given.octets);
        Ok(match (&given.tag, given.number) {
            (Some(tag), _) => {
                let number = self.world.integer(&tag.number, env);
                let number = number.and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong)?;
                Unknown::Tagged(tags::of(tag.class, number).ok_or_else(wrong)?, octets)
            }
            (None, Some(number)) => {
                Unknown::Counted(u64::try_from(number).map_err(|_| wrong())?, octets)
            }
            (None, None) => Unknown::Ber(octets),
        })
    }

    fn real(&self, value: &'a ast::Value, env: &Env<'a>) -> Result<Value, Error> {
        let wrong = || Error::of_value("this is no value of REAL");
        let number = match &value.kind {
            ValueKind::Integer(Some(n)) => *n as f64,
            ValueKind::Real(text) => text.parse().map_err(|_| wrong())?,
            ValueKind::SpecialReal("PLUS-INFINITY") => f64::INFINITY,
            ValueKind::SpecialReal("MINUS-INFINITY") => f64::NEG_INFINITY,
            ValueKind::SpecialReal(_) => f64::NAN,
            ValueKind::Braced(braced) => {
                let items = self.world.read_list(env.module, *braced).ok_or_else(wrong)?;
                let part = |n: usize| self.world.integer(items.get(n)?.value.as_ref()?, env);
                let parts = (part(0), part(1), part(2));
                let (Some(mantissa), Some(base), Some(exponent)) = parts else {
                    return Err(wrong());
                };
                let text = format!("{mantissa}e{exponent}");
                match base {
                    10 => text.parse().map_err(|_| wrong())?,
                    2 => binary(mantissa, exponent).ok_or_else(wrong)?,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        };
        Ok(Value::Real(Real::new(number)))
    }

    fn bits(
        &self,
        value: &'a ast::Value,
        env: &Env<'a>,
        names: &[(String, u32)],
    ) -> Result<Value, Error> {
        let wrong = || Error::of_value("this is no value of BIT STRING");
        let braced = match &value.kind {
            ValueKind::Bits(digits) => {
                let (bytes, unused) = strings::of_bits(digits);
                return Ok(Value::Bits(bytes, unused));
            }
            ValueKind::Hex(digits) => {
                return Ok(Value::Bits(strings::of_hex(digits), (digits.len() % 2) as u8 * 4));
            }
            ValueKind::Braced(braced) => *braced,
            _ => return Err(wrong()),
        };
        let mut digits = String::new();
        for item in self.world.read_list(env.module, braced).ok_or_else(wrong)? {
            let Some(ast::Value { kind: ValueKind::Reference(name), .. }) = &item.value else {
                return Err(wrong());
            };
            let name = &name.name.text;
            let bit = names.iter().find(|(n, _)| n == name).map(|(_, bit)| *bit);
            let bit = bit
                .filter(|bit| *bit < BIT_MAX)
                .ok_or_else(|| Error::of_value(format!("the BIT STRING has no bit `{name}`")))?
                as usize;
            while digits.len() <= bit {
                digits.push('0');
            }
            digits.replace_range(bit..=bit, "1");
        }
        let (bytes, unused) = strings::of_bits(&digits);
        Ok(Value::Bits(bytes, unused))
    }

    fn oid(&self, braced: Braced, env: &Env<'a>, depth: u32) -> Result<Value, Error> {
        let arcs = self.arcs(braced, env, false, depth)?;
        let oid = Oid::from_arcs(&arcs)
            .ok_or_else(|| Error::of_value("this is no value of OBJECT IDENTIFIER"))?;
        Ok(Value::Oid(oid.as_contents().to_vec()))
    }

    /// The arcs in braces, through names of values.
    fn arcs(
        &self,
        braced: Braced,
        env: &Env<'a>,
        is_relative: bool,
        depth: u32,
    ) -> Result<Vec<u128>, Error> {
        let parts = self.world.read_oid(env.module, braced);
        let parts = parts.ok_or_else(|| Error::of_value("these are no arcs"))?;
        let mut arcs: Vec<u128> = Vec::new();
        for part in parts {
            let no_arc = || Error::of_value("an arc is a number of at most 128 bits");
            if let Some(number) = &part.number {
                let number = self.world.integer(number, env).ok_or_else(no_arc)?;
                arcs.push(u128::try_from(number).map_err(|_| no_arc())?);
                continue;
            }
            let Some(name) = &part.name else { return Err(no_arc()) };
            if !is_relative && let Some(number) = well_known(&arcs, &name.text) {
                arcs.push(number);
                continue;
            }
            arcs.extend(self.arcs_named(&name.text, env, arcs.is_empty(), depth)?);
        }
        Ok(arcs)
    }

    fn arcs_named(
        &self,
        name: &str,
        env: &Env<'a>,
        is_first: bool,
        depth: u32,
    ) -> Result<Vec<u128>, Error> {
        let undefined = || Error::of_value(format!("`{name}` is no object identifier's name here"));
        if depth > DEPTH_MAX {
            return Err(undefined());
        }
        let (value, inner) = match env.parameter(name) {
            Some(Bound::Actual(Argument::Value(next), outer)) => (next, outer),
            Some(_) => return Err(undefined()),
            None => {
                let Some(Target::Def(def)) = self.world.lookup(env.module, name) else {
                    return Err(undefined());
                };
                let AssignmentKind::Value(_, next) = &self.world.assignment(def).kind else {
                    return Err(undefined());
                };
                (next, Env::of(def.module, &[]))
            }
        };
        match &value.kind {
            ValueKind::Braced(braced) if is_first => self.arcs(*braced, &inner, false, depth + 1),
            ValueKind::Reference(next) if next.module.is_none() => {
                self.arcs_named(&next.name.text, &inner, is_first, depth + 1)
            }
            _ => {
                let number = self.world.integer(value, &inner).ok_or_else(undefined)?;
                Ok(vec![u128::try_from(number).map_err(|_| undefined())?])
            }
        }
    }

    fn text(
        &self,
        simple: ast::Simple,
        value: &'a ast::Value,
        env: &Env<'a>,
    ) -> Result<Value, Error> {
        let wrong = || Error::of_value("this is no character string");
        let text = match &value.kind {
            ValueKind::Text(text) => joined(text),
            // What is no text of its type.
            ValueKind::Hex(digits) => return Ok(Value::Text(strings::of_hex(digits))),
            ValueKind::Braced(braced) => {
                let mut text = String::new();
                for item in self.world.read_list(env.module, *braced).ok_or_else(wrong)? {
                    match &item.value.as_ref().ok_or_else(wrong)?.kind {
                        ValueKind::Text(part) => text += &joined(part),
                        ValueKind::Braced(braced) => text.push(self.character(*braced, env)?),
                        _ => return Err(wrong()),
                    }
                }
                text
            }
            _ => return Err(wrong()),
        };
        let bytes = characters::encode(characters::coding(simple), &text);
        let bytes =
            bytes.ok_or_else(|| Error::of_value("a character that the type does not have"))?;
        Ok(Value::Text(bytes))
    }

    /// `{column, row}` of ISO 646, or `{group, plane, row, cell}` of ISO 10646.
    fn character(&self, braced: Braced, env: &Env<'a>) -> Result<char, Error> {
        let items = self.world.read_list(env.module, braced).unwrap_or_default();
        let part = |n: usize| self.world.integer(items.get(n)?.value.as_ref()?, env);
        let part = |n: usize| part(n).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 256);
        let code = match (items.len(), part(0), part(1), part(2), part(3)) {
            (2, Some(column), Some(row), ..) if column < 8 && row < 16 => Some(column << 4 | row),
            (4, Some(group), Some(plane), Some(row), Some(cell)) => {
                Some(group << 24 | plane << 16 | row << 8 | cell)
            }
            _ => None,
        };
        code.and_then(char::from_u32).ok_or_else(|| Error::of_value("this is no character"))
    }

    fn components(
        &mut self,
        of: &StructureType,
        braced: Braced,
        env: &Env<'a>,
        depth: u32,
    ) -> Result<Value, Error> {
        let items = self.world.read_list(env.module, braced);
        let items = items.ok_or_else(|| Error::of_value("these are no components"))?;
        let members = of.members.as_slice();
        let mut values: Vec<Option<Value>> = members.iter().map(|_| None).collect();
        let (mut next, mut unknown) = (0, Vec::new());
        for item in items {
            if let (None, Some(ast::Value { kind: ValueKind::Extension(given), span })) =
                (&item.name, &item.value)
            {
                let read = match of.unknown_at {
                    Some(_) => self.extension(given, env),
                    None => Err(Error::of_value("the type has no extension marker `...`")),
                };
                unknown.push(read.map_err(|e| e.about(self.file_of(env), *span))?);
                continue;
            }
            // X.208 lets names be left out.
            let at = match &item.name {
                Some(name) => members.iter().position(|m| m.name == name.text),
                None => Some(next).filter(|n| *n < members.len()),
            };
            let file = self.file_of(env);
            let place = |e: Error| e.about(file, item.span);
            let Some(at) = at else {
                let message = match &item.name {
                    Some(name) => format!("the type has no component `{}`", name.text),
                    None => "a component too many".to_owned(),
                };
                return Err(place(Error::of_value(message)));
            };
            let member = &members[at];
            let Some(value) = &item.value else {
                return Err(place(Error::of_value("a component without a value")));
            };
            if values[at].is_some() {
                let message = format!("the component `{}` is there twice", member.name);
                return Err(place(Error::of_value(message)));
            }
            let read = self.read(value, env, member.ty, depth + 1);
            values[at] = Some(read.map_err(|e| e.in_field(&member.name))?);
            next = at + 1;
        }
        let missing = members.iter().zip(&values).find(|(m, v)| v.is_none() && !m.is_optional);
        match missing {
            Some((member, _)) => {
                Err(Error::of_value(format!("the component `{}` is missing", member.name)))
            }
            None => Ok(Value::Structure(Structure { members: values, unknown })),
        }
    }
}

/// A string over several lines: their ends, and the space around those, are no part of it (X.680, 12.14.1).
fn joined(text: &str) -> String {
    if !text.contains(['\n', '\r']) {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(1);
    let trimmed = lines.iter().enumerate().map(|(n, line)| {
        let line = if n > 0 { line.trim_start() } else { line };
        if n < last { line.trim_end() } else { line }
    });
    trimmed.collect()
}

/// `mantissa` times two to `exponent`, rounded once.
fn binary(mantissa: i128, exponent: i128) -> Option<f64> {
    let sign = if mantissa < 0 { 0x40 } else { 0 };
    let magnitude = mantissa.unsigned_abs().to_be_bytes();
    let exponent = i32::try_from(exponent).ok()?.to_be_bytes();
    let contents = [&[0x83 | sign, 4][..], &exponent, &magnitude].concat();
    fusewire_codec::types::real::decode(&contents, false).ok()
}

/// A type in words.
fn described(kind: &Kind) -> &'static str {
    match kind {
        Kind::Boolean => "BOOLEAN",
        Kind::Null => "NULL",
        Kind::Integer(_) => "INTEGER",
        Kind::Enumerated(_) => "the ENUMERATED",
        Kind::Octets(_) => "OCTET STRING",
        Kind::Oid => "OBJECT IDENTIFIER",
        Kind::RelativeOid => "RELATIVE-OID",
        Kind::Structure(of) if of.is_set => "the SET",
        Kind::Structure(_) => "the SEQUENCE",
        Kind::List(of) if of.is_set => "the SET OF",
        Kind::List(_) => "the SEQUENCE OF",
        Kind::Choice(_) => "the CHOICE: write `alternative : value`",
        _ => "the type",
    }
}
