//! What can go wrong in an experiment.

use std::io;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action}: {source}")]
    Os {
        /// What was tried.
        action: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The stack failed.
    #[error(transparent)]
    Stack(#[from] fusewire_stack::Error),
    /// Identity or records failed.
    #[error(transparent)]
    Session(#[from] fusewire_session::Error),
    /// A message cannot have parts.
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    Parts(#[from] fusewire_experiments::parts::Error),
    /// A file transfer failed.
    #[error(transparent)]
    Files(#[from] fusewire_files::Error),
    /// A worker process ended without a result.
    #[error("{method}: the {role} process failed: {message}")]
    Worker {
        /// Which method it ran.
        method: String,
        /// `send` or `receive`.
        role: &'static str,
        /// What it said.
        message: String,
    },
    /// What arrived is not what was sent.
    #[error("{method}: {what}")]
    Wrong {
        /// Which method.
        method: String,
        /// What is wrong.
        what: String,
    },
    /// A record cannot be one.
    #[error("{0}")]
    Record(String),
    /// A function to order cannot be made.
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    Synthetic(#[from] fusewire_synthetic::Error),
    /// The model was given what no machine has.
    #[error(transparent)]
    Model(#[from] fusewire_model::paper::Error),
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    pub(crate) fn os(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Os { action, source }
    }
}

/// Short for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
