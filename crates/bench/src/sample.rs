//! What is written to the result file: one JSON object per line, with its whole configuration.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::machine::Context;
use crate::page_size::sample as page_size;
use crate::rumble::sample as rumble;
use crate::volume::layered::sample::Layered;

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// A peer that could not run, and why.
    Skipped(Skipped),
    /// Memory of one system under one of the workloads of Rumble et al.
    Rumble(Box<rumble::Sample>),
    /// A run of transactions on a database with pages of one size.
    PageSize(Box<page_size::Sample>),
    /// A run of a volume, or of the layers that it replaces, on emulated flash.
    Layered(Box<Layered>),
}

/// A peer left out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Skipped {
    /// Name of the peer.
    pub peer: String,
    /// Why, in a sentence.
    pub reason: String,
    /// Machine and command.
    pub context: Context,
}

/// Where records go.
#[derive(Debug)]
pub struct Output(Option<File>);

impl Output {
    /// Appends to the file at `path`, or prints to standard output without one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(Error::io("creating", dir))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(Some(file.map_err(Error::io("opening", path))?)))
    }

    /// Writes one line.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).expect("records have only plain fields") + "\n";
        match &mut self.0 {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stdout().write_all(line.as_bytes()),
        }
        .map_err(Error::io("writing", "the results"))
    }
}
