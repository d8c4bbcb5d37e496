//! Constraints and sets of elements (X.680 clauses 49 to 52, X.682).

use super::{Parsed, Parser};
use crate::ast::*;
use crate::lexer::TokenKind;
use crate::tree::NodeKind;

impl Parser<'_> {
    /// `( … )`.
    pub(super) fn constraint(&mut self) -> Parsed<Constraint> {
        self.deeper(|p| {
            let start = p.span();
            p.expect_sign(b'(', "a constraint begins with `(`")?;
            let kind = p.constraint_kind()?;
            let has_exception = p.exception()?;
            p.expect_sign(b')', "close the constraint with `)`")?;
            Ok(Constraint { kind, has_exception, span: p.since(start) })
        })
    }

    fn constraint_kind(&mut self) -> Parsed<ConstraintKind> {
        if self.kind(0) == TokenKind::Upper {
            match self.text(0) {
                "CONSTRAINED" => {
                    self.bump();
                    self.expect_word("BY", "write `CONSTRAINED BY { … }`")?;
                    self.braced()?;
                    return Ok(ConstraintKind::User);
                }
                "CONTAINING" => {
                    self.bump();
                    let ty = Some(Box::new(self.ty()?));
                    let by = if self.word(0, "ENCODED") { Some(self.encoded_by()?) } else { None };
                    return Ok(ConstraintKind::Contents(ty, by));
                }
                "ENCODED" => return Ok(ConstraintKind::Contents(None, Some(self.encoded_by()?))),
                _ => {}
            }
        }
        if self.is_table() {
            return self.table();
        }
        Ok(ConstraintKind::Set(self.set_spec()?))
    }

    fn encoded_by(&mut self) -> Parsed<Value> {
        self.bump();
        self.expect_word("BY", "write `ENCODED BY value`")?;
        self.value()
    }

    /// Whether `{Set}` stands here, and not a value in braces.
    fn is_table(&self) -> bool {
        let Some(close) = self.partner() else { return false };
        if !self.sign(0, b'{') || self.kind(1) != TokenKind::Upper {
            return false;
        }
        let len = close - self.at;
        let dotted = self.sign(2, b'.') && (self.kind(3) == TokenKind::FieldUpper || len == 4);
        len == 2 || dotted || self.sign(2, b'{')
    }

    fn table(&mut self) -> Parsed<ConstraintKind> {
        self.bump();
        let set = self.reference("an object set")?;
        self.field_path()?;
        self.expect_sign(b'}', "close the object set with `}`")?;
        let paths =
            if self.sign(0, b'{') { self.list("paths", Self::at_path)? } else { Vec::new() };
        Ok(ConstraintKind::Table(set, paths))
    }

    fn at_path(&mut self) -> Parsed<AtPath> {
        self.expect_sign(b'@', "a path is `@component` or `@.component`")?;
        let level = match self.kind(0) {
            TokenKind::Sign(b'.') => 1,
            TokenKind::Range => 2,
            TokenKind::Ellipsis => 3,
            _ => 0,
        };
        if level > 0 {
            self.bump();
        }
        let mut names = vec![self.lower("a component's name", "name the component")?];
        while self.eat_sign(b'.') {
            names.push(self.lower("a component's name", "name the component")?);
        }
        Ok(AtPath { level, names })
    }

    /// `{ … }` of a set of values or objects.
    pub(super) fn set_in_braces(&mut self) -> Parsed<SetSpec> {
        let open = self.span();
        self.expect_sign(b'{', "a set stands in braces")?;
        let set = self.set_spec()?;
        if !self.sign(0, b'}') {
            return self.unclosed(open, "elements");
        }
        self.bump();
        Ok(set)
    }

    /// Elements, with `...` among them.
    pub fn set_spec(&mut self) -> Parsed<SetSpec> {
        let mut spec = SetSpec { root: None, is_extensible: false, additional: None };
        if self.kind(0) == TokenKind::Ellipsis {
            spec.is_extensible = true;
            self.bump();
        } else if self.is_at_end() || self.sign(0, b'}') {
            let span = self.span();
            self.warn(span, "a set without elements", "write `{...}` if they come later");
        } else {
            spec.root = Some(self.set()?);
            if self.sign(0, b',') && self.kind(1) == TokenKind::Ellipsis {
                self.bump();
                self.bump();
                spec.is_extensible = true;
            }
        }
        if spec.is_extensible && self.eat_sign(b',') {
            if self.kind(0) == TokenKind::Ellipsis {
                self.bump();
            } else {
                spec.additional = Some(self.set()?);
            }
        }
        Ok(spec)
    }

    fn set(&mut self) -> Parsed<Set> {
        self.deeper(|p| {
            if p.word(0, "ALL") && p.word(1, "EXCEPT") {
                p.bump();
                p.bump();
                return Ok(Set::AllExcept(Box::new(p.intersection()?)));
            }
            let mut parts = vec![p.intersection()?];
            while p.eat_sign(b'|') || p.eat_word("UNION") {
                parts.push(p.intersection()?);
            }
            Ok(if parts.len() == 1 { parts.remove(0) } else { Set::Union(parts) })
        })
    }

    fn intersection(&mut self) -> Parsed<Set> {
        let mut parts = vec![self.exclusion()?];
        while self.eat_sign(b'^') || self.eat_word("INTERSECTION") {
            parts.push(self.exclusion()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Set::Intersection(parts) })
    }

    fn exclusion(&mut self) -> Parsed<Set> {
        let element = Set::Element(Box::new(self.element()?));
        if self.eat_word("EXCEPT") {
            let without = Set::Element(Box::new(self.element()?));
            return Ok(Set::Except(Box::new(element), Box::new(without)));
        }
        Ok(element)
    }

    fn element(&mut self) -> Parsed<Element> {
        if self.sign(0, b'(') {
            return self.deeper(|p| {
                p.bump();
                let group = p.set_spec()?;
                p.expect_sign(b')', "close the group with `)`")?;
                Ok(Element::Group(Box::new(group)))
            });
        }
        if self.kind(0) == TokenKind::Upper {
            match self.text(0) {
                "SIZE" => {
                    self.bump();
                    return Ok(Element::Size(Box::new(self.constraint()?)));
                }
                "FROM" => {
                    self.bump();
                    return Ok(Element::From(Box::new(self.constraint()?)));
                }
                "PATTERN" => {
                    self.bump();
                    return Ok(Element::Pattern(self.value()?));
                }
                "SETTINGS" => {
                    self.bump();
                    let text = self.text(0).to_owned();
                    self.value()?;
                    return Ok(Element::Settings(text));
                }
                "WITH" => return self.inner(),
                "INCLUDES" => {
                    self.bump();
                    return Ok(Element::Type(Box::new(self.ty()?), true));
                }
                _ => {}
            }
        }
        self.value_or_type()
    }

    fn value_or_type(&mut self) -> Parsed<Element> {
        let is_type = match self.kind(0) {
            TokenKind::Sign(b'[') => true,
            TokenKind::Upper => match self.text(0) {
                "TRUE" | "FALSE" | "MIN" | "MAX" | "PLUS-INFINITY" | "MINUS-INFINITY"
                | "NOT-A-NUMBER" => false,
                "NULL" => self.sign(1, b':'),
                _ => !(self.sign(1, b'.') && self.kind(2) == TokenKind::Lower),
            },
            TokenKind::Lower => {
                self.sign(1, b'<') && self.kind(2) != TokenKind::Range || self.is_field_type()
            }
            _ => false,
        };
        if is_type {
            let ty = self.ty()?;
            if self.sign(0, b':') {
                let start = ty.span;
                self.bump();
                let kind = ValueKind::Open(Box::new(ty), Box::new(self.value()?));
                return Ok(Element::Value(Value { kind, span: self.since(start) }));
            }
            return Ok(Element::Type(Box::new(ty), false));
        }
        let lower = self.value()?;
        let lower_open = self.sign(0, b'<') && self.kind(1) == TokenKind::Range;
        if lower_open {
            self.bump();
        }
        if self.kind(0) != TokenKind::Range {
            return Ok(Element::Value(lower));
        }
        self.bump();
        let upper_open = self.eat_sign(b'<');
        let upper = self.value()?;
        Ok(Element::Range(lower, lower_open, upper, upper_open))
    }

    /// `WITH COMPONENT (…)`, `WITH COMPONENTS { … }`.
    fn inner(&mut self) -> Parsed<Element> {
        self.bump();
        if self.eat_word("COMPONENT") {
            return Ok(Element::Inner(Box::new(self.constraint()?)));
        }
        self.expect_word("COMPONENTS", "write `WITH COMPONENT` or `WITH COMPONENTS`")?;
        let mut is_partial = false;
        let parts = self.list("components", |p| {
            if p.kind(0) == TokenKind::Ellipsis {
                is_partial = true;
                p.bump();
                return Ok(None);
            }
            let name = p.lower("a component's name", "write `{ ..., name PRESENT }`")?;
            let mut constraint = None;
            if p.sign(0, b'(') {
                constraint = Some(p.node(NodeKind::Constraint, Self::constraint)?);
            }
            let presence = match p.text(0) {
                "PRESENT" => Some(Some(true)),
                "ABSENT" => Some(Some(false)),
                "OPTIONAL" => Some(None),
                _ => None,
            };
            if presence.is_some() {
                p.bump();
            }
            Ok(Some(ComponentConstraint { name, constraint, presence: presence.flatten() }))
        })?;
        Ok(Element::Components(is_partial, parts.into_iter().flatten().collect()))
    }
}
