//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario makes no sense.
    #[error("{0}")]
    Scenario(String),
    /// Donors and borrowers disagree.
    #[error("a defect: after {at_s:.0} virtual seconds {what}")]
    Broken {
        /// Virtual seconds since the beginning.
        at_s: f64,
        /// What differs.
        what: String,
    },
    /// A file.
    #[error("{doing} {path}: {reason}")]
    Io {
        /// As in "writing".
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// A picture.
    #[error("{path} cannot be drawn: {reason}")]
    Plot {
        /// Of which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
