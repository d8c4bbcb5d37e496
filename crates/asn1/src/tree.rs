//! The lossless tree: every token of a file, white space and comments too, in the order of the text, under
//! the notation that it is part of.

use std::fmt::Write;

use crate::lexer::Token;
use crate::source::Source;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A file.
    File,
    /// A module.
    Module,
    /// What stands before `BEGIN`.
    Header,
    /// `EXPORTS … ;`.
    Exports,
    /// `IMPORTS … ;`.
    Imports,
    /// A definition.
    Assignment,
    /// Formal parameters.
    Parameters,
    /// Actual parameters.
    Arguments,
    /// A type.
    Type,
    /// A tag.
    Tag,
    /// A component.
    Component,
    /// `[[ … ]]`.
    Group,
    /// `( … )` behind a type.
    Constraint,
    /// A value.
    Value,
    /// A set of values or objects.
    Set,
    /// A class.
    Class,
    /// A class's field.
    Field,
    /// `WITH SYNTAX { … }`.
    Syntax,
    /// A macro's definition.
    MacroDefinition,
    /// A macro's use.
    MacroUse,
    /// `ENCODING-CONTROL …`.
    EncodingControl,
    /// What could not be read.
    Skipped,
}

/// A step through the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node begins.
    Open(NodeKind),
    /// A token, by its number among all.
    Token(u32),
    /// The innermost node ends.
    Close,
}

/// The tree, as the steps of a walk through it.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(crate) tokens: Vec<Token>,
    pub(crate) events: Vec<Event>,
}

impl Tree {
    /// All tokens, without gaps.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The walk. Each token is met once, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// One line for each node and each token that is no white space, indented by depth.
    pub fn print(&self, source: &Source) -> String {
        let mut out = String::new();
        let mut depth = 0_usize;
        for event in &self.events {
            match *event {
                Event::Open(kind) => {
                    let _ = writeln!(out, "{:width$}{kind:?}", "", width = 2 * depth);
                    depth += 1;
                }
                Event::Close => depth = depth.saturating_sub(1),
                Event::Token(n) => {
                    let token = &self.tokens[n as usize];
                    if token.kind != crate::lexer::TokenKind::White {
                        let text = source.slice(token.span);
                        let _ = writeln!(out, "{:width$}{text:?}", "", width = 2 * depth);
                    }
                }
            }
        }
        out
    }
}
