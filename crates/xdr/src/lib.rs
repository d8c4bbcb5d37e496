//! The XDR compiler: the XDR language (RFC 4506, section 6) and the RPC language (RFC 5531, section 12) into
//! Rust.
//!
//! ```text
//! text ──lexer──▶ tokens ──parser──▶ ast ──meaning──▶ model ──rust──▶ types, stubs
//! ```
//! A file is read to its end whatever is wrong with it; what is wrong is a [`Diagnostic`] with its place, its
//! token and a line of help. Nothing here panics on input, and no nesting of it reaches the stack's end.
//! How places and diagnostics look is the ASN.1 compiler's to say, so that both look alike.
#![forbid(unsafe_code)]

pub mod ast;
pub mod build;
mod layout;
mod lexer;
mod meaning;
pub mod model;
mod names;
mod parser;
mod programs;
pub mod rust;
mod scope;

use fusewire_asn1::source::Span;
pub use fusewire_asn1::{Diagnostic, Severity, Source};

/// A file, the files that were read before it, their meaning and their faults.
#[derive(Debug)]
pub struct Checked {
    /// The texts: the file is the last one.
    sources: Vec<Source>,
    /// The meaning of all files, as far as they could be read.
    pub model: model::Model,
    /// All faults in the order of the files; [`Diagnostic::file`] is an index of [`Checked::sources`].
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Returns `true` if there are no diagnostics except warnings.
    pub fn is_ok(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the text of the file itself.
    pub fn source(&self) -> &Source {
        &self.sources[self.sources.len() - 1]
    }

    /// Returns the texts of all files in the order in which they were read.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Formats a diagnostic with its place, line and help.
    pub fn display<'a>(
        &'a self,
        diagnostic: &'a Diagnostic,
    ) -> fusewire_asn1::diagnostic::Display<'a> {
        diagnostic.display(&self.sources[diagnostic.file])
    }
}

/// Reads a file that declares all names that it uses.
pub fn check(source: Source) -> Checked {
    check_after(Vec::new(), source)
}

/// Reads a file after others, which supply names that it uses and does not declare.
///
/// The model holds the declarations of all of them. [`definition`] makes a file of one constant.
pub fn check_after(before: Vec<Source>, source: Source) -> Checked {
    let mut sources = before;
    sources.push(source);
    // Read them as one text, so that a place is one number; the place in a file is found at the end.
    let mut text = String::new();
    let mut starts = Vec::with_capacity(sources.len());
    for source in &sources {
        if !text.is_empty() {
            text.push('\n');
        }
        starts.push(text.len());
        text += source.text();
    }
    let whole = Source::new("", text.as_bytes());
    let (tokens, mut diagnostics) = lexer::tokens(&whole);
    let specification = parser::parse(&whole, &tokens, &mut diagnostics);
    let model = meaning::model(&specification, &mut diagnostics);
    for diagnostic in diagnostics.iter_mut().filter(|d| d.token.is_empty()) {
        diagnostic.token = fusewire_asn1::diagnostic::shortened(whole.slice(diagnostic.span));
    }
    diagnostics.sort_by_key(|d| (d.span, d.severity));
    diagnostics.dedup();
    for diagnostic in &mut diagnostics {
        let Span { start, end } = diagnostic.span;
        let file = starts.partition_point(|&at| at <= start as usize) - 1;
        let local = |at: u32| (at as usize - starts[file]).min(sources[file].text().len()) as u32;
        (diagnostic.file, diagnostic.span) = (file, Span::new(local(start), local(end.max(start))));
    }
    Checked { sources, model, diagnostics }
}

/// Makes a file that defines one name: `NAME=VALUE` a constant, `NAME` a name for `#ifdef` only.
///
/// Returns `None` if the text has another form.
pub fn definition(text: &str) -> Option<Source> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_name = is_word(name) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_value = is_word(value.strip_prefix('-').unwrap_or(value));
    let is_complete = !text.ends_with(['=', '-']);
    (is_name && is_value && is_complete)
        .then(|| Source::new("-D", format!("#define {name} {value}").as_bytes()))
}
