//! What is wrong with an encoding or a value: what, at which offset, in which part.

use std::fmt;

use fusewire_asn1::{FileId, Span};

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Component or alternative.
    Field(String),
    /// Element.
    Index(usize),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// As generated codecs say it.
    Codec(Box<fusewire_codec::Problem>),
    /// The type cannot be used: it is not there, or not of this encoding.
    Type(String),
    /// The value is none of its type, or cannot be written in this encoding.
    Value(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Codec(problem) => problem.fmt(f),
            Problem::Type(text) | Problem::Value(text) => f.write_str(text),
        }
    }
}

/// An error.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub problem: Problem,
    /// Bytes in front of it, when an encoding is read.
    pub offset: Option<usize>,
    /// Where in which file, when notation is read.
    pub place: Option<(FileId, Span)>,
    /// Innermost last.
    path: Vec<Step>,
}

impl Error {
    /// Of a type.
    pub fn of_type(message: impl Into<String>) -> Error {
        Error {
            problem: Problem::Type(message.into()),
            offset: None,
            place: None,
            path: Vec::new(),
        }
    }

    /// Of a value.
    pub fn of_value(message: impl Into<String>) -> Error {
        Error {
            problem: Problem::Value(message.into()),
            offset: None,
            place: None,
            path: Vec::new(),
        }
    }

    /// A problem at an offset.
    pub fn at(problem: fusewire_codec::Problem, offset: usize) -> Error {
        Error {
            problem: Problem::Codec(Box::new(problem)),
            offset: Some(offset),
            place: None,
            path: Vec::new(),
        }
    }

    /// A type that is not known, at an offset.
    pub fn at_type(message: impl Into<String>, offset: usize) -> Error {
        Error { offset: Some(offset), ..Error::of_type(message) }
    }

    /// A value that is none, at an offset.
    pub fn at_value(message: impl Into<String>, offset: usize) -> Error {
        Error { offset: Some(offset), ..Error::of_value(message) }
    }

    /// In a component.
    #[must_use]
    pub fn in_field(mut self, name: &str) -> Error {
        self.path.push(Step::Field(name.to_owned()));
        self
    }

    /// In an element.
    #[must_use]
    pub fn in_element(mut self, index: usize) -> Error {
        self.path.push(Step::Index(index));
        self
    }

    /// Where the notation stands, unless a part of it was said before.
    #[must_use]
    pub fn about(mut self, file: FileId, span: Span) -> Error {
        self.place.get_or_insert((file, span));
        self
    }

    /// Of what was read at an offset.
    #[must_use]
    pub fn found_at(mut self, offset: usize) -> Error {
        self.offset = Some(offset);
        self
    }

    /// So many bytes further on.
    #[must_use]
    pub fn moved(mut self, by: usize) -> Error {
        self.offset = self.offset.map(|o| o + by);
        self
    }

    /// From the outermost value to the part.
    pub fn path(&self) -> impl Iterator<Item = &Step> {
        self.path.iter().rev()
    }
}

impl From<fusewire_codec::Error> for Error {
    fn from(error: fusewire_codec::Error) -> Error {
        Error::at(*error.problem(), error.offset())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        for (n, step) in self.path().enumerate() {
            if n == 0 {
                f.write_str(", in ")?;
            }
            match step {
                Step::Field(name) if n == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
