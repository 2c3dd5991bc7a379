//! What is written to the result file: one JSON object per line.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::machine::Context;

/// One run of one peer at one point, or the reason why it is missing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the study.
    pub study: String,
    /// Name of the peer.
    pub peer: String,
    /// Number of the run, from 1.
    pub run: u32,
    /// What all peers were given: sizes, threads, the load.
    pub point: Fields,
    /// What was measured.
    #[serde(default)]
    pub figures: Fields,
    /// Why nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Machine and command.
    pub context: Context,
}

/// Appends records to a file.
#[derive(Debug)]
pub struct Output(File);

impl Output {
    /// Opens the file at `path`, and makes it and its folder if they are not there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(Error::io("creating", dir))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map(Self).map_err(Error::io("opening", path))
    }

    /// Writes one line.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).expect("records have only plain fields") + "\n";
        self.0.write_all(line.as_bytes()).map_err(Error::io("writing", "the results"))
    }
}

/// All lines of a result file.
///
/// # Errors
/// [`Error::Io`]; [`Error::Input`] with the number of a line that is not a record.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>> {
    let text = fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let at = format!("{}, line {}", path.display(), number + 1);
            Error::Input(format!("{at}: not a record of this version of aquifer-bench: {error}"))
        })
    };
    lines.map(parse).collect()
}
