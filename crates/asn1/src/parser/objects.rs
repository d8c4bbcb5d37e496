//! Classes and objects (X.681). An object's notation is read when its class is known.

use super::{Parsed, Parser};
use crate::ast::*;
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::tree::NodeKind;

/// What an object says of one field.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The field's name, with its `&`.
    pub field: String,
    /// What it is set to.
    pub to: Argument,
    /// Where.
    pub span: Span,
}

/// A part of a value in braces.
#[derive(Clone, Debug)]
pub struct ListItem {
    /// The name before it, where there is one.
    pub name: Option<Name>,
    /// The value; nothing where a name stands alone.
    pub value: Option<Value>,
    /// Where.
    pub span: Span,
}

/// A class with more fields is refused.
const FIELDS_MAX: usize = 500;

impl Parser<'_> {
    /// `CLASS { … } WITH SYNTAX { … }`.
    pub(super) fn class(&mut self) -> Parsed<Class> {
        self.bump();
        let fields = self.list("fields", |p| p.node(NodeKind::Field, Self::field))?;
        let mut syntax = None;
        if self.eat_word("WITH") {
            self.expect_word("SYNTAX", "write `WITH SYNTAX { … }`")?;
            syntax = Some(self.node(NodeKind::Syntax, |p| {
                p.expect_sign(b'{', "the syntax stands in braces")?;
                p.syntax_items(b'}')
            })?);
        }
        if fields.len() > FIELDS_MAX {
            return self.fail(self.span(), "too many fields", "make several classes of it");
        }
        if let Some(syntax) = &syntax {
            self.check_syntax(&fields, syntax);
        }
        Ok(Class { fields, syntax })
    }

    /// The fields that a syntax names are the class's.
    fn check_syntax(&mut self, fields: &[Field], syntax: &[SyntaxItem]) {
        for item in syntax {
            match item {
                SyntaxItem::Word(_) => {}
                SyntaxItem::Field(name) => {
                    if !fields.iter().any(|f| f.name.text == name.text) {
                        let message = format!("the class has no field `{}`", name.text);
                        self.error(name.span, message, "name a field of the class");
                    }
                }
                SyntaxItem::Optional(items) => self.check_syntax(fields, items),
            }
        }
    }

    fn syntax_items(&mut self, close: u8) -> Parsed<Vec<SyntaxItem>> {
        self.deeper(|p| {
            let mut items = Vec::new();
            while !p.eat_sign(close) {
                match p.kind(0) {
                    TokenKind::Upper | TokenKind::Sign(b',') => {
                        let (text, span) = (p.text(0).to_owned(), p.span());
                        p.bump();
                        items.push(SyntaxItem::Word(Name { text, span }));
                    }
                    TokenKind::FieldUpper | TokenKind::FieldLower => {
                        items.push(SyntaxItem::Field(p.take_name()));
                    }
                    TokenKind::Sign(b'[') => {
                        p.bump();
                        items.push(SyntaxItem::Optional(p.syntax_items(b']')?));
                    }
                    _ => {
                        let close = format!("a word, a field, `[` or `{}`", char::from(close));
                        return p.expected(&close, "a syntax is made of words and `&field`s");
                    }
                }
            }
            Ok(items)
        })
    }

    fn field(&mut self) -> Parsed<Field> {
        let upper = match self.kind(0) {
            TokenKind::FieldUpper => true,
            TokenKind::FieldLower => false,
            _ => return self.expected("a field", "a field's name begins with `&`"),
        };
        let name = self.take_name();
        let bare = self.sign(0, b',')
            || self.sign(0, b'}')
            || matches!(self.text(0), "OPTIONAL" | "DEFAULT") && self.kind(0) == TokenKind::Upper;
        let kind = match self.kind(0) {
            _ if bare && upper => FieldKind::Type,
            TokenKind::FieldUpper => {
                let mut path = vec![self.take_name()];
                path.extend(self.field_path()?);
                if upper { FieldKind::VariableSet(path) } else { FieldKind::VariableValue(path) }
            }
            _ if upper => FieldKind::Set(self.ty()?),
            _ => FieldKind::Value(self.ty()?),
        };
        let is_unique = self.eat_word("UNIQUE");
        let mut is_optional = self.eat_word("OPTIONAL");
        let mut default = None;
        if self.eat_word("DEFAULT") {
            is_optional = true;
            default = Some(match kind {
                FieldKind::Value(_) | FieldKind::VariableValue(_) => Argument::Value(self.value()?),
                _ => self.argument()?,
            });
        }
        Ok(Field { name, kind, is_optional, default, is_unique })
    }

    /// An object's settings, by its class: in the class's own syntax, or `{ &field setting, … }`.
    ///
    /// # Errors
    /// When it is not of that notation; said in the diagnostics.
    pub fn object(&mut self, class: &Class) -> Parsed<Vec<Setting>> {
        let mut settings = Vec::new();
        match &class.syntax {
            Some(syntax) => {
                self.object_items(class, syntax, &mut settings)?;
            }
            None => {
                while matches!(self.kind(0), TokenKind::FieldUpper | TokenKind::FieldLower) {
                    let name = self.take_name();
                    self.setting(class, &name, &mut settings)?;
                    if !self.eat_sign(b',') {
                        break;
                    }
                }
            }
        }
        if !self.is_at_end() {
            return self.expected("`}`", "the class's syntax has no more here");
        }
        Ok(settings)
    }

    fn object_items(
        &mut self,
        class: &Class,
        items: &[SyntaxItem],
        settings: &mut Vec<Setting>,
    ) -> Parsed<()> {
        for (n, item) in items.iter().enumerate() {
            match item {
                SyntaxItem::Word(word) => {
                    if self.text(0) != word.text {
                        let what = format!("`{}`", word.text);
                        return self.expected(&what, "write the object in its class's syntax");
                    }
                    self.bump();
                }
                SyntaxItem::Field(name) => self.setting(class, name, settings)?,
                SyntaxItem::Optional(group) => {
                    if self.begins(class, group, &items[n + 1..]) {
                        self.object_items(class, group, settings)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether an optional group of a syntax stands here.
    fn begins(&self, class: &Class, group: &[SyntaxItem], behind: &[SyntaxItem]) -> bool {
        if self.is_at_end() {
            return false;
        }
        match group.first() {
            Some(SyntaxItem::Word(word)) => self.text(0) == word.text,
            Some(SyntaxItem::Field(name)) => {
                let next = behind.iter().find_map(|item| match item {
                    SyntaxItem::Word(word) => Some(word.text.as_str()),
                    SyntaxItem::Optional(group) => match group.first() {
                        Some(SyntaxItem::Word(word)) if word.text == self.text(0) => {
                            Some(word.text.as_str())
                        }
                        _ => None,
                    },
                    SyntaxItem::Field(_) => None,
                });
                if next == Some(self.text(0)) {
                    return false;
                }
                let field = class.fields.iter().find(|f| f.name.text == name.text);
                match (field.map(|f| &f.kind), self.kind(0)) {
                    (Some(FieldKind::Type), kind) => {
                        matches!(kind, TokenKind::Upper | TokenKind::Sign(b'['))
                            || (kind == TokenKind::Lower && self.sign(1, b'.'))
                    }
                    (Some(FieldKind::Set(_) | FieldKind::VariableSet(_)), kind) => {
                        matches!(kind, TokenKind::Upper | TokenKind::Sign(b'{'))
                    }
                    (_, kind) => kind != TokenKind::Sign(b','),
                }
            }
            Some(SyntaxItem::Optional(inner)) => {
                self.begins(class, inner, &group[1..]) || self.begins(class, &group[1..], behind)
            }
            None => false,
        }
    }

    fn setting(&mut self, class: &Class, name: &Name, settings: &mut Vec<Setting>) -> Parsed<()> {
        let start = self.span();
        let Some(field) = class.fields.iter().position(|f| f.name.text == name.text) else {
            let message = format!("the class has no field `{}`", name.text);
            return self.fail(name.span, message, "name a field of the class");
        };
        if self.is_at_end() {
            let what = format!("what `{}` is", name.text);
            return self.expected(&what, "write the object in its class's syntax");
        }
        let to = match &class.fields[field].kind {
            FieldKind::Type => Argument::Type(self.ty()?),
            FieldKind::Value(_) | FieldKind::VariableValue(_) if self.sign(0, b'{') => {
                Argument::Braced(self.braced()?)
            }
            FieldKind::Value(_) | FieldKind::VariableValue(_) => Argument::Value(self.value()?),
            FieldKind::Set(_) | FieldKind::VariableSet(_) => self.argument()?,
        };
        settings.push(Setting { field: name.text.clone(), to, span: self.since(start) });
        Ok(())
    }

    /// What lies in a value's braces: `name value`, `value` or `name`, with commas between them.
    ///
    /// # Errors
    /// When it is not of that notation; said in the diagnostics.
    pub fn list_items(&mut self) -> Parsed<Vec<ListItem>> {
        let mut items = Vec::new();
        while !self.is_at_end() {
            let start = self.span();
            let named = self.kind(0) == TokenKind::Lower
                && !self.sign(1, b':')
                && !self.sign(1, b'.')
                && !self.sign(1, b',')
                && self.kind(1) != TokenKind::End;
            let mut item = ListItem { name: None, value: None, span: start };
            if named {
                item.name = Some(self.take_name());
            }
            item.value = Some(self.value()?);
            item.span = self.since(start);
            items.push(item);
            if !self.is_at_end() {
                self.expect_sign(b',', "separate the parts with commas")?;
                if self.is_at_end() {
                    return self.expected("a value", "remove the comma");
                }
            }
        }
        Ok(items)
    }

    /// An object identifier's components, inside its braces.
    ///
    /// # Errors
    /// When it is not of that notation; said in the diagnostics.
    pub fn oid_components(&mut self) -> Parsed<Vec<OidComponent>> {
        let mut parts = Vec::new();
        while !self.is_at_end() {
            parts.push(self.oid_component()?);
        }
        Ok(parts)
    }
}

impl Parser<'_> {
    /// That nothing is left.
    pub(crate) fn expect_end(&mut self) -> Parsed<()> {
        if self.is_at_end() { Ok(()) } else { self.expected("`}`", "remove what is too much") }
    }
}
