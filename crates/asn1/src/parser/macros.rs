//! Macros (X.208 annex A): definitions passed over, uses read as far as their notation holds types.
//! The macros of ROS, RTS, MHS, the Directory, SNMP and Remote Operations are known by name; one that a module
//! defines itself or that begins with words of its own is kept as opaque.

use super::{Parsed, Parser, is_reserved};
use crate::ast::*;
use crate::lexer::TokenKind;

/// What is known of a macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// `NAME Type`: the type, signed or enciphered.
    OfType,
    /// Words with types and lists behind them.
    Words,
}

fn known(name: &str) -> Option<Known> {
    Some(match name {
        "SIGNED" | "ENCRYPTED" | "SIGNATURE" | "PROTECTED" | "HASHED" | "HASHED-SIGNATURE" => {
            Known::OfType
        }
        "OPERATION"
        | "ERROR"
        | "BIND"
        | "UNBIND"
        | "ABSTRACT-OPERATION"
        | "ABSTRACT-ERROR"
        | "ABSTRACT-BIND"
        | "ABSTRACT-UNBIND"
        | "OBJECT"
        | "PORT"
        | "REFINE"
        | "REFINEMENT"
        | "APPLICATION-CONTEXT"
        | "APPLICATION-SERVICE-ELEMENT"
        | "EXTENSION"
        | "EXTENSIONS"
        | "EXTENSION-ATTRIBUTE"
        | "TOKEN"
        | "TOKEN-DATA"
        | "SECURITY-CATEGORY"
        | "ALGORITHM"
        | "ATTRIBUTE"
        | "ATTRIBUTE-SYNTAX"
        | "ATTRIBUTE-SET"
        | "OBJECT-CLASS"
        | "NAME-BINDING"
        | "OBJECT-TYPE"
        | "OBJECT-IDENTITY"
        | "OBJECT-GROUP"
        | "NOTIFICATION-TYPE"
        | "NOTIFICATION-GROUP"
        | "MODULE-IDENTITY"
        | "MODULE-COMPLIANCE"
        | "AGENT-CAPABILITIES"
        | "TEXTUAL-CONVENTION"
        | "TRAP-TYPE"
        | "EXTENDED-BODY-PART-TYPE"
        | "HEADING-EXTENSION"
        | "AUTO-ACTION"
        | "MACRO-OF-USER" => Known::Words,
        _ => return None,
    })
}

/// Behind these words of macros stands a type.
const BEFORE_TYPES: &[&str] = &[
    "ARGUMENT",
    "RESULT",
    "PARAMETER",
    "SYNTAX",
    "WRITE-SYNTAX",
    "DATA",
    "BIND-ERROR",
    "UNBIND-ERROR",
];

impl Parser<'_> {
    /// Whether a macro's use begins here.
    pub(super) fn is_macro(&self, ahead: usize) -> bool {
        let word = self.text(ahead);
        if self.kind(ahead) != TokenKind::Upper || is_reserved(word) && word != "OBJECT" {
            return false;
        }
        let known = known(word);
        if known.is_none() && !self.file.macros.contains(word) {
            return false;
        }
        match self.kind(ahead + 1) {
            TokenKind::Upper => {
                let next = self.text(ahead + 1);
                let ends = matches!(
                    next,
                    "OPTIONAL" | "DEFAULT" | "UNIQUE" | "END" | "IDENTIFIER" | "SIZE"
                );
                let defines =
                    self.kind(ahead + 2) == TokenKind::Assign || self.word(ahead + 2, "MACRO");
                let apart = known != Some(Known::OfType) && !is_reserved(next);
                !(ends || defines && (apart || self.begins_line(ahead + 1)))
            }
            TokenKind::Text | TokenKind::Number => true,
            TokenKind::Sign(b'[') => known == Some(Known::OfType),
            _ => false,
        }
    }

    /// Whether a token is on another line than the one before it.
    pub(super) fn begins_line(&self, ahead: usize) -> bool {
        let before = (self.at + ahead).checked_sub(1).and_then(|n| self.file.significant.get(n));
        let (Some(token), Some(&before)) = (self.token(ahead), before) else { return false };
        let (source, before) = (&self.file.source, self.file.tree.tokens[before as usize].span);
        source.line_index(token.span.start) != source.line_index(before.end)
    }

    /// A macro's definition, from the word MACRO to its END.
    pub(super) fn macro_definition(&mut self) -> Parsed<()> {
        self.bump();
        self.expect_assign("a macro is `NAME MACRO ::= BEGIN … END`")?;
        if !self.word(0, "BEGIN") {
            self.reference("`BEGIN` or a macro's name")?;
            return Ok(());
        }
        let begin = self.span();
        self.bump();
        let (mut has_type, mut has_value) = (false, false);
        while !self.word(0, "END") {
            if self.is_at_end() {
                return self.fail(begin, "this macro has no END", "a macro ends with `END`");
            }
            let notation = self.word(1, "NOTATION") && self.kind(2) == TokenKind::Assign;
            has_type |= notation && self.word(0, "TYPE");
            has_value |= notation && self.word(0, "VALUE");
            self.bump();
        }
        if !has_type || !has_value {
            let help = "a macro has `TYPE NOTATION ::= …` and `VALUE NOTATION ::= …`";
            self.error(begin, "a macro without its notations", help);
        }
        self.bump();
        Ok(())
    }

    /// A macro's use, up to `::=`, to what closes the list that it stands in, or to the next definition.
    pub(super) fn macro_use(&mut self) -> Parsed<TypeKind> {
        let known = known(self.text(0));
        let name = self.take_name();
        let mut types = Vec::new();
        if known == Some(Known::OfType) {
            types.push((name.text.clone(), None, self.ty()?));
            return Ok(TypeKind::Macro(MacroUse { name, types, is_standard: true }));
        }
        if known.is_none() {
            let (span, message) =
                (name.span, format!("the macro `{}` is kept as it stands", name.text));
            self.warn(span, message, "what its notation means is not known; no code comes of it");
        }
        while !self.ends_macro() {
            if known.is_some() && BEFORE_TYPES.contains(&self.text(0)) {
                let word = self.text(0).to_owned();
                self.bump();
                self.macro_type(word, &mut types)?;
            } else if self.sign(0, b'{') {
                self.braced()?;
            } else {
                self.bump();
            }
        }
        Ok(TypeKind::Macro(MacroUse { name, types, is_standard: known.is_some() }))
    }

    fn ends_macro(&self) -> bool {
        match self.kind(0) {
            TokenKind::Assign | TokenKind::End => true,
            TokenKind::Sign(b',' | b'}' | b')') => true,
            TokenKind::Upper if self.text(0) == "END" => true,
            // `PARAMETER INTEGER ::=` is no definition of a set.
            TokenKind::Upper if BEFORE_TYPES.contains(&self.text(0)) => false,
            // `ERRORS { … } ::=` is no definition with parameters.
            TokenKind::Upper if self.sign(1, b'{') => {
                self.text(0).contains(|c: char| c.is_ascii_lowercase()) && self.is_at_definition()
            }
            TokenKind::Upper | TokenKind::Lower => self.is_at_definition(),
            _ => false,
        }
    }

    /// The type behind a macro's word, if one stands there, with its name if it has one.
    fn macro_type(
        &mut self,
        word: String,
        types: &mut Vec<(String, Option<Name>, Type)>,
    ) -> Parsed<()> {
        let named = self.kind(0) == TokenKind::Lower && self.kind(1) == TokenKind::Upper;
        let is_word = |word: &str| {
            matches!(word, "ERRORS" | "LINKED" | "RESULT" | "BIND" | "UNBIND" | "CODE" | "ARGUMENT")
        };
        if self.ends_macro() && !named
            || (self.kind(0) == TokenKind::Upper && is_word(self.text(0)))
        {
            return Ok(());
        }
        let begins = named
            || matches!(self.kind(0), TokenKind::Upper | TokenKind::Sign(b'['))
            || (self.kind(0) == TokenKind::Lower && self.sign(1, b'['));
        if !begins {
            return Ok(());
        }
        let name = (self.kind(0) == TokenKind::Lower).then(|| self.take_name());
        let ty = self.ty()?;
        types.push((word, name, ty));
        Ok(())
    }
}
