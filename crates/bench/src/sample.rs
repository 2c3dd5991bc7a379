//! What is written to the result file: one JSON object per line, with its whole configuration.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::Counters;
use crate::durable::cleaning::sample::Cleaning;
use crate::durable::optimisations::sample::Optimisation;
use crate::durable::recovery::sample::Recovery;
use crate::durable::sample as durable;
use crate::durable::workloads::sample::Workload;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::memcached::sample as memcached;
use crate::page_size::sample as page_size;
use crate::peer::Kind;
use crate::peer::abi::Stats;
use crate::process::Memory;
use crate::proof::Proof;
use crate::rumble::sample as rumble;
use crate::volume::layered::sample::Layered;
use crate::workload::Point;

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// A measured run of the micro-benchmark.
    Sample(Box<Sample>),
    /// A peer that could not run, and why.
    Skipped(Skipped),
    /// A measured run of memcached.
    Memcached(Box<memcached::Sample>),
    /// A run of transactions on one store.
    Transactions(Box<durable::Transactions>),
    /// Memory of one system under one of the workloads of Rumble et al.
    Rumble(Box<rumble::Sample>),
    /// A run of a program on one heap.
    Workloads(Box<Workload>),
    /// A run of a program on a heap that lacks an optimisation.
    Optimisations(Box<Optimisation>),
    /// A run of updates of a heap that is cleaned, or need not be.
    Cleaning(Box<Cleaning>),
    /// A run of an unchanged program whose memory is local in part.
    Far(Box<crate::far::sample::Far>),
    /// A run of a program on donors of which one fails.
    DonorFailure(Box<crate::recover::sample::DonorFailure>),
    /// A heap opened again.
    Recovery(Box<Recovery>),
    /// A run of transactions on a database with pages of one size.
    PageSize(Box<page_size::Sample>),
    /// A run of a volume, or of the layers that it replaces, on emulated flash.
    Layered(Box<Layered>),
}

/// Configuration and result of one run of one peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The system measured.
    pub peer: Kind,
    /// Which of several measurements of that peer; block size for fio, else empty.
    pub variant: String,
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of all objects.
    pub data_bytes: u64,
    /// RAM that was to be used.
    pub ram_bytes: u64,
    /// Limit of the process's cgroup; the same for all peers; none without a cgroup.
    pub limit_bytes: Option<u64>,
    /// Size of the swap area, where there is one.
    pub swap_bytes: Option<u64>,
    /// Size of the log, where there is one.
    pub flash_bytes: Option<u64>,
    /// Bytes of one object.
    pub object_bytes: u64,
    /// Accesses, their mix and threads.
    pub point: Point,
    /// Seed of the accesses.
    pub seed: u64,
    /// Length of the warm-up before this run.
    pub warmup_s: f64,
    /// Length of the measured phase.
    pub seconds: f64,
    /// Accesses in the measured phase.
    pub ops: u64,
    /// Accesses per second, all threads.
    pub ops_per_s: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latency.
    pub p99_ns: u64,
    /// What proving each object that was read took of it; none if nothing was proven.
    #[serde(default)]
    pub proof: Option<Proof>,
    /// Largest memory of the process at any tick of the measured phase.
    pub memory: Memory,
    /// RAM for the peer's own tables, where known.
    pub metadata_bytes: Option<u64>,
    /// What the device did in the measured phase.
    pub device: Counters,
    /// What the device was writing just before this run, in bytes per second: other programs'
    /// writes, which are in [`Sample::device`] too.
    #[serde(default)]
    pub background_write_bytes_per_s: u64,
    /// Bytes of objects rewritten by the accesses.
    pub changed_bytes: u64,
    /// The library's counters: differences over the measured phase for events, values at its end
    /// for sizes.
    pub stats: Option<Stats>,
    /// Machine and command.
    pub context: Context,
}

impl Sample {
    /// Device bytes written per byte that the program changed; none without changes.
    pub fn written_per_changed(&self) -> Option<f64> {
        (self.changed_bytes > 0).then(|| self.device.written_bytes as f64 / self.changed_bytes as f64)
    }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::distribution::Distribution;

    /// A sample with round numbers, for tests of the tables too.
    pub(crate) fn sample(peer: Kind, ops_per_s: f64) -> Sample {
        Sample {
            peer,
            variant: String::new(),
            run: 1,
            data_bytes: 4 << 30,
            ram_bytes: 256 << 20,
            limit_bytes: Some(269 << 20),
            swap_bytes: None,
            flash_bytes: None,
            object_bytes: 128,
            point: Point { distribution: Distribution::ScatteredHot, read_percent: 50, threads: 8 },
            seed: 1,
            warmup_s: 10.0,
            seconds: 10.0,
            ops: 1000,
            ops_per_s,
            p50_ns: 40_000,
            p99_ns: 90_000,
            proof: Some(Proof { read_ns: 5.0, verify_ns: 15.0 }),
            memory: Memory { rss_bytes: 250 << 20, vm_pte_bytes: 8 << 20 },
            metadata_bytes: None,
            device: Counters { reads: 900, read_bytes: 900 << 12, writes: 400, written_bytes: 400 << 12 },
            background_write_bytes_per_s: 0,
            changed_bytes: 500 * 128,
            stats: None,
            context: Context { command: "aquifer-bench micro".to_owned(), ..Context::default() },
        }
    }

    #[test]
    fn records_survive_the_file() {
        let path = std::env::temp_dir().join(format!("aquifer-bench-{}.jsonl", std::process::id()));
        let mut with_stats = sample(Kind::Aquifer, 20_000.5);
        with_stats.stats = Some(Stats { faults: 7, ..Stats::default() });
        let skipped = Skipped {
            peer: Kind::Memkind.to_string(),
            reason: "not \"installed\"".to_owned(),
            context: Context::default(),
        };
        let records = [Record::Sample(Box::new(with_stats)), Record::Skipped(skipped)];
        let mut output = Output::open(Some(&path)).expect("a temporary file");
        records.iter().for_each(|record| output.write(record).expect("room for two lines"));
        assert_eq!(crate::study::read::<Record>(&path).expect("just written"), records);
        fs::write(&path, "{\"kind\":\"sample\"}\n").expect("writable");
        assert!(
            matches!(crate::study::read::<Record>(&path), Err(Error::Input(reason)) if reason.contains("line 1"))
        );
        fs::remove_file(&path).expect("exists");
    }

    #[test]
    fn a_line_is_self_contained() {
        let line = serde_json::to_string(&Record::Sample(Box::new(sample(Kind::MmapDefault, 1.0))))
            .expect("serialisable");
        for part in [
            "\"kind\":\"sample\"",
            "\"peer\":\"mmap-default\"",
            "\"distribution\":\"scattered-hot\"",
            "\"vm_pte_bytes\":8388608",
            "\"command\":\"aquifer-bench micro\"",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn written_bytes_count_per_changed_byte() {
        let mut sample = sample(Kind::Swap, 1.0);
        assert_eq!(sample.written_per_changed(), Some(400.0 * 4096.0 / (500.0 * 128.0)));
        sample.changed_bytes = 0;
        assert_eq!(sample.written_per_changed(), None);
    }
}
