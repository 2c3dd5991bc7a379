//! Memory that systems need for objects whose sizes change: the eight workloads of Rumble, Kejriwal and Ousterhout,
//! "Log-structured Memory for DRAM-based Storage", FAST 2014.
//!
//! Each system runs each workload in a process of its own. The figure is the largest memory over the whole run, over the most
//! bytes of objects that are live at a time.
//!
//! | file | noun |
//! |---|---|
//! | `workload` | W1 to W8 |
//! | `churn`, `books` | allocating and deleting, and looking at the memory meanwhile; which objects there are |
//! | `store` | the systems |
//! | `malloc` | the C library's allocator and those that stand in front of it |
//! | `pmemobj` | libpmemobj |
//! | `durable` | the durable heap, and where its memory is |

mod books;
mod churn;
mod durable;
mod malloc;
mod pmemobj;
mod store;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use aquifer_base::units::{format_size, parse_size};
use aquifer_bench::child::Parent;
use aquifer_bench::cleanup;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::process::cpu_ns;
use aquifer_bench::study::{Fields, Session, Study, Table, key, median};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use books::Books;
use churn::{Churn, Plan};
use store::{Contestant, System};
use workload::Workload;

/// Largest object of all workloads.
const OBJECT_BYTES_MAX: u64 = 15_000;
const LIVE_BYTES_MAX: u64 = 4 << 30;
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;
/// The workloads of which the paper gives a mean.
const MEAN_OF: [Workload; 3] = [Workload::W1, Workload::W2, Workload::W3];

const EXAMPLES: &str = "\
Examples:
  aquifer-research rumble --out results.jsonl
      All systems, all workloads, 200 MiB of live objects; about a quarter of an hour
  aquifer-research rumble --data 16M
      A first look in a minute or two
  aquifer-research rumble --systems aquifer --utilisation 85,88,90 --workloads W1,W3,W8 --breakdown
      Where the memory of the durable heap is at its peak
  aquifer-research rumble --systems aquifer,glibc --runs 3
      Medians of three seeds

--data is the most that is live at a time; --dir is for the files of aquifer and pmemobj, and should be in RAM. Every run has a seed of its own.

The workloads: W1 allocates objects of 100 bytes, five times the live bytes in all, and deletes random ones so that no
more are live. W2 goes on with 130 bytes in the same way. W3 deletes 90 % before it does, W5 goes from 100-150 to 200-250
bytes after 90 %, W4 after none, W6 from 100-200 to 1,000-2,000 after 50 %, W7 from 1,000-2,000 to 1,500-2,500 after 90 %,
W8 from 50-150 to 5,000-15,000 after 90 %.";

const PEERS: &[&str] = &["aquifer 90 %", "glibc", "jemalloc", "mimalloc", "tcmalloc", "pmemobj"];

const RATIOS: Table = Table {
    title: "Workloads of Rumble et al.: {live_bytes:size} live, chunks of {chunk_bytes:size}",
    keys: &[key("workload", "workload")],
    peers: PEERS,
    columns: &[
        median("peak / live", "peak_ratio").digits(3).less(),
        median("near the cap", "ratio_near_cap").digits(3).less(),
        median("at the end", "end_ratio").digits(3),
        median("s", "seconds").digits(1),
    ],
    note: "peak / live: largest memory over the whole run, over the most live bytes, everything counted. aquifer: memory of the file, with headers, free \
        chunks and superblock. malloc: growth of the process. pmemobj: runs in use and huge allocations by its own statistics, without the pool's metadata. \
        near the cap: memory over live bytes at the same moment, while these were at least 90 % of the most.",
};

const WASTE: Table = Table {
    title: "The paper's way of counting: {live_bytes:size} live, chunks of {chunk_bytes:size}",
    keys: &[key("workload", "workload")],
    peers: PEERS,
    columns: &[median("wasted %", "waste_percent").digits(1).less()],
    note: "(peak - live) / peak; of aquifer the peak is without free chunks and superblock, as the paper leaves the cleaner's reserve out.",
};

const COSTS: Table = Table {
    title: "What the durable heap pays: {live_bytes:size} live, chunks of {chunk_bytes:size}",
    keys: &[key("workload", "workload")],
    peers: PEERS,
    columns: &[
        median("B/B", "durable.written_each").less(),
        median("map / live", "durable.map_ratio").digits(3).less(),
        median("RAM / live", "durable.ram_ratio").digits(3).less(),
        median("file", "durable.file_ratio").digits(4),
        median("copied B/B", "durable.copied_each").less(),
        median("chunks cleaned", "durable.cleaned_chunks").digits(0),
    ],
    note: "B/B: bytes persisted per byte allocated. map: RAM of the map over live bytes at its peak; RAM: all memory of the process that is of no file. file: \
        largest memory of the file as the kernel counts it, over what is said above.",
};

const PARTS: Table = Table {
    title: "Where the memory is at the peak, in percent of it: {live_bytes:size} live, chunks of {chunk_bytes:size}",
    keys: &[key("workload", "workload")],
    peers: PEERS,
    columns: &[
        median("objects", "parts.object_percent").digits(1),
        median("rounding", "parts.rounding_percent").digits(1),
        median("dead", "parts.dead_percent").digits(1),
        median("headers, index", "parts.index_percent").digits(1),
        median("unfilled", "parts.unfilled_percent").digits(1),
        median("free chunks", "parts.free_percent").digits(1),
        median("lost", "parts.lost_percent").digits(1),
        median("all MiB", "parts.total_bytes").mib(),
        median("holes kept", "parts.holes").digits(0),
        median("chunks in use", "parts.chunks").digits(0),
    ],
    note: "At the end of the run if the memory is at its peak then, else when it got there. dead: what objects were, in chunks that are still to be cleaned. \
        lost: what is no object, of all but dead bytes and free chunks: cleaning does not regain it.",
};

/// Options of `rumble`.
#[derive(Clone, Debug, Args)]
pub struct RumbleOptions {
    /// Systems to compare
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::value_variants().to_vec())]
    systems: Vec<System>,
    /// Workloads
    #[arg(long, value_enum, ignore_case = true, value_delimiter = ',', default_values_t = Workload::value_variants().to_vec())]
    workloads: Vec<Workload>,
    /// Objects that are allocated or freed together; for aquifer, in a transaction
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// For aquifer: from which percentage of live bytes on its file grows; several are compared
    #[arg(long, value_delimiter = ',', default_value = "90", value_parser = clap::value_parser!(u32).range(50..=95))]
    utilisation: Vec<u32>,
    /// For aquifer: bytes of a chunk, a power of two
    #[arg(long, value_parser = parse_size, default_value = "1M")]
    chunk: u64,
    /// For aquifer: say where the memory is at its peak
    #[arg(long)]
    breakdown: bool,
}

impl RumbleOptions {
    /// Refuses what makes no sense.
    fn check(&self, live_bytes: u64) -> Result<()> {
        let live_bytes_min = (2 * u64::from(self.batch) * OBJECT_BYTES_MAX).max(1 << 20);
        if !(live_bytes_min..=LIVE_BYTES_MAX).contains(&live_bytes) {
            let (least, most) = (format_size(live_bytes_min), format_size(LIVE_BYTES_MAX));
            let rule = format!("--data is from {least} (two batches of the largest objects) to {most}");
            return Err(Error::Input(rule));
        }
        if !self.chunk.is_power_of_two() || !CHUNK_BYTES.contains(&self.chunk) {
            return Err(Error::Input("--chunk is a power of two from 64K to 16M".to_owned()));
        }
        Ok(())
    }

    /// The durable heap once for each of its settings.
    fn contestants(&self) -> Vec<Contestant> {
        let settings = |&system: &System| {
            let count = if system == System::Aquifer { self.utilisation.len() } else { 1 };
            let of = move |&utilisation_percent| Contestant { system, utilisation_percent };
            self.utilisation[..count].iter().map(of)
        };
        self.systems.iter().flat_map(settings).collect()
    }
}

#[derive(Clone, Serialize)]
struct Point {
    live_bytes: u64,
    batch: u16,
    chunk_bytes: u64,
    workload: Workload,
}

/// What a child is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct RumbleTask {
    /// The system, for which the process was started.
    contestant: Contestant,
    workload: Workload,
    live_bytes: u64,
    batch: usize,
    /// Decides sizes and victims.
    seed: u64,
    chunk_bytes: u32,
    wants_breakdown: bool,
    /// The file of a system that needs one; the parent removes it.
    path: PathBuf,
}

/// The study.
pub struct Rumble;

impl Study for Rumble {
    const NAME: &str = "rumble";
    const ABOUT: &str =
        "Peak memory over live bytes when sizes change: the durable heap, four allocators, libpmemobj";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "200M"), ("runs", "1"), ("dir", "/dev/shm")];
    const UNUSED: &[&str] = &["seconds", "warmup", "ram", "payload"];
    const NEEDS_DISK: bool = false;
    const TABLES: &[&Table] = &[&RATIOS, &WASTE, &COSTS, &PARTS];
    type Options = RumbleOptions;
    type Task = RumbleTask;

    fn run(session: &mut Session, options: &RumbleOptions, live_bytes: u64) -> Result<()> {
        options.check(live_bytes)?;
        let &RumbleOptions { batch, chunk: chunk_bytes, .. } = options;
        let point = |&workload: &Workload| Point { live_bytes, batch, chunk_bytes, workload };
        let mut wasted: BTreeMap<(String, u32), Vec<f64>> = BTreeMap::new();
        session.turns(
            &options.contestants(),
            options.workloads.iter().map(point),
            |session, cell, run| {
                let (name, workload) = (cell.peer.to_string(), cell.point.workload);
                let file = format!("aquifer-rumble-{}-{}", cell.peer.system, std::process::id());
                let path = session.common.dir.join(file);
                let removed = path.clone();
                // Registered before the child, which is killed first then. Not every system makes a file.
                let _file = cleanup::register(move || drop(fs::remove_file(removed)));
                let task = RumbleTask {
                    contestant: cell.peer,
                    workload,
                    live_bytes,
                    batch: batch.into(),
                    seed: run.into(),
                    chunk_bytes: chunk_bytes as u32,
                    wants_breakdown: options.breakdown,
                    path,
                };
                let mut child = session.start_in(None, &cell.peer.system.environment(), &name, &task)?;
                let figures = child.figures(&session.progress)?;
                if MEAN_OF.contains(&workload) {
                    wasted.entry((name, run)).or_default().extend(figures.number("waste_percent"));
                }
                Ok(figures)
            },
        )?;
        let mean_point = Fields::of(&point(&MEAN_OF[0])).with("workload", "mean of W1, W2, W3");
        for ((name, run), three) in wasted.into_iter().filter(|(_, three)| three.len() == MEAN_OF.len()) {
            let mean = three.iter().sum::<f64>() / three.len() as f64;
            session.keep(&name, &mean_point, run, Ok(Fields::default().with("waste_percent", mean)))?;
        }
        Ok(())
    }

    fn work(task: RumbleTask, parent: &mut Parent) -> Result<Fields> {
        let RumbleTask { workload, live_bytes, batch, seed, .. } = task;
        let plan = Plan { workload, cap_bytes: live_bytes, batch, seed };
        // Before the system, which takes what the process has until then for its baseline.
        let books = Books::new(plan.objects_max())?;
        let mut store = task.open()?;
        let (what, total_bytes) = (format!("{workload:?}"), plan.total_bytes());
        let (started, cpu_before) = (Instant::now(), cpu_ns());
        let mut observe = |bytes| parent.progress(&what, bytes, total_bytes);
        let peaks = Churn::new(plan, books, &mut *store, &mut observe).run()?;
        let used_bytes = peaks.used_bytes as f64;
        Ok(Fields::of(&peaks)
            .with("seconds", started.elapsed().as_secs_f64())
            .with("cpu_s", (cpu_ns() - cpu_before) as f64 / 1e9)
            .with("peak_ratio", peaks.resident_bytes as f64 / live_bytes as f64)
            .with("end_ratio", peaks.end_bytes as f64 / live_bytes as f64)
            .with("waste_percent", 100.0 * (used_bytes - live_bytes as f64) / used_bytes)
            .and(store.figures(live_bytes, &peaks)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RumbleOptions,
    }

    fn options(line: &str) -> RumbleOptions {
        Line::parse_from(std::iter::once("rumble").chain(line.split_whitespace())).options
    }

    #[test]
    fn only_the_durable_heap_has_several_settings() {
        let options = options("--utilisation 85,90 --workloads w3,W1 --systems aquifer,glibc");
        assert_eq!(options.workloads, [Workload::W3, Workload::W1]);
        let names: Vec<_> = options.contestants().iter().map(Contestant::to_string).collect();
        assert_eq!(names, ["aquifer 85 %", "aquifer 90 %", "glibc"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, live_bytes) in [
            ("", 100 << 10),
            ("--batch 1000", 8 << 20),
            ("", 9 << 30),
            ("--chunk 3M", 8 << 20),
            ("--chunk 32K", 8 << 20),
        ] {
            assert!(options(line).check(live_bytes).is_err(), "{line} {live_bytes}");
        }
        options("--chunk 64K").check(4 << 20).expect("sensible");
    }
}
