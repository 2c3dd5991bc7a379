//! The device's own random reads, measured by fio: the limit for everybody who reads on demand.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::spawn::dies_with_parent;

const FILL_BYTES: usize = 1 << 20;
/// Seconds that fio reads before it counts.
pub const RAMP_S: f64 = 1.0;

/// What fio measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reads {
    /// Completed reads.
    pub ops: u64,
    /// Reads per second.
    pub ops_per_s: f64,
    /// Median of the completion latency.
    pub p50_ns: u64,
    /// 99th percentile of the completion latency.
    pub p99_ns: u64,
}

/// A file full of random bytes that fio reads; deleted when dropped.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    bytes: u64,
    _deleted_on_drop: Option<Guard>,
}

impl Target {
    /// A file of somebody's that is full already, and stays.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if fio is not installed.
    pub fn existing(path: &Path, bytes: u64) -> Result<Self> {
        look_for_fio()?;
        Ok(Self { path: path.to_owned(), bytes, _deleted_on_drop: None })
    }

    /// Writes the file: blocks that were only reserved would read as zeros without reaching the
    /// device. `progress` gets the bytes written so far.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if fio is not installed, [`Error::Io`] if the file cannot be written.
    pub fn create(dir: &Path, bytes: u64, mut progress: impl FnMut(u64)) -> Result<Self> {
        look_for_fio()?;
        let path = dir.join("aquifer-bench.fio");
        let owned = path.clone();
        // A leftover that cannot be deleted is reported by the next run's File::create.
        let guard = cleanup::register(move || drop(fs::remove_file(owned)));
        let mut file = File::create(&path).map_err(Error::io("creating", &path))?;
        let mut rng = Rng::new(bytes);
        let mut block = vec![0; FILL_BYTES];
        let mut written = 0;
        while written < bytes {
            block.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.next().to_ne_bytes());
            file.write_all(&block).map_err(Error::io("writing", &path))?;
            written += FILL_BYTES as u64;
            progress(written);
        }
        file.sync_all().map_err(Error::io("writing", &path))?;
        Ok(Self { path, bytes, _deleted_on_drop: Some(guard) })
    }

    /// Random direct reads of `block_bytes` by `threads` threads that each wait for one at a time.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with fio's words if it fails.
    pub fn measure(&self, block_bytes: u64, threads: usize, time: Duration) -> Result<Reads> {
        let engine =
            ["--rw=randread".to_owned(), "--ioengine=psync".to_owned(), format!("--numjobs={threads}")];
        self.run(&engine, block_bytes, time)
    }

    /// Random direct reads of `block_bytes` by one thread that keeps `depth` of them under way.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with fio's words if it fails.
    pub fn measure_deep(&self, block_bytes: u64, depth: usize, time: Duration) -> Result<Reads> {
        self.run(&deep("--rw=randread", depth), block_bytes, time)
    }

    /// Direct reads of `block_bytes` one after the other, by one thread that keeps `depth` of them under way.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with fio's words if it fails.
    pub fn measure_scan(&self, block_bytes: u64, depth: usize, time: Duration) -> Result<Reads> {
        self.run(&deep("--rw=read", depth), block_bytes, time)
    }

    fn run(&self, engine: &[String], block_bytes: u64, time: Duration) -> Result<Reads> {
        let mut command = Command::new("fio");
        command
            .args(["--name=aquifer-bench", "--direct=1"])
            .args(engine)
            .args(["--thread", "--time_based", "--norandommap", "--randrepeat=0", "--group_reporting"])
            .arg("--output-format=json")
            .arg(format!("--ramp_time={RAMP_S}"))
            .arg(format!("--filename={}", self.path.display()))
            .arg(format!("--size={}", self.bytes))
            .arg(format!("--bs={block_bytes}"))
            .arg(format!("--runtime={}ms", time.as_millis()));
        let output = dies_with_parent(&mut command).output().map_err(Error::io("running", "fio"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let words = errors.lines().chain(text.lines()).find(|line| !line.trim().is_empty());
            Error::Unavailable(format!("fio failed: {}", words.unwrap_or("it printed nothing")))
        })
    }
}

fn look_for_fio() -> Result<()> {
    match Command::new("fio").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Unavailable("fio is not installed; install the package fio".to_owned())),
    }
}

fn deep(pattern: &str, depth: usize) -> [String; 4] {
    let engine = "--ioengine=io_uring".to_owned();
    [pattern.to_owned(), engine, format!("--iodepth={depth}"), "--numjobs=1".to_owned()]
}

/// fio's report; warnings may stand before it.
fn parse(output: &str) -> Option<Reads> {
    let report: Value = serde_json::from_str(output.get(output.find('{')?..)?).ok()?;
    let job = report.get("jobs")?.get(0)?;
    if job.get("error")?.as_i64()? != 0 {
        return None;
    }
    let read = job.get("read")?;
    let percentile = |name| read.get("clat_ns")?.get("percentile")?.get(name)?.as_u64();
    Some(Reads {
        ops: read.get("total_ios")?.as_u64()?,
        ops_per_s: read.get("iops")?.as_f64()?,
        p50_ns: percentile("50.000000")?,
        p99_ns: percentile("99.000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_report() {
        let report = r#"note: something
            {"jobs": [{"error": 0, "read": {"iops": 20500.5, "total_ios": 41001,
             "clat_ns": {"percentile": {"50.000000": 28032, "99.000000": 79360}}}}]}"#;
        let reads = Reads { ops: 41001, ops_per_s: 20500.5, p50_ns: 28032, p99_ns: 79360 };
        assert_eq!(parse(report), Some(reads));
        assert_eq!(parse(&report.replace("\"error\": 0", "\"error\": 22")), None);
        assert_eq!(parse("fio: bad option"), None);
    }
}
