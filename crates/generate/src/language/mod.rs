//! The language of specifications: TOML beside ASN.1, in the terms of TAPS (RFC 9622). `docs/generate.md` has all of it.
//!
//! A file is read to its end whatever is wrong with it, unless it is no TOML; what is wrong is a [`Diagnostic`] with its place,
//! what was expected, and the nearest word. How places and diagnostics look is the ASN.1 compiler's to say.

mod brackets;
mod contradictions;
pub mod keys;
pub(crate) mod names;
mod read;
mod reader;
pub mod specification;
mod types;
pub mod value;

use fusewire_asn1::{Diagnostic, File, Source};

use reader::Reader;
pub use specification::Specification;

/// A specification with its files, and what is wrong with them.
#[derive(Debug)]
pub struct Checked {
    /// The specification's file, and those of ASN.1: [`Diagnostic::file`] is a place in this list.
    pub sources: Vec<Source>,
    /// What it says; what was wrong in it has its default.
    pub specification: Specification,
    /// What is wrong, by file and place.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Whether nothing is wrong but for warnings.
    pub fn is_ok(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The errors, as they are shown.
    pub fn wrong(&self) -> String {
        self.shown(true)
    }

    /// The warnings, as they are shown.
    pub fn warnings(&self) -> String {
        self.shown(false)
    }

    fn shown(&self, errors: bool) -> String {
        let shown = self.diagnostics.iter().filter(|d| d.is_error() == errors);
        shown.map(|d| d.display(&self.sources[d.file]).to_string()).collect()
    }

    /// `file:line` of a clause.
    pub fn place(&self, clause: &value::Clause) -> String {
        let source = &self.sources[0];
        format!("{}:{}", source.name(), source.position(clause.span.start).line)
    }

    /// The value of a clause: as it stands in the file, if it is written there in a line, or else so.
    pub fn value(&self, clause: &value::Clause, otherwise: String) -> String {
        value::as_it_stands(&self.sources[0], clause).map_or(otherwise, str::to_owned)
    }
}

/// The files of ASN.1 that a specification names, or that have the names of its types' modules: what to give to
/// [`check`], in this order.
pub fn files(source: &Source) -> Vec<String> {
    read::read(&mut Reader::new(source), source).specification.asn1
}

/// Whether no clause of a specification contradicts another, whatever the network is like.
pub(crate) fn holds_together(of: &Specification) -> bool {
    let source = Source::new("", b"");
    let mut reader = Reader::new(&source);
    contradictions::check(&mut reader, of);
    reader.diagnostics.is_empty()
}

/// A file of ASN.1 that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// As the specification names it, or would.
    pub name: String,
    /// Why.
    pub why: String,
    /// Files of ASN.1 beside the specification.
    pub beside: Vec<String>,
}

/// Reads a specification with its files of ASN.1, in the order that [`files`] says.
pub fn check(source: Source, modules: Vec<Source>) -> Checked {
    check_files(source, modules.into_iter().map(Ok).collect())
}

/// [`check`], where some of the files may not be there: that is said where they are named, with what else is wrong.
pub fn check_files(source: Source, files: Vec<Result<Source, Absent>>) -> Checked {
    let mut reader = Reader::new(&source);
    let read = read::read(&mut reader, &source);
    if let Some(error) = reader.broken.take() {
        let sources = std::iter::once(source.clone()).chain(files.into_iter().flatten());
        let specification = read.specification;
        return Checked { sources: sources.collect(), specification, diagnostics: vec![error] };
    }
    let read::Read { mut specification, asn1_spans, role_spans } = read;
    let mut parsed: Vec<File> = Vec::new();
    let mut is_whole = true;
    for (place, file) in files.into_iter().enumerate() {
        match file {
            Ok(source) => parsed.push(File::parse(parsed.len() + 1, source)),
            Err(absent) => {
                is_whole = false;
                types::absent(&mut reader, &specification, asn1_spans.get(place), &absent);
            }
        }
    }
    types::check(
        &mut reader,
        &mut specification,
        &asn1_spans,
        types::Files { parsed: &parsed, is_whole },
    );
    contradictions::check(&mut reader, &specification);
    names::check(&mut reader, &specification, &role_spans);
    let mut diagnostics = reader.diagnostics;
    diagnostics.sort_by_key(|d| (d.file, d.span, d.severity));
    diagnostics.dedup();
    let sources = std::iter::once(source).chain(parsed.into_iter().map(|file| file.source));
    Checked { sources: sources.collect(), specification, diagnostics }
}
