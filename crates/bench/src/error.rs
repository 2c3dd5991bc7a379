//! What can go wrong in the harness.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Result of the harness.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a benchmark, or one peer of it, could not go on.
#[derive(Debug, Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{doing} {path}: {source}")]
    Io {
        /// The operation, as in "opening".
        doing: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// Something a peer needs is not there; the peer is skipped with this sentence as the reason.
    #[error("{0}")]
    Unavailable(String),
    /// The options contradict each other or the input file makes no sense.
    #[error("{0}")]
    Input(String),
    /// A peer's process ended or answered with something unexpected.
    #[error("the {peer} process {what}")]
    Child {
        /// Name of the peer.
        peer: String,
        /// What happened to it.
        what: String,
    },
    /// The kernel killed a peer's process, as it does with little RAM; nothing else may be tried again.
    #[error("the {peer} process {what}")]
    Killed {
        /// Name of the peer.
        peer: String,
        /// How it ended.
        what: String,
    },
    /// A peer gave data that nobody wrote; nothing it did counts any more.
    #[error("WRONG DATA from {peer}: {what}")]
    WrongData {
        /// Name of the peer.
        peer: String,
        /// What came, and what was expected.
        what: String,
    },
}

impl Error {
    /// A closure for `map_err` that adds what was done to which file.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// The calling thread's `errno` as an error.
    pub fn last_os(doing: &'static str, path: impl AsRef<Path>) -> Self {
        Self::io(doing, path)(io::Error::last_os_error())
    }
}
