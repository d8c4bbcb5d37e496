//! Files read together, and what is wrong with them.

use crate::diagnostic::Diagnostic;
use crate::parser::File;
use crate::source::Source;

/// Files and what is wrong with them.
#[derive(Debug)]
pub struct Checked {
    /// The files, in the order in which they were given.
    pub files: Vec<File>,
    /// What is wrong, by file and place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads files, each of which may import from the others.
pub fn check(sources: Vec<Source>) -> Checked {
    let mut files: Vec<File> =
        sources.into_iter().enumerate().map(|(id, source)| File::parse(id, source)).collect();
    let mut diagnostics: Vec<Diagnostic> =
        files.iter_mut().flat_map(|f| std::mem::take(&mut f.diagnostics)).collect();
    diagnostics.sort_by_key(|d| (d.file, d.span));
    Checked { files, diagnostics }
}

impl Checked {
    /// What is wrong with one file.
    pub fn of(&self, file: usize) -> impl Iterator<Item = &Diagnostic> {
        let start = self.diagnostics.partition_point(|d| d.file < file);
        self.diagnostics[start..].iter().take_while(move |d| d.file == file)
    }

    /// Whether nothing is wrong with one file, warnings aside.
    pub fn is_ok(&self, file: usize) -> bool {
        !self.of(file).any(Diagnostic::is_error)
    }

    /// How many definitions one file has.
    pub fn definitions(&self, file: usize) -> usize {
        self.files[file].modules.iter().map(|m| m.assignments.len()).sum()
    }
}
