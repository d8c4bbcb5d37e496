//! Recursive descent over the tokens (X.680 to X.683, X.208, and the notation of 1984): a lossless tree and
//! a syntax tree with what is wrong. After an error it goes on with the next definition, or the next part
//! of a list. Total: depth is bounded, and each token is passed a bounded number of times.

mod constraints;
mod macros;
mod module;
mod objects;
mod types;
mod values;

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::ast::{Braced, Module, Name, OidComponent, SetSpec, Value};
use crate::diagnostic::{Diagnostic, shortened};
use crate::lexer::{self, Token, TokenKind};
use crate::source::{FileId, Source, Span};
use crate::tree::{Event, NodeKind, Tree};

pub use objects::{ListItem, Setting};

/// Deeper notation is refused.
const DEPTH_MAX: u32 = 100;

/// More errors than these of one file are not kept.
const DIAGNOSTICS_MAX: usize = 500;

/// No partner.
const NONE: u32 = u32::MAX;

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct File {
    /// Its place in the list that was given.
    pub id: FileId,
    /// Its text.
    pub source: Source,
    /// All of its tokens, under the notation that they are part of.
    pub tree: Tree,
    /// Its modules.
    pub modules: Vec<Module>,
    /// What is wrong with its notation.
    pub diagnostics: Vec<Diagnostic>,
    /// The tokens that are no trivia, by their number among all.
    significant: Vec<u32>,
    /// The closing partner of each opening brace, by number among the significant.
    closes: Vec<u32>,
    /// Macros that it defines.
    macros: HashSet<String>,
    /// What was read in braces so far, by the number of the opening brace among the significant.
    readings: Vec<OnceLock<Box<Readings>>>,
}

/// What lies between two braces, read as one thing or another; nothing where it could not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    pub(crate) object: OnceLock<Option<Vec<Setting>>>,
    pub(crate) set: OnceLock<Option<SetSpec>>,
    pub(crate) list: OnceLock<Option<Vec<ListItem>>>,
    pub(crate) oid: OnceLock<Option<Vec<OidComponent>>>,
    pub(crate) value: OnceLock<Value>,
}

impl File {
    /// Reads a file.
    pub fn parse(id: FileId, source: Source) -> File {
        let tokens = lexer::tokens(source.text());
        let significant: Vec<u32> =
            (0..tokens.len() as u32).filter(|&n| !tokens[n as usize].kind.is_trivia()).collect();
        let closes = partners(&tokens, &significant);
        let word =
            |n: usize| significant.get(n).map_or("", |&t| source.slice(tokens[t as usize].span));
        let macros = (0..significant.len())
            .filter(|&n| word(n + 1) == "MACRO" && word(n + 2) == "::=")
            .map(|n| word(n).to_owned())
            .collect();
        let tree = Tree { tokens, events: Vec::new() };
        let readings = significant.iter().map(|_| OnceLock::new()).collect();
        let mut file = File {
            id,
            readings,
            source,
            tree,
            modules: Vec::new(),
            diagnostics: Vec::new(),
            significant,
            closes,
            macros,
        };
        let mut parser = Parser::new(&file, 0, file.significant.len());
        parser.events = Some(Vec::with_capacity(file.tree.tokens.len() * 2));
        let modules = parser.file();
        let (events, diagnostics) = (parser.events.take(), parser.diagnostics);
        file.modules = modules;
        file.tree.events = events.unwrap_or_default();
        file.diagnostics = diagnostics;
        file
    }

    /// A parser of what lies between two braces, whose errors are its own.
    pub fn within(&self, braced: Braced) -> Parser<'_> {
        Parser::new(self, braced.open as usize + 1, braced.close as usize)
    }

    /// What was read of what lies between two braces.
    pub(crate) fn readings(&self, braced: Braced) -> &Readings {
        self.readings[braced.open as usize].get_or_init(Box::default)
    }

    /// The words of the tokens that a span begins with, for messages.
    pub fn token_at(&self, span: Span) -> &str {
        let n = self.tree.tokens.partition_point(|t| t.span.end <= span.start);
        self.tree.tokens.get(n).map_or("", |t| self.source.slice(t.span))
    }
}

/// For each opening sign, where it is closed. A brace that is never closed has no partner; one that closes
/// what was not opened is passed over.
fn partners(tokens: &[Token], significant: &[u32]) -> Vec<u32> {
    let mut closes = vec![NONE; significant.len()];
    let mut open: Vec<(u8, usize)> = Vec::new();
    for (n, &token) in significant.iter().enumerate() {
        match tokens[token as usize].kind {
            TokenKind::Sign(sign @ (b'{' | b'(')) => open.push((sign, n)),
            TokenKind::Sign(sign @ (b'}' | b')')) => {
                let opening = if sign == b'}' { b'{' } else { b'(' };
                if open.last().is_some_and(|&(sign, _)| sign == opening) {
                    let at = open.pop().map_or(0, |(_, at)| at);
                    closes[at] = n as u32;
                } else if sign == b'}' && open.len() > 1 && open[open.len() - 2].0 == b'{' {
                    // A parenthesis that was left open does not spoil the braces around it.
                    open.pop();
                    let at = open.pop().map_or(0, |(_, at)| at);
                    closes[at] = n as u32;
                }
            }
            // No definition lies within braces: what is still open was left open.
            TokenKind::Assign => open.clear(),
            _ => {}
        }
    }
    closes
}

/// The error was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// What a part of the parser returns.
pub type Parsed<T> = Result<T, Failed>;

/// A place among the tokens of a file.
pub struct Parser<'a> {
    file: &'a File,
    /// The next token, by number among the significant.
    at: usize,
    /// One past the last token.
    end: usize,
    events: Option<Vec<Event>>,
    /// The first token of all that is not yet in `events`.
    emitted: u32,
    /// What is wrong so far.
    pub diagnostics: Vec<Diagnostic>,
    depth: u32,
    /// Whether the module may hold encoding instructions in its tags' place.
    instructions: bool,
    /// Whether the type at hand stands in front of `::=`.
    is_governor: bool,
}

impl<'a> Parser<'a> {
    fn new(file: &'a File, at: usize, end: usize) -> Parser<'a> {
        Parser {
            file,
            at,
            end: end.min(file.significant.len()),
            events: None,
            emitted: 0,
            diagnostics: Vec::new(),
            depth: 0,
            instructions: true,
            is_governor: false,
        }
    }

    fn token(&self, ahead: usize) -> Option<&'a Token> {
        let n = self.at + ahead;
        let n = if n < self.end { *self.file.significant.get(n)? } else { return None };
        self.file.tree.tokens.get(n as usize)
    }

    /// The kind of a token ahead.
    fn kind(&self, ahead: usize) -> TokenKind {
        self.token(ahead).map_or(TokenKind::End, |t| t.kind)
    }

    /// The text of a token ahead.
    fn text(&self, ahead: usize) -> &'a str {
        self.token(ahead).map_or("", |t| self.file.source.slice(t.span))
    }

    fn sign(&self, ahead: usize, sign: u8) -> bool {
        self.kind(ahead) == TokenKind::Sign(sign)
    }

    fn word(&self, ahead: usize, word: &str) -> bool {
        self.kind(ahead) == TokenKind::Upper && self.text(ahead) == word
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// The next token's place; behind the last one at the end.
    fn span(&self) -> Span {
        match self.token(0) {
            Some(token) => token.span,
            None => {
                let end = self.previous_end();
                Span::new(end, end)
            }
        }
    }

    fn previous_end(&self) -> u32 {
        let n = self.at.checked_sub(1).and_then(|n| self.file.significant.get(n));
        n.map_or(0, |&n| self.file.tree.tokens[n as usize].span.end)
    }

    fn since(&self, start: Span) -> Span {
        Span::new(start.start, self.previous_end().max(start.start))
    }

    /// Passes the next token.
    fn bump(&mut self) {
        if self.at >= self.end {
            return;
        }
        if let Some(events) = &mut self.events {
            let n = self.file.significant[self.at];
            events.extend((self.emitted..=n).map(Event::Token));
            self.emitted = n + 1;
        }
        self.at += 1;
    }

    /// The rest of the trivia, at the end of a file.
    fn bump_trivia(&mut self) {
        if let Some(events) = &mut self.events {
            let end = self.file.tree.tokens.len() as u32;
            events.extend((self.emitted..end).map(Event::Token));
            self.emitted = end;
        }
    }

    /// Runs a part of the parser under a node of the tree.
    fn node<T>(&mut self, kind: NodeKind, part: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(events) = &mut self.events {
            events.push(Event::Open(kind));
        }
        let result = part(self);
        if let Some(events) = &mut self.events {
            events.push(Event::Close);
        }
        result
    }

    /// Runs a part of the parser one level deeper.
    fn deeper<T>(&mut self, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            let span = self.span();
            return self.fail(span, "this is nested too deeply", "give its parts names");
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic);
        }
    }

    fn error(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        let token = self.file.token_at(span);
        let error = Diagnostic::error(self.file.id, span, message).help(help).about(token);
        self.report(error);
    }

    fn warn(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        let token = self.file.token_at(span);
        let warning = Diagnostic::warning(self.file.id, span, message).help(help).about(token);
        self.report(warning);
    }

    fn fail<T>(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Parsed<T> {
        self.error(span, message, help);
        Err(Failed)
    }

    /// Something else stands here. Where it stands on a later line than what came before, the place is
    /// behind that: what is missing is missed there.
    fn expected<T>(&mut self, what: &str, help: &str) -> Parsed<T> {
        let (span, previous) = (self.span(), self.previous_end());
        let found = match self.token(0) {
            Some(token) => format!("`{}`", shortened(self.file.source.slice(token.span))),
            None => "the end".to_owned(),
        };
        let source = &self.file.source;
        let apart = self.at > 0 && source.line_index(previous) != source.line_index(span.start);
        let place = if apart { Span::new(previous - 1, previous) } else { span };
        let message = format!("expected {what}, found {found}");
        // Lists within lists, all of them open, end at the same place: once is enough.
        if self.diagnostics.last().is_some_and(|d| d.span == place && d.message == message) {
            return Err(Failed);
        }
        let error = Diagnostic::error(self.file.id, place, message).help(help);
        let error = error.about(self.text(0));
        self.report(error);
        Err(Failed)
    }

    fn expect_sign(&mut self, sign: u8, help: &str) -> Parsed<()> {
        if self.eat_sign(sign) {
            return Ok(());
        }
        self.expected(&format!("`{}`", char::from(sign)), help)
    }

    fn expect_word(&mut self, word: &str, help: &str) -> Parsed<()> {
        if self.eat_word(word) {
            return Ok(());
        }
        self.expected(&format!("`{word}`"), help)
    }

    fn eat_sign(&mut self, sign: u8) -> bool {
        let is = self.sign(0, sign);
        if is {
            self.bump();
        }
        is
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is = self.word(0, word);
        if is {
            self.bump();
        }
        is
    }

    /// Takes the next token as a name.
    fn take_name(&mut self) -> Name {
        let (span, text) = (self.span(), self.text(0).to_owned());
        let after = match self.token(0).map(|t| t.kind) {
            Some(TokenKind::Upper | TokenKind::Lower) => {
                self.file.source.text().as_bytes().get(span.end as usize)
            }
            _ => None,
        };
        if text.contains('_') {
            self.warn(
                span,
                format!("`{text}` has an underscore, which ASN.1 has not"),
                "write a hyphen",
            );
        } else if after == Some(&b'-')
            && self.file.source.text().as_bytes().get(span.end as usize + 1) != Some(&b'-')
        {
            self.error(
                span,
                format!("`{text}-` ends with a hyphen"),
                "end it with a letter or digit",
            );
        }
        self.bump();
        Name { text, span }
    }

    /// A name that begins with a small letter.
    fn lower(&mut self, what: &str, help: &str) -> Parsed<Name> {
        match self.kind(0) {
            TokenKind::Lower => Ok(self.take_name()),
            _ => self.expected(what, help),
        }
    }

    /// A name that begins with a capital and is no reserved word.
    fn upper(&mut self, what: &str, help: &str) -> Parsed<Name> {
        match self.kind(0) {
            TokenKind::Upper if !is_reserved(self.text(0)) => Ok(self.take_name()),
            _ => self.expected(what, help),
        }
    }

    /// Where the next token's partner is, if it has one here.
    fn partner(&self) -> Option<usize> {
        let close = *self.file.closes.get(self.at)?;
        (close != NONE && (close as usize) < self.end).then_some(close as usize)
    }

    /// Passes everything up to a token.
    fn bump_to(&mut self, at: usize) {
        while self.at < at.min(self.end) {
            self.bump();
        }
    }

    /// Passes a brace and all up to its partner.
    fn braced(&mut self) -> Parsed<Braced> {
        let start = self.span();
        if !self.sign(0, b'{') {
            return self.expected("`{`", "open a list with `{`");
        }
        let open = self.at as u32;
        if let Some(close) = self.partner() {
            self.bump_to(close + 1);
            return Ok(Braced { open, close: close as u32, span: self.since(start) });
        }
        // It ends at the latest where the next definition begins.
        self.bump();
        while !self.is_at_end() && !self.word(0, "END") && !self.is_at_definition() {
            self.bump();
        }
        let close = self.at as u32;
        let _ = self.unclosed::<()>(start, "braces");
        Ok(Braced { open, close, span: self.since(start) })
    }

    /// A list in braces, its parts separated by commas. A part that fails is reported and passed over.
    fn list<T>(
        &mut self,
        what: &str,
        mut part: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let open = self.span();
        let close = self.partner();
        self.expect_sign(b'{', &format!("open the {what} with `{{`"))?;
        let mut parts = Vec::new();
        if self.eat_sign(b'}') {
            return Ok(parts);
        }
        loop {
            let result = part(self);
            let failed = result.is_err();
            parts.extend(result);
            if failed {
                let Some(close) = close else { return Err(Failed) };
                self.skip_part(close);
            }
            if self.eat_sign(b'}') {
                return Ok(parts);
            }
            if self.eat_sign(b',') {
                if self.sign(0, b'}') {
                    let span = self.span();
                    self.warn(span, "a comma before `}`", "remove the comma");
                    self.bump();
                    return Ok(parts);
                }
                continue;
            }
            if failed {
                return Err(Failed);
            }
            if close.is_none() {
                let ends = self.is_at_end() || self.word(0, "END") || self.is_at_definition();
                let _ = self.unclosed::<()>(open, what);
                return if ends { Ok(parts) } else { Err(Failed) };
            }
            let _ = self.expected::<()>("`,` or `}`", &format!("separate the {what} with commas"));
            let Some(close) = close else { return Err(Failed) };
            self.skip_part(close);
            if !self.eat_sign(b',') {
                return if self.eat_sign(b'}') { Ok(parts) } else { Err(Failed) };
            }
        }
    }

    /// A list has no end: it ends where the next definition begins, or before something that is no part of it.
    fn unclosed<T>(&mut self, open: Span, what: &str) -> Parsed<T> {
        let line = self.file.source.line_index(open.start) + 1;
        self.expected("`}`", &format!("the {what} opened in line {line} are not closed"))
    }

    /// Passes what is left of a part: up to a comma at this level, or to `close`.
    fn skip_part(&mut self, close: usize) {
        if let Some(events) = &mut self.events {
            events.push(Event::Open(NodeKind::Skipped));
        }
        while self.at < close.min(self.end) && !self.sign(0, b',') {
            match self.partner() {
                Some(partner) if partner <= close => self.bump_to(partner + 1),
                _ => self.bump(),
            }
        }
        if let Some(events) = &mut self.events {
            events.push(Event::Close);
        }
    }
}

/// Words that name no definition (X.680 clause 12.38), but for the names of types that older modules define
/// themselves.
pub fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "ABSENT"
            | "ALL"
            | "ANY"
            | "APPLICATION"
            | "AUTOMATIC"
            | "BEGIN"
            | "BIT"
            | "BOOLEAN"
            | "BY"
            | "CHARACTER"
            | "CHOICE"
            | "CLASS"
            | "COMPONENT"
            | "COMPONENTS"
            | "CONSTRAINED"
            | "CONTAINING"
            | "DEFAULT"
            | "DEFINED"
            | "DEFINITIONS"
            | "EMBEDDED"
            | "ENCODED"
            | "END"
            | "ENUMERATED"
            | "EXCEPT"
            | "EXPLICIT"
            | "EXPORTS"
            | "EXTENSIBILITY"
            | "EXTERNAL"
            | "FALSE"
            | "FROM"
            | "IDENTIFIER"
            | "IMPLICIT"
            | "IMPLIED"
            | "IMPORTS"
            | "INCLUDES"
            | "INSTANCE"
            | "INTEGER"
            | "INTERSECTION"
            | "MAX"
            | "MIN"
            | "MINUS-INFINITY"
            | "NULL"
            | "OBJECT"
            | "OCTET"
            | "OF"
            | "OPTIONAL"
            | "PATTERN"
            | "PDV"
            | "PLUS-INFINITY"
            | "PRESENT"
            | "PRIVATE"
            | "REAL"
            | "RELATIVE-OID"
            | "SEQUENCE"
            | "SET"
            | "SIZE"
            | "STRING"
            | "SYNTAX"
            | "TAGS"
            | "TRUE"
            | "UNION"
            | "UNIQUE"
            | "UNIVERSAL"
            | "WITH"
            | "UTF8String"
            | "BMPString"
            | "GeneralString"
            | "GraphicString"
            | "IA5String"
            | "NumericString"
            | "PrintableString"
            | "TeletexString"
            | "T61String"
            | "UniversalString"
            | "VideotexString"
            | "VisibleString"
            | "ISO646String"
    )
}
