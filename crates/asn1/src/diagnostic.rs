//! What the compiler has to say about a module: where, what, and one line of help.

use std::fmt;

use crate::source::{FileId, Position, Source, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The module is right, and may not mean what was meant.
    Warning,
    /// The module is wrong.
    Error,
}

impl Severity {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One thing to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// In which file.
    pub file: FileId,
    /// Where.
    pub span: Span,
    /// The token that it is about, as it stands in the file; empty at its end.
    pub token: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// The longest token that a message repeats, in characters.
const TOKEN_CHARS_MAX: usize = 60;

impl Diagnostic {
    /// An error without its token, which [`Diagnostic::about`] gives.
    pub fn error(file: FileId, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file,
            span,
            token: String::new(),
            message: message.into(),
            help: String::new(),
        }
    }

    /// A warning.
    pub fn warning(file: FileId, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(file, span, message) }
    }

    /// With one line of help.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = help.into();
        self
    }

    /// With the token that it is about.
    pub fn about(mut self, token: &str) -> Diagnostic {
        self.token = shortened(token);
        self
    }

    /// Whether the module is wrong.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Line and column in its file.
    pub fn position(&self, source: &Source) -> Position {
        source.position(self.span.start)
    }

    /// As compilers print it: place, message, the line with its mark, and help.
    pub fn display<'a>(&'a self, source: &'a Source) -> Display<'a> {
        Display { diagnostic: self, source }
    }
}

/// The start of a token, on one line.
pub fn shortened(token: &str) -> String {
    let mut text: String =
        token.chars().take(TOKEN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if token.chars().nth(TOKEN_CHARS_MAX).is_some() {
        text += "…";
    }
    text
}

/// A diagnostic beside its file. No control character of the file gets through.
pub struct Display<'a> {
    diagnostic: &'a Diagnostic,
    source: &'a Source,
}

/// The longest line that is shown with its mark, in characters.
const LINE_CHARS_MAX: usize = 200;

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Display { diagnostic, source } = self;
        let at = diagnostic.position(source);
        let printable = |text: &str| -> String {
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        writeln!(
            f,
            "{}:{}:{}: {}: {}",
            printable(source.name()),
            at.line,
            at.column,
            diagnostic.severity.as_str(),
            printable(&diagnostic.message)
        )?;
        let line = source.line(source.line_index(diagnostic.span.start));
        if at.column as usize <= LINE_CHARS_MAX {
            let shown: String = line.chars().take(LINE_CHARS_MAX).collect();
            let marked = source.slice(diagnostic.span);
            let room = line.chars().count().saturating_sub(at.column as usize - 1);
            let width = marked.chars().count().clamp(1, room.max(1)).min(LINE_CHARS_MAX);
            let number = at.line.to_string();
            writeln!(f, "{number} | {}", printable(&shown))?;
            let indent = number.len() + 3 + at.column as usize - 1;
            writeln!(f, "{:indent$}{}", "", "^".repeat(width))?;
        }
        if !diagnostic.help.is_empty() {
            writeln!(f, "  help: {}", printable(&diagnostic.help))?;
        }
        Ok(())
    }
}
