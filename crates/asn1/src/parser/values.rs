//! Values (X.680: each type's own clause). What lies in braces has a meaning only beside its type, and is
//! kept as it is.

use super::{Parsed, Parser};
use crate::ast::*;
use crate::lexer::TokenKind;
use crate::tree::NodeKind;

impl Parser<'_> {
    /// A value.
    pub fn value(&mut self) -> Parsed<Value> {
        if self.is_at_next_definition() {
            return self.expected("a value", "the next definition begins here");
        }
        self.deeper(|p| {
            p.node(NodeKind::Value, |p| {
                let start = p.span();
                let kind = p.value_kind()?;
                Ok(Value { kind, span: p.since(start) })
            })
        })
    }

    fn value_kind(&mut self) -> Parsed<ValueKind> {
        let help = "a value is a number, a string, a name that begins with a small letter, or a list in braces";
        Ok(match self.kind(0) {
            TokenKind::Number | TokenKind::Real => self.number(false),
            TokenKind::Sign(b'-')
                if matches!(self.kind(1), TokenKind::Number | TokenKind::Real) =>
            {
                self.bump();
                self.number(true)
            }
            TokenKind::Sign(b'-') if self.word(1, "INFINITY") => {
                self.bump();
                self.bump();
                ValueKind::SpecialReal("MINUS-INFINITY")
            }
            TokenKind::Bits => ValueKind::Bits(self.digits()),
            TokenKind::Hex => ValueKind::Hex(self.digits()),
            TokenKind::Text => {
                let text = self.text(0);
                self.bump();
                let inner = text.strip_prefix('"').unwrap_or(text);
                let inner = inner.strip_suffix('"').unwrap_or(inner);
                ValueKind::Text(inner.replace("\"\"", "\""))
            }
            TokenKind::Sign(b'{') => ValueKind::Braced(self.braced()?),
            TokenKind::Lower => return self.named_value(),
            TokenKind::Upper => return self.upper_value(),
            TokenKind::Ellipsis => return self.extension(),
            _ => return self.expected("a value", help),
        })
    }

    /// `... '0F'H`, with `2 :` or `[2] :` in front of the octets.
    fn extension(&mut self) -> Parsed<ValueKind> {
        let help = "write `... '0F'H`, `... 2 : '0F'H` or `... [2] : '0F'H`";
        self.bump();
        let (mut number, mut tag) = (None, None);
        if self.kind(0) == TokenKind::Number {
            number = self.text(0).parse().ok();
            self.bump();
            self.expect_sign(b':', help)?;
        } else if self.sign(0, b'[') {
            tag = self.tag()?.map(Box::new);
            self.expect_sign(b':', help)?;
        }
        if self.kind(0) != TokenKind::Hex {
            return self.expected("octets", help);
        }
        Ok(ValueKind::Extension(Extension { number, tag, octets: self.digits() }))
    }

    fn number(&mut self, negative: bool) -> ValueKind {
        let (kind, text) = (self.kind(0), self.text(0));
        self.bump();
        let sign = if negative { "-" } else { "" };
        let signed = format!("{sign}{text}");
        if kind == TokenKind::Real {
            return ValueKind::Real(signed);
        }
        ValueKind::Integer(signed.parse().ok())
    }

    fn digits(&mut self) -> String {
        let text = self.text(0);
        self.bump();
        let inner = text.get(1..text.len() - 2).unwrap_or("");
        inner.chars().filter(|c| c.is_ascii_hexdigit()).collect()
    }

    /// `name`, `name : value`, `object.&field`, and `name value` as X.208 writes a CHOICE.
    fn named_value(&mut self) -> Parsed<ValueKind> {
        let name = self.take_name();
        if self.sign(0, b':') {
            self.bump();
            return Ok(ValueKind::Choice(name, Box::new(self.value()?)));
        }
        let old_choice = match self.kind(0) {
            TokenKind::Number | TokenKind::Text | TokenKind::Bits | TokenKind::Hex => true,
            TokenKind::Upper => matches!(self.text(0), "TRUE" | "FALSE"),
            _ => false,
        };
        if old_choice {
            return Ok(ValueKind::Choice(name, Box::new(self.value()?)));
        }
        if self.sign(0, b'.')
            && matches!(self.kind(1), TokenKind::FieldLower | TokenKind::FieldUpper)
        {
            let reference = Reference { module: None, name, arguments: None };
            return Ok(ValueKind::Field(reference, self.field_path()?));
        }
        let arguments = if self.sign(0, b'{') { Some(self.arguments()?) } else { None };
        Ok(ValueKind::Reference(Reference { module: None, name, arguments }))
    }

    fn upper_value(&mut self) -> Parsed<ValueKind> {
        let word = match self.text(0) {
            "TRUE" => ValueKind::Boolean(true),
            "FALSE" => ValueKind::Boolean(false),
            "NULL" if !self.sign(1, b':') => ValueKind::Null,
            "MIN" => ValueKind::Min,
            "MAX" => ValueKind::Max,
            "PLUS-INFINITY" => ValueKind::SpecialReal("PLUS-INFINITY"),
            "MINUS-INFINITY" => ValueKind::SpecialReal("MINUS-INFINITY"),
            "NOT-A-NUMBER" => ValueKind::SpecialReal("NOT-A-NUMBER"),
            "CONTAINING" => {
                self.bump();
                return Ok(ValueKind::Containing(Box::new(self.value()?)));
            }
            _ => return self.outer_value(),
        };
        self.bump();
        Ok(word)
    }

    /// `Module.value`, `Module.object.&field`, `Set.&field`, `Type : value`.
    fn outer_value(&mut self) -> Parsed<ValueKind> {
        let help = "a value's name begins with a small letter";
        if self.sign(1, b'.') && self.kind(2) == TokenKind::Lower {
            let module = Some(self.upper("a module", help)?);
            self.bump();
            let name = self.take_name();
            let path = if matches!(self.kind(1), TokenKind::FieldLower | TokenKind::FieldUpper) {
                self.field_path()?
            } else {
                Vec::new()
            };
            if !path.is_empty() {
                return Ok(ValueKind::Field(Reference { module, name, arguments: None }, path));
            }
            let arguments = if self.sign(0, b'{') { Some(self.arguments()?) } else { None };
            return Ok(ValueKind::Reference(Reference { module, name, arguments }));
        }
        let before = self.span();
        let Ok(ty) = self.ty() else { return Err(super::Failed) };
        if self.eat_sign(b':') {
            return Ok(ValueKind::Open(Box::new(ty), Box::new(self.value()?)));
        }
        if let TypeKind::Field(reference, path) = ty.kind {
            return Ok(ValueKind::Field(reference, path));
        }
        self.fail(before, "expected a value, found a type", help)
    }
}
