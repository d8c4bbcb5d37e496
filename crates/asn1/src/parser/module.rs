//! Modules, exports and imports, definitions (X.680 clauses 13 to 16, X.683 clause 8).

use super::{Failed, Parsed, Parser, is_reserved};
use crate::ast::*;
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::tree::NodeKind;

/// A definition with more parameters is refused.
const PARAMETERS_MAX: usize = 64;

impl Parser<'_> {
    /// A file: one module or more.
    pub(super) fn file(&mut self) -> Vec<Module> {
        self.node(NodeKind::File, |p| {
            let mut modules = Vec::new();
            let mut foreign = Vec::new();
            while !p.is_at_end() {
                if p.skip_foreign() {
                    continue;
                }
                if !modules.is_empty()
                    && let Some(next) = p.next_module()
                {
                    foreign.push(p.skip_text(next));
                    continue;
                }
                let before = p.at;
                match p.node(NodeKind::Module, Self::module) {
                    Ok(module) => modules.push(module),
                    Err(Failed) => p.skip_to_module(before),
                }
            }
            if modules.is_empty() && p.diagnostics.is_empty() {
                let _ = p.expected::<()>("a module", "begin with `Name DEFINITIONS ::= BEGIN`");
            }
            p.unknown_tokens(&foreign);
            p.bump_trivia();
            modules
        })
    }

    /// Behind a module: where the next one begins, or the end, if in front of it stands text that cannot have
    /// been meant as a part of a module.
    fn next_module(&self) -> Option<usize> {
        let mut ahead = 0;
        while self.at + ahead < self.end {
            let text = self.text(ahead);
            let is_word = self.kind(ahead) == TokenKind::Upper;
            if is_word && self.is_at_header(ahead) {
                break;
            }
            if self.kind(ahead) == TokenKind::Assign
                || is_word && (text.ends_with("DEFINITIONS") || matches!(text, "BEGIN" | "END"))
            {
                return None;
            }
            ahead += 1;
        }
        (ahead > 0).then_some(self.at + ahead)
    }

    fn is_at_header(&self, ahead: usize) -> bool {
        let is_word = |n: usize| self.kind(n) == TokenKind::Upper;
        if self.sign(ahead + 1, b'{') {
            let close = self.file.closes.get(self.at + ahead + 1).copied();
            let close = close.unwrap_or(super::NONE) as usize;
            return close < self.end && self.text(close + 1 - self.at).ends_with("DEFINITIONS");
        }
        is_word(ahead + 1) && self.text(ahead + 1).ends_with("DEFINITIONS")
    }

    /// Passes text up to a token; where it stands.
    fn skip_text(&mut self, to: usize) -> Span {
        let start = self.span();
        let help = "make it a comment: begin each line with `--`";
        self.warn(start, "text behind the module's END", help);
        self.node(NodeKind::Skipped, |p| p.bump_to(to));
        self.since(start)
    }

    /// Errors of tokens themselves, where they are not among text that is of no module.
    fn unknown_tokens(&mut self, foreign: &[Span]) {
        let is_foreign = |at: u32| {
            let n = foreign.partition_point(|f| f.end <= at);
            foreign.get(n).is_some_and(|f| f.start <= at)
        };
        for token in self.file.tree.tokens.iter().filter(|t| !is_foreign(t.span.start)) {
            if matches!(token.kind, TokenKind::Bits | TokenKind::Hex)
                && self.file.source.slice(token.span).starts_with("''")
                && token.span.end - token.span.start > 3
            {
                let help = "write one apostrophe on each side";
                self.warn(token.span, "apostrophes are doubled", help);
            }
            let (message, help) = match token.kind {
                TokenKind::Unknown => {
                    ("this sign is not of ASN.1", "remove it, or make it a comment")
                }
                TokenKind::Comment if !token.is_whole => {
                    ("this comment does not end", "end it with `*/`")
                }
                TokenKind::Text if !token.is_whole => {
                    ("this string does not end", "end it with `\"`")
                }
                TokenKind::Bits if !token.is_whole => (
                    "a binary string has other digits than 0 and 1",
                    "write 0 and 1, or end it with H",
                ),
                _ => continue,
            };
            self.error(token.span, message, help);
        }
    }

    /// Passes what cannot be read, up to the next `Name … DEFINITIONS`.
    fn skip_to_module(&mut self, before: usize) {
        if self.at == before {
            self.bump();
        }
        self.node(NodeKind::Skipped, |p| {
            while !p.is_at_end() {
                if p.kind(0) == TokenKind::Upper
                    && (p.word(1, "DEFINITIONS")
                        || (p.sign(1, b'{') && p.word_behind_braces("DEFINITIONS")))
                {
                    break;
                }
                p.bump();
            }
        });
    }

    /// Passes what is no module of ASN.1: modules of the Encoding Control Notation (X.692), and, before the
    /// first module, text that should have been a comment.
    fn skip_foreign(&mut self) -> bool {
        let foreign =
            |p: &Self, ahead| matches!(p.text(ahead), "ENCODING-DEFINITIONS" | "LINK-DEFINITIONS");
        let behind = self.file.closes.get(self.at + 1).copied().unwrap_or(super::NONE) as usize;
        let behind = if self.sign(1, b'{') && behind < self.end { behind + 1 - self.at } else { 1 };
        if self.kind(0) == TokenKind::Upper && foreign(self, behind) {
            let span = self.span();
            let message = "a module of the Encoding Control Notation is kept as it stands";
            self.warn(span, message, "X.692 says how to encode, not what: no code comes of it");
            self.node(NodeKind::Module, |p| {
                while !p.is_at_end() && !p.eat_word("END") {
                    p.bump();
                }
            });
            return true;
        }
        let stray = matches!(self.kind(0), TokenKind::Upper | TokenKind::Lower)
            && matches!(self.kind(1), TokenKind::Upper | TokenKind::Lower | TokenKind::Sign(_))
            && !self.sign(1, b'{')
            && !self.word(1, "DEFINITIONS");
        if self.at != 0 || !stray {
            return false;
        }
        let (span, at) = (self.span(), self.at);
        let line = |p: &Self| p.file.source.line_index(p.span().start);
        let first = line(self);
        self.node(NodeKind::Skipped, |p| {
            while !p.is_at_end() && line(p) == first {
                p.bump();
            }
        });
        self.warn(span, "text before the module", "make it a comment: begin each line with `--`");
        self.at > at
    }

    /// Whether a word stands behind the braces that begin with the next token but one.
    fn word_behind_braces(&self, word: &str) -> bool {
        let close = self.file.closes.get(self.at + 1).copied().unwrap_or(super::NONE) as usize;
        close < self.end && self.word(close + 1 - self.at, word)
    }

    fn module(&mut self) -> Parsed<Module> {
        let start = self.span();
        let mut module = self.node(NodeKind::Header, Self::header)?;
        if self.word(0, "EXPORTS") {
            module.exports = self.node(NodeKind::Exports, Self::exports).unwrap_or(None);
        }
        if self.word(0, "IMPORTS") {
            module.imports = self.node(NodeKind::Imports, Self::imports).unwrap_or_default();
        }
        loop {
            if self.eat_word("END") {
                break;
            }
            if self.word(0, "ENCODING-CONTROL") {
                self.node(NodeKind::EncodingControl, |p| {
                    while !p.is_at_end() && !p.word(0, "END") {
                        p.bump();
                    }
                });
                continue;
            }
            if self.is_at_end() {
                let _ = self.expected::<()>("`END`", "a module ends with `END`");
                break;
            }
            module.assignments.extend(self.node(NodeKind::Assignment, Self::assignment_or_skip));
        }
        module.span = self.since(start);
        Ok(module)
    }

    fn header(&mut self) -> Parsed<Module> {
        let help = "a module begins with `Name DEFINITIONS ::= BEGIN`";
        let start = self.span();
        let name = match self.kind(0) {
            TokenKind::Upper if !is_reserved(self.text(0)) => self.take_name(),
            TokenKind::Lower if self.word(1, "DEFINITIONS") || self.sign(1, b'{') => {
                let span = self.span();
                self.error(span, "a module's name begins with a capital", "write a capital");
                self.take_name()
            }
            _ => return self.expected("a module's name", help),
        };
        let oid = if self.sign(0, b'{') { Some(self.oid()?) } else { None };
        if self.kind(0) == TokenKind::Text {
            self.bump();
        }
        self.expect_word("DEFINITIONS", help)?;
        self.instructions = false;
        if self.word(1, "INSTRUCTIONS") {
            self.instructions = true;
            self.bump();
            self.bump();
        }
        let tags = match self.text(0) {
            "EXPLICIT" => TagDefault::Explicit,
            "IMPLICIT" => TagDefault::Implicit,
            "AUTOMATIC" => TagDefault::Automatic,
            "TAGS" => {
                return self.expected("`EXPLICIT`, `IMPLICIT` or `AUTOMATIC`", "say which tags");
            }
            _ => TagDefault::Explicit,
        };
        if matches!(self.text(0), "EXPLICIT" | "IMPLICIT" | "AUTOMATIC") {
            self.bump();
            self.expect_word("TAGS", "write `IMPLICIT TAGS`")?;
        }
        let extensibility_implied = self.eat_word("EXTENSIBILITY");
        if extensibility_implied {
            self.expect_word("IMPLIED", "write `EXTENSIBILITY IMPLIED`")?;
        }
        self.expect_assign(help)?;
        self.expect_word("BEGIN", help)?;
        let span = self.since(start);
        let (exports, imports, assignments) = (None, Vec::new(), Vec::new());
        Ok(Module { name, oid, tags, extensibility_implied, exports, imports, assignments, span })
    }

    pub(super) fn expect_assign(&mut self, help: &str) -> Parsed<()> {
        if self.kind(0) == TokenKind::Assign {
            self.bump();
            return Ok(());
        }
        self.expected("`::=`", help)
    }

    /// `{ joint-iso-itu-t ds(5) 3 }`.
    pub(super) fn oid(&mut self) -> Parsed<Vec<OidComponent>> {
        self.expect_sign(b'{', "open the identifier with `{`")?;
        let mut parts = Vec::new();
        while !self.eat_sign(b'}') {
            parts.push(self.oid_component()?);
        }
        Ok(parts)
    }

    pub(super) fn oid_component(&mut self) -> Parsed<OidComponent> {
        let start = self.span();
        let mut part = OidComponent { name: None, number: None, span: start };
        match self.kind(0) {
            TokenKind::Number => part.number = Some(self.value()?),
            TokenKind::Lower => {
                part.name = Some(self.take_name());
                if self.eat_sign(b'(') {
                    part.number = Some(self.value()?);
                    self.expect_sign(b')', "close the number with `)`")?;
                }
            }
            TokenKind::Upper if self.sign(1, b'.') => part.number = Some(self.value()?),
            _ => return self.expected("a number or a name", "write `{ iso(1) 2 3 }`"),
        }
        part.span = self.since(start);
        Ok(part)
    }

    fn exports(&mut self) -> Parsed<Option<Vec<Name>>> {
        self.bump();
        if self.eat_word("ALL") {
            self.end_of_clause("EXPORTS")?;
            return Ok(None);
        }
        let mut names = Vec::new();
        if !self.sign(0, b';') {
            names = self.symbols("EXPORTS")?;
        }
        self.end_of_clause("EXPORTS")?;
        Ok(Some(names))
    }

    fn end_of_clause(&mut self, clause: &str) -> Parsed<()> {
        self.expect_sign(b';', &format!("end the {clause} with `;`")).inspect_err(|_| {
            self.skip_clause();
        })
    }

    /// After an error: to the end of EXPORTS or IMPORTS, or to where a definition begins.
    fn skip_clause(&mut self) {
        self.node(NodeKind::Skipped, |p| {
            while !p.is_at_end() && !p.word(0, "END") && !p.word(0, "IMPORTS") {
                if p.eat_sign(b';') || p.is_at_definition() {
                    break;
                }
                p.bump();
            }
        });
    }

    /// Names with commas between them; parameterised ones with empty braces.
    fn symbols(&mut self, clause: &str) -> Parsed<Vec<Name>> {
        let mut names = Vec::new();
        loop {
            let is_name = match self.kind(0) {
                TokenKind::Upper => {
                    let word = self.text(0);
                    !is_reserved(word) || crate::ast::Simple::from_word(word).is_some()
                }
                TokenKind::Lower => true,
                _ => false,
            };
            if !is_name {
                let _ = self.expected::<()>("a name", &format!("name what is in {clause}"));
                self.skip_clause();
                return Err(Failed);
            }
            names.push(self.take_name());
            if self.sign(0, b'{') && self.sign(1, b'}') {
                self.bump();
                self.bump();
            }
            if !self.eat_sign(b',') {
                return Ok(names);
            }
        }
    }

    fn imports(&mut self) -> Parsed<Vec<Import>> {
        self.bump();
        let mut imports = Vec::new();
        loop {
            if self.eat_sign(b';') {
                return Ok(imports);
            }
            let Ok(symbols) = self.symbols("IMPORTS") else { return Ok(imports) };
            if self.expect_word("FROM", "say from which module they come: `FROM Module`").is_err() {
                self.skip_clause();
                return Ok(imports);
            }
            let from = self.module_name();
            match from {
                Ok((module, oid, oid_name)) => {
                    imports.push(Import { symbols, module, oid, oid_name });
                }
                Err(Failed) => {
                    self.skip_clause();
                    return Ok(imports);
                }
            }
            let more = matches!(self.kind(0), TokenKind::Upper | TokenKind::Lower);
            if !self.sign(0, b';') && (!more || self.is_at_definition()) {
                let _ = self.expected::<()>("`;`", "end the IMPORTS with `;`");
                if !self.is_at_definition() {
                    self.skip_clause();
                }
                return Ok(imports);
            }
        }
    }

    fn module_name(&mut self) -> Parsed<(Name, Option<Vec<OidComponent>>, Option<Name>)> {
        let module = self.upper("a module's name", "write `FROM Module`")?;
        let (mut oid, mut oid_name) = (None, None);
        if self.sign(0, b'{') {
            oid = Some(self.oid()?);
        } else if self.kind(0) == TokenKind::Lower && !self.sign(1, b',') && !self.word(1, "FROM") {
            // A value's name in the identifier's place, unless it is the first symbol of what comes next. A symbol may be a
            // parameterized reference: empty braces stand after it (X.680 13.1).
            let is_symbol = self.sign(1, b'{')
                && self.sign(2, b'}')
                && (self.sign(3, b',') || self.word(3, "FROM"));
            if is_symbol {
                return Ok((module, oid, oid_name));
            }
            let goes_on = match self.kind(1) {
                TokenKind::Lower => {
                    self.sign(2, b',') || self.word(2, "FROM") || self.sign(2, b'{')
                }
                kind => matches!(kind, TokenKind::Upper | TokenKind::Sign(b';' | b'{')),
            };
            if !goes_on {
                return self.expected("`{`", "an identifier of numbers stands in braces");
            }
            oid_name = Some(self.take_name());
            if self.sign(0, b'{') {
                self.braced()?;
            }
        }
        if self.word(0, "WITH") && matches!(self.text(1), "SUCCESSORS" | "DESCENDANTS") {
            self.bump();
            self.bump();
        }
        Ok((module, oid, oid_name))
    }

    /// Whether a definition begins here: a name and `::=`, or a name, the name of a type, and `::=`.
    pub(super) fn is_at_definition(&self) -> bool {
        match self.kind(0) {
            TokenKind::Upper if !is_reserved(self.text(0)) => {
                self.kind(1) == TokenKind::Assign
                    || self.word(1, "MACRO")
                    || (self.kind(1) == TokenKind::Upper && self.kind(2) == TokenKind::Assign)
                    || (self.sign(1, b'{') && self.assign_behind_braces())
            }
            TokenKind::Lower => self.is_at_value_definition(),
            _ => false,
        }
    }

    /// Whether a definition begins in this line where something else should stand: `name Type ::=` on one
    /// line, for a name alone may end one definition in front of the next, or `Name ::=`.
    pub(super) fn is_at_next_definition(&self) -> bool {
        match self.kind(0) {
            TokenKind::Lower => {
                self.begins_line(0) && !self.begins_line(1) && self.is_at_definition()
            }
            TokenKind::Upper => self.kind(1) == TokenKind::Assign,
            _ => false,
        }
    }

    fn assign_behind_braces(&self) -> bool {
        let close = self.file.closes.get(self.at + 1).copied().unwrap_or(super::NONE) as usize;
        close < self.end && self.kind(close + 1 - self.at) == TokenKind::Assign
    }

    fn is_at_value_definition(&self) -> bool {
        if self.kind(1) != TokenKind::Upper {
            return false;
        }
        let words = match self.text(1) {
            "OBJECT" | "OCTET" | "BIT" | "CHARACTER" | "EMBEDDED" => 3,
            _ => 2,
        };
        if self.kind(words) == TokenKind::Assign || self.is_macro(1) {
            return true;
        }
        let dotted = self.sign(2, b'.') && self.kind(4) == TokenKind::Assign;
        dotted && matches!(self.kind(3), TokenKind::Upper)
    }

    /// A definition; where it cannot be read, one without a meaning, if it has at least a name.
    fn assignment_or_skip(&mut self) -> Option<Assignment> {
        let (before, start) = (self.at, self.span());
        let errors = self.diagnostics.len();
        if let Ok(assignment) = self.assignment() {
            // Something behind a definition that begins none: said once, here.
            if !self.is_at_end()
                && !matches!(self.kind(0), TokenKind::Upper | TokenKind::Lower)
                && self.diagnostics.len() == errors
            {
                let _ = self.expected::<()>("a definition or `END`", "remove what is too much");
                self.skip_to_definition();
            }
            return Some(assignment);
        }
        if self.at == before {
            self.bump();
        }
        let named = self.file.significant[before] as usize;
        let named = &self.file.tree.tokens[named];
        self.skip_to_definition();
        let kinds = [TokenKind::Upper, TokenKind::Lower];
        kinds.contains(&named.kind).then(|| Assignment {
            name: Name { text: self.file.source.slice(named.span).to_owned(), span: named.span },
            parameters: Vec::new(),
            kind: AssignmentKind::Broken,
            span: self.since(start),
        })
    }

    fn skip_to_definition(&mut self) {
        self.node(NodeKind::Skipped, |p| {
            while !p.is_at_end() && !p.word(0, "END") && !p.is_at_definition() {
                p.bump();
            }
        });
    }

    fn assignment(&mut self) -> Parsed<Assignment> {
        let start = self.span();
        let name = match self.kind(0) {
            TokenKind::Upper if !is_reserved(self.text(0)) => self.take_name(),
            TokenKind::Lower => self.take_name(),
            _ => {
                return self.expected(
                    "a definition or `END`",
                    "a definition is `Name ::= Type` or `name Type ::= value`",
                );
            }
        };
        let upper = name.text.starts_with(|c: char| c.is_ascii_uppercase());
        if upper && self.word(0, "MACRO") {
            self.node(NodeKind::MacroDefinition, Self::macro_definition)?;
            let kind = AssignmentKind::Macro;
            return Ok(self.defined(name, Vec::new(), kind, start));
        }
        let parameters = if self.sign(0, b'{') {
            self.node(NodeKind::Parameters, Self::parameters)?
        } else {
            Vec::new()
        };
        let help = "a definition is `Name ::= Type` or `name Type ::= value`";
        let kind = if upper && self.kind(0) == TokenKind::Assign {
            self.bump();
            if self.word(0, "CLASS") {
                AssignmentKind::Class(self.node(NodeKind::Class, Self::class)?)
            } else {
                AssignmentKind::Type(self.ty()?)
            }
        } else {
            if self.kind(0) == TokenKind::Assign {
                return self.expected("a type", "a value is defined as `name Type ::= value`");
            }
            let governor = self.governor()?;
            self.expect_assign(help)?;
            if upper {
                AssignmentKind::Set(governor, self.node(NodeKind::Set, Self::set_in_braces)?)
            } else {
                AssignmentKind::Value(governor, self.value()?)
            }
        };
        Ok(self.defined(name, parameters, kind, start))
    }

    fn defined(
        &self,
        name: Name,
        parameters: Vec<Parameter>,
        kind: AssignmentKind,
        start: Span,
    ) -> Assignment {
        Assignment { name, parameters, kind, span: self.since(start) }
    }

    /// `{Type, INTEGER:value, CLASS:Set}`.
    fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        let parameters = self.list("parameters", |p| {
            let governed = p.kind(0) == TokenKind::Upper
                && (p.sign(1, b':') || !(p.sign(1, b',') || p.sign(1, b'}')));
            let mut governor = None;
            if governed {
                governor = Some(p.ty()?);
                p.expect_sign(b':', "a parameter is `Name` or `Governor : name`")?;
            }
            match p.kind(0) {
                TokenKind::Upper if !is_reserved(p.text(0)) => {
                    Ok(Parameter { governor, name: p.take_name() })
                }
                TokenKind::Lower => Ok(Parameter { governor, name: p.take_name() }),
                _ => p.expected("a parameter's name", "a parameter is `Name` or `Governor : name`"),
            }
        })?;
        if parameters.len() > PARAMETERS_MAX {
            let help = "give them together, as a type or a class";
            return self.fail(self.span(), "too many parameters", help);
        }
        Ok(parameters)
    }
}
