//! fio, told by the probe's own job files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aquifer_probe::fio::job_file;
use aquifer_probe::report::Job;
use serde::Deserialize;

use crate::error::{Error, Result};

/// fio and its file.
pub struct Fio {
    path: PathBuf,
}

/// The parts of fio's answer that count.
#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    read: Side,
    write: Side,
}

#[derive(Deserialize)]
struct Side {
    iops: f64,
}

fn failed(what: String) -> Error {
    Error::Child { peer: "fio".into(), what }
}

impl Fio {
    /// fio on the file at `path`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without fio.
    pub fn new(path: &Path) -> Result<Self> {
        let found = Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match found {
            Ok(status) if status.success() => Ok(Fio { path: path.into() }),
            _ => Err(Error::Unavailable("fio is not there; install the package fio".into())),
        }
    }

    /// Transfers per second of one round.
    ///
    /// # Errors
    /// [`Error::Child`].
    pub fn iops(&self, job: &Job, seconds: u32) -> Result<f64> {
        let text = job_file(job, &self.path, seconds.into()).map_err(|error| failed(error.to_string()))?;
        let mut child = Command::new("fio")
            .args(["--output-format=json", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::io("starting", "fio"))?;
        // The text is short: it fits in the pipe, and closing it ends it.
        let mut stdin = child.stdin.take().expect("a pipe was asked for");
        stdin.write_all(text.as_bytes()).map_err(Error::io("writing to", "fio"))?;
        drop(stdin);
        let output = child.wait_with_output().map_err(Error::io("waiting for", "fio"))?;
        if !output.status.success() {
            return Err(failed(format!(
                "failed at {job}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        let answer: Answer = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("answered otherwise: {error}")))?;
        Ok(answer.jobs.iter().map(|load| load.read.iops + load.write.iops).sum())
    }
}
