//! Types (X.680 clauses 17 to 47, X.208, and what 1984 had besides: components without names).

use super::{Failed, Parsed, Parser, is_reserved};
use crate::ast::*;
use crate::lexer::TokenKind;
use crate::tree::NodeKind;

impl Parser<'_> {
    /// A type in front of `::=`.
    pub(super) fn governor(&mut self) -> Parsed<Type> {
        self.is_governor = true;
        let result = self.deeper(|p| p.node(NodeKind::Type, Self::ty_here));
        self.is_governor = false;
        result
    }

    /// A type.
    pub fn ty(&mut self) -> Parsed<Type> {
        if !self.is_governor && self.is_at_next_definition() {
            return self.expected("a type", "the next definition begins here");
        }
        self.deeper(|p| p.node(NodeKind::Type, Self::ty_here))
    }

    fn ty_here(&mut self) -> Parsed<Type> {
        let start = self.span();
        let mut tags = Vec::new();
        while self.sign(0, b'[') {
            tags.extend(self.node(NodeKind::Tag, Self::tag)?);
        }
        let mut constraints = Vec::new();
        let kind = self.kind_of_type(&mut constraints)?;
        while self.sign(0, b'(') {
            constraints.push(self.node(NodeKind::Constraint, Self::constraint)?);
        }
        // X.208 writes the SIZE of a string without parentheses in places.
        if self.word(0, "SIZE") && self.sign(1, b'(') && !matches!(kind, TypeKind::Broken) {
            let size = self.size_constraint()?;
            constraints.push(size);
        }
        Ok(Type { tags, kind, constraints, span: self.since(start) })
    }

    /// `[APPLICATION 3] IMPLICIT`; nothing for an encoding instruction.
    pub(super) fn tag(&mut self) -> Parsed<Option<Tag>> {
        let start = self.span();
        self.bump();
        if self.kind(0) == TokenKind::Upper && self.sign(1, b':') && !self.sign(2, b':') {
            if !self.word(0, "TAG") {
                return self.encoding_instruction();
            }
            self.bump();
            self.bump();
        }
        let class = match self.text(0) {
            "UNIVERSAL" => TagClass::Universal,
            "APPLICATION" => TagClass::Application,
            "PRIVATE" => TagClass::Private,
            _ => TagClass::Context,
        };
        if class != TagClass::Context {
            self.bump();
        } else if self.instructions && self.kind(0) == TokenKind::Upper && !self.sign(1, b'.') {
            return self.encoding_instruction();
        }
        if !matches!(self.kind(0), TokenKind::Number | TokenKind::Lower | TokenKind::Upper) {
            return self.expected("a tag's number", "write `[3]`, `[APPLICATION 3]`");
        }
        let number = self.value()?;
        self.expect_sign(b']', "close the tag with `]`")?;
        let implicit = match self.text(0) {
            "IMPLICIT" => Some(true),
            "EXPLICIT" => Some(false),
            _ => None,
        };
        if implicit.is_some() {
            self.bump();
        }
        Ok(Some(Tag { class, number, implicit, span: self.since(start) }))
    }

    fn encoding_instruction(&mut self) -> Parsed<Option<Tag>> {
        while !self.sign(0, b']') {
            if self.is_at_end() || self.kind(0) == TokenKind::Assign {
                return self.expected("`]`", "close the instruction with `]`");
            }
            self.bump();
        }
        self.bump();
        Ok(None)
    }

    fn kind_of_type(&mut self, constraints: &mut Vec<Constraint>) -> Parsed<TypeKind> {
        let help = "a type is a name that begins with a capital, or a type of ASN.1";
        match self.kind(0) {
            TokenKind::Upper => {}
            TokenKind::Lower if self.sign(1, b'<') => {
                let name = self.take_name();
                self.bump();
                return Ok(TypeKind::Selection(name, Box::new(self.ty()?)));
            }
            TokenKind::Lower if self.is_field_type() => return self.reference_or_field(),
            _ => return self.expected("a type", help),
        }
        if let Some(simple) = Simple::from_word(self.text(0)) {
            self.bump();
            return Ok(TypeKind::Simple(simple));
        }
        let second = |p: &mut Self, word: &str, simple| {
            p.bump();
            let help = format!("write `{} {word}`", p.previous_text());
            p.expect_word(word, &help)?;
            Ok(TypeKind::Simple(simple))
        };
        match self.text(0) {
            "OCTET" => second(self, "STRING", Simple::OctetString),
            "OBJECT" => second(self, "IDENTIFIER", Simple::ObjectIdentifier),
            "EMBEDDED" => second(self, "PDV", Simple::EmbeddedPdv),
            "CHARACTER" => second(self, "STRING", Simple::CharacterString),
            "BIT" => {
                self.bump();
                self.expect_word("STRING", "write `BIT STRING`")?;
                Ok(TypeKind::BitString(self.named_numbers()?))
            }
            "INTEGER" => {
                self.bump();
                Ok(TypeKind::Integer(self.named_numbers()?))
            }
            "ENUMERATED" => {
                self.bump();
                self.enumerated()
            }
            "CHOICE" => {
                self.bump();
                Ok(TypeKind::Choice(self.items("alternatives")?))
            }
            "SEQUENCE" | "SET" => self.structured(constraints),
            "ANY" => {
                self.bump();
                let mut by = None;
                if self.eat_word("DEFINED") {
                    self.expect_word("BY", "write `ANY DEFINED BY component`")?;
                    by =
                        Some(self.lower(
                            "a component's name",
                            "name the component that says what it is",
                        )?);
                }
                Ok(TypeKind::Any(by))
            }
            "INSTANCE" => {
                self.bump();
                self.expect_word("OF", "write `INSTANCE OF CLASS`")?;
                Ok(TypeKind::InstanceOf(self.reference("a class")?))
            }
            _ if self.is_macro(0) => self.node(NodeKind::MacroUse, Self::macro_use),
            word if is_reserved(word) => self.expected("a type", help),
            _ => self.reference_or_field(),
        }
    }

    fn previous_text(&self) -> &str {
        let n = self.file.significant[self.at - 1] as usize;
        self.file.source.slice(self.file.tree.tokens[n].span)
    }

    /// SEQUENCE, SET, and those with OF.
    fn structured(&mut self, constraints: &mut Vec<Constraint>) -> Parsed<TypeKind> {
        let is_set = self.word(0, "SET");
        self.bump();
        if self.sign(0, b'{') {
            let items = self.items("components")?;
            return Ok(if is_set { TypeKind::Set(items) } else { TypeKind::Sequence(items) });
        }
        if self.word(0, "SIZE") {
            let size = self.size_constraint()?;
            constraints.push(size);
        } else if self.sign(0, b'(') {
            constraints.push(self.node(NodeKind::Constraint, Self::constraint)?);
        } else if !self.word(0, "OF") {
            // In 1984 the word alone is a structure of which nothing is known.
            if matches!(self.kind(0), TokenKind::Sign(b',' | b'}'))
                || (self.is_at_definition() && self.begins_line(0))
            {
                let span = self.span();
                self.warn(span, "a structure without components", "say what it holds: `{ … }`");
                let unknown = vec![Item::Extension(span)];
                return Ok(if is_set {
                    TypeKind::Set(unknown)
                } else {
                    TypeKind::Sequence(unknown)
                });
            }
            let word = if is_set { "SET" } else { "SEQUENCE" };
            let help = format!("write `{word} {{ … }}` or `{word} OF Type`");
            return self.expected("`{` or `OF`", &help);
        }
        self.expect_word("OF", "write `SEQUENCE OF Type`")?;
        let mut name = None;
        if self.kind(0) == TokenKind::Lower && !self.sign(1, b'<') && !self.sign(1, b'.') {
            name = Some(self.take_name());
        }
        let element = Box::new(self.ty()?);
        Ok(if is_set {
            TypeKind::SetOf(name, element)
        } else {
            TypeKind::SequenceOf(name, element)
        })
    }

    /// `SIZE (…)` without parentheses around it.
    fn size_constraint(&mut self) -> Parsed<Constraint> {
        self.node(NodeKind::Constraint, |p| {
            let start = p.span();
            p.bump();
            if !p.sign(0, b'(') {
                return p.expected("`(`", "write `SIZE (1..10)`");
            }
            let inner = p.constraint()?;
            let size = Set::Element(Box::new(Element::Size(Box::new(inner))));
            let spec = SetSpec { root: Some(size), is_extensible: false, additional: None };
            let kind = ConstraintKind::Set(spec);
            Ok(Constraint { kind, has_exception: false, span: p.since(start) })
        })
    }

    fn named_numbers(&mut self) -> Parsed<Vec<NamedNumber>> {
        if !self.sign(0, b'{') {
            return Ok(Vec::new());
        }
        self.list("names", |p| {
            p.expect_no_component()?;
            let name = p.lower("a name", "name a number: `name(3)`")?;
            p.expect_sign(b'(', "give the number in parentheses: `name(3)`")?;
            let value = p.value()?;
            p.expect_sign(b')', "close the number with `)`")?;
            Ok(NamedNumber { name, value })
        })
    }

    /// That no component stands where a list without components should have been closed.
    fn expect_no_component(&mut self) -> Parsed<()> {
        let next = matches!(self.kind(1), TokenKind::Upper | TokenKind::Sign(b'['));
        if self.kind(0) == TokenKind::Lower && next {
            return self.expected("`}`", "close the list before the next component");
        }
        Ok(())
    }

    fn enumerated(&mut self) -> Parsed<TypeKind> {
        let start = self.span();
        let items = self.list("items", |p| {
            while p.sign(0, b',') {
                p.warn(p.span(), "an item is empty", "remove the comma");
                p.bump();
            }
            if p.kind(0) == TokenKind::Ellipsis {
                p.bump();
                p.exception()?;
                return Ok(EnumItem::Extension);
            }
            p.expect_no_component()?;
            let name = p.lower("an item's name", "an item is `name` or `name(3)`")?;
            let mut value = None;
            if p.eat_sign(b'(') {
                value = Some(p.value()?);
                p.expect_sign(b')', "close the number with `)`")?;
            }
            Ok(EnumItem::Named(name, value))
        })?;
        if items.is_empty() {
            self.error(start, "an ENUMERATED without items", "name at least one");
        }
        Ok(TypeKind::Enumerated(items))
    }

    fn items(&mut self, what: &str) -> Parsed<Vec<Item>> {
        self.list(what, Self::item)
    }

    fn item(&mut self) -> Parsed<Item> {
        if self.kind(0) == TokenKind::Ellipsis {
            let span = self.span();
            self.bump();
            self.exception()?;
            return Ok(Item::Extension(span));
        }
        if self.sign(0, b'[') && self.sign(1, b'[') {
            return self.deeper(|p| p.node(NodeKind::Group, Self::group));
        }
        if self.word(0, "COMPONENTS") && !self.word(1, "OPTIONAL") {
            self.bump();
            self.expect_word("OF", "write `COMPONENTS OF Type`")?;
            return Ok(Item::ComponentsOf(self.ty()?));
        }
        self.node(NodeKind::Component, Self::component)
    }

    fn group(&mut self) -> Parsed<Item> {
        self.bump();
        self.bump();
        let mut version = None;
        if self.kind(0) == TokenKind::Number {
            version = Some(self.value()?);
            self.expect_sign(b':', "a group is `[[ 2: component ]]`")?;
        }
        let mut items = Vec::new();
        loop {
            items.push(self.item()?);
            if self.sign(0, b']') {
                break;
            }
            self.expect_sign(
                b',',
                "separate the components with commas, close the group with `]]`",
            )?;
        }
        self.bump();
        self.expect_sign(b']', "close the group with `]]`")?;
        Ok(Item::Group(version, items))
    }

    fn component(&mut self) -> Parsed<Item> {
        let mut name = None;
        let is_type =
            self.sign(1, b'<') || (self.sign(1, b'.') && self.kind(2) == TokenKind::FieldUpper);
        if self.kind(0) == TokenKind::Lower && !is_type {
            name = Some(self.take_name());
            if self.sign(0, b',') || self.sign(0, b'}') {
                let help = "a component is `name Type`";
                return self.expected("a type", help);
            }
        } else if !matches!(
            self.kind(0),
            TokenKind::Upper | TokenKind::Sign(b'[') | TokenKind::Lower
        ) {
            return self.expected("a component", "a component is `name Type`");
        }
        let ty = self.ty()?;
        let presence = if self.eat_word("OPTIONAL") {
            Presence::Optional
        } else if self.eat_word("DEFAULT") {
            Presence::Default(self.default_value()?)
        } else {
            Presence::Required
        };
        Ok(Item::Component(Box::new(Component { name, ty, presence })))
    }

    /// A value behind DEFAULT. A name alone cannot be a type there: a capital at its beginning is a slip.
    fn default_value(&mut self) -> Parsed<Value> {
        let is_name = self.kind(0) == TokenKind::Upper
            && !is_reserved(self.text(0))
            && (self.sign(1, b',') || self.sign(1, b'}'));
        if !is_name || self.text(0).chars().all(|c| !c.is_ascii_lowercase()) {
            return self.value();
        }
        let help = "a value's name begins with a small letter";
        self.warn(self.span(), format!("`{}` is the name of a type", self.text(0)), help);
        let mut name = self.take_name();
        name.text[..1].make_ascii_lowercase();
        let span = name.span;
        let reference = Reference { module: None, name, arguments: None };
        Ok(Value { kind: ValueKind::Reference(reference), span })
    }

    /// `! 3`, `! Type : value`.
    pub(super) fn exception(&mut self) -> Parsed<bool> {
        if !self.eat_sign(b'!') {
            return Ok(false);
        }
        if self.kind(0) == TokenKind::Upper && !self.sign(1, b'.') {
            self.ty()?;
            self.expect_sign(b':', "an exception is `! 3`, `! value` or `! Type : value`")?;
        }
        self.value()?;
        Ok(true)
    }

    /// A name, perhaps in another module, perhaps with parameters.
    pub(super) fn reference(&mut self, what: &str) -> Parsed<Reference> {
        let help = "a name begins with a capital and is no word of ASN.1";
        let mut name = self.upper(what, help)?;
        let mut module = None;
        if self.sign(0, b'.') && matches!(self.kind(1), TokenKind::Upper | TokenKind::Lower) {
            self.bump();
            module = Some(std::mem::replace(&mut name, self.take_name()));
        }
        let arguments = if self.sign(0, b'{') { Some(self.arguments()?) } else { None };
        Ok(Reference { module, name, arguments })
    }

    /// Whether `object.&field.&Type` stands here.
    pub(super) fn is_field_type(&self) -> bool {
        let mut ahead = 1;
        let mut last = TokenKind::End;
        while self.sign(ahead, b'.') && ahead < 16 {
            last = self.kind(ahead + 1);
            ahead += 2;
        }
        last == TokenKind::FieldUpper
    }

    fn reference_or_field(&mut self) -> Parsed<TypeKind> {
        let reference = if self.kind(0) == TokenKind::Lower {
            Reference { module: None, name: self.take_name(), arguments: None }
        } else {
            self.reference("a type")?
        };
        let path = self.field_path()?;
        if path.is_empty() {
            return Ok(TypeKind::Reference(reference));
        }
        Ok(TypeKind::Field(reference, path))
    }

    /// `.&a.&b`.
    pub(super) fn field_path(&mut self) -> Parsed<Vec<Name>> {
        let mut path = Vec::new();
        while self.sign(0, b'.') {
            self.bump();
            match self.kind(0) {
                TokenKind::FieldUpper | TokenKind::FieldLower => path.push(self.take_name()),
                _ => return self.expected("a field", "a field's name begins with `&`"),
            }
        }
        Ok(path)
    }

    /// Actual parameters.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        self.deeper(|p| p.node(NodeKind::Arguments, |p| p.list("parameters", Self::argument)))
    }

    pub(super) fn argument(&mut self) -> Parsed<Argument> {
        self.expect_no_component()?;
        match self.kind(0) {
            TokenKind::Sign(b'{') => Ok(Argument::Braced(self.braced()?)),
            TokenKind::Upper
                if matches!(
                    self.text(0),
                    "TRUE" | "FALSE" | "MIN" | "MAX" | "PLUS-INFINITY" | "MINUS-INFINITY"
                ) || (self.sign(1, b'.') && self.kind(2) == TokenKind::Lower) =>
            {
                Ok(Argument::Value(self.value()?))
            }
            TokenKind::Upper | TokenKind::Sign(b'[') => {
                let ty = self.ty()?;
                if self.eat_sign(b':') {
                    // A governor repeated before its parameter says nothing new.
                    return self.argument();
                }
                Ok(Argument::Type(ty))
            }
            TokenKind::Lower if self.sign(1, b'<') => Ok(Argument::Type(self.ty()?)),
            TokenKind::Lower if self.is_field_type() => Ok(Argument::Type(self.ty()?)),
            TokenKind::End => Err(Failed),
            _ => Ok(Argument::Value(self.value()?)),
        }
    }
}
