//! Does a database want small pages on flash? SQLite under two loads, with pages of several sizes and buffers of several sizes.
//!
//! Petrov, Ivanov and Buchmann ("Flash SSDs as primary database storage", 2010; with Gottstein and Bausch 2011) found that OLTP on flash
//! does better with pages of 4 KiB than of 16 KiB, reaches the same speed with smaller buffers, and uses the processor better. This asks
//! the same of the SQLite that the distribution has.
//!
//! | file | noun |
//! |---|---|
//! | `database` | filled databases, the copy that a cell works on, a connection with its settings |
//! | `task` | the children: one fills a database, one measures a cell |
//! | `plot` | the picture |

mod database;
mod plot;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use aquifer_base::units::{format_size, parse_size};
use aquifer_bench::child::Parent;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::sqlite::{Journal, Kind};
use aquifer_bench::study::{
    Fields, Session, Study, Table, each_once, key, median, median_of, range, ratio, text,
};
use clap::Args;
use serde::Serialize;

use database::{Files, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Settings};
use task::{CellTask, FillTask, Task};

pub use plot::draw;

const EXAMPLES: &str = "\
Examples:
  aquifer-research page-size --out results.jsonl
      Both loads, pages of 4 to 32 KiB, buffers of 4 to 64 MiB, medians of 5; about 25 minutes
  aquifer-research page-size --load tpc-c --pages 4K,16K --buffers 8M,32M --runs 1 --seconds 2
      A first look in a minute
  aquifer-research page-size --journal delete --buffers 16M --out results.jsonl
      A rollback journal instead of the log
  aquifer-research plot results.jsonl --out-dir docs/plots

Needs libsqlite3.so.0 (Debian: libsqlite3-0), and root or delegated cgroups: each cell runs in a control group whose memory is
--slack above its buffer, so that the kernel's page cache cannot stand in for the buffer. Databases are made once for each load and
page size, and copied for each run. Commits are durable (synchronous=FULL). The warm-up goes on until the buffer is full, but not
longer than four times --warmup.

tpc-b and tpc-c are like TPC-B and TPC-C, not them: one client, no terminals, no waiting. docs/explanation/page-size.md says what else is left out.";

/// Least data over the largest buffer: with less, the buffer would hold much of it.
const DATA_OVER_BUFFER_MIN: u64 = 4;
/// SQLite wants some pages.
const BUFFER_PAGES_MIN: u64 = 16;
/// Beside the databases: the log or journal of a cell, and growth.
const ROOM_BYTES: u64 = 1 << 30;
const PEERS: &[&str] = &[
    "512 B pages",
    "1 KiB pages",
    "2 KiB pages",
    "4 KiB pages",
    "8 KiB pages",
    "16 KiB pages",
    "32 KiB pages",
    "64 KiB pages",
];

const TABLE: Table = Table {
    title: "{load}-like, {scale} {unit}, {data_bytes:size} of data, journal {journal}{unlimited}",
    keys: &[key("buffer", "buffer_bytes").size()],
    peers: PEERS,
    columns: &[
        median("tx/s", "ops_per_s").digits(0).more(),
        range("least, most", "ops_per_s").digits(0),
        ratio("x 4 KiB pages", "ops_per_s", &["4 KiB pages"]).more(),
        median("mean ms", "latency.mean_ns").per(1e6),
        median("p50 ms", "latency.p50_ns").per(1e6),
        median("p99 ms", "latency.p99_ns").per(1e6).less(),
        median("max ms", "latency.max_ns").per(1e6).digits(0),
        median("misses/tx", "misses_each").less(),
        median("device share", "device_share"),
        median("read KiB/tx", "read_bytes_each").per(1024.0).digits(1).less(),
        median("written KiB/tx", "written_bytes_each").per(1024.0).digits(1).less(),
        median("CPU us/tx", "cpu_ns_each").per(1e3).digits(0).less(),
        text("SQLite", "sqlite"),
    ],
    note: "Misses: pages that the buffer lacked. Device share: bytes that the device read for each byte of those pages; below 1 the kernel's page cache had \
        some, above 1 something was read twice. Read and written: bytes that the process had the device move. CPU: of the process, user and system.",
};

const EQUAL: Table = Table {
    title: "{load}-like, {data_bytes:size} of data, journal {journal}: buffers for equal speed",
    keys: &[key("smallest pages with", "smallest_buffer_bytes").size()],
    peers: PEERS,
    columns: &[text("are as fast as these with", "equal_buffer")],
    note: "The largest buffer with which the larger pages are not faster than the smallest ones.",
};

/// Options of `page-size`.
#[derive(Clone, Debug, Args)]
pub struct PageSizeOptions {
    /// What the transactions do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tpc-b,tpc-c")]
    load: Vec<Kind>,
    /// Sizes of the database's pages
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "4K,8K,16K,32K")]
    pages: Vec<u64>,
    /// Sizes of SQLite's buffer
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "4M,8M,16M,32M,64M")]
    buffers: Vec<u64>,
    /// How transactions survive a crash
    #[arg(long, value_enum, default_value = "wal")]
    journal: Journal,
    /// The write-ahead log is copied into the database when it is so long; SQLite's own default is 1000 pages
    #[arg(long, value_parser = parse_size, default_value = "4M")]
    log: u64,
    /// Memory of a cell's control group beside the buffer: the program, the kernel's memory, the pages of one copy of the log. With more
    /// the kernel caches pages of the database, with less it throws the program out
    #[arg(long, value_parser = parse_size, default_value = "14M")]
    slack: u64,
    /// Without a control group: the kernel's page cache then hides most reads, and buffers hardly matter
    #[arg(long, conflicts_with = "slack")]
    unlimited: bool,
}

#[derive(Clone, Serialize)]
struct Point {
    load: Kind,
    scale: u64,
    unit: &'static str,
    data_bytes: u64,
    journal: Journal,
    buffer_bytes: u64,
    limit_bytes: Option<u64>,
    /// A warning in the title.
    unlimited: &'static str,
}

/// Pages of a size, which compete.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pages(u64);

impl std::fmt::Display for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pages", format_size(self.0))
    }
}

impl PageSizeOptions {
    fn pages(&self) -> Vec<Pages> {
        self.pages.iter().copied().map(Pages).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn buffers(&self) -> BTreeSet<u64> {
        self.buffers.iter().copied().collect()
    }

    /// All cells of a load, but for the size of the pages.
    fn points(&self, load: Kind, data_bytes: u64) -> Vec<Point> {
        let point = |buffer_bytes| Point {
            load,
            scale: load.scale(data_bytes),
            unit: load.unit(),
            data_bytes,
            journal: self.journal,
            buffer_bytes,
            limit_bytes: (!self.unlimited).then_some(buffer_bytes + self.slack),
            unlimited: if self.unlimited {
                ", WITHOUT A MEMORY LIMIT: the kernel's page cache stood in for the buffer"
            } else {
                ""
            },
        };
        self.buffers().into_iter().map(point).collect()
    }

    /// Disk space for the databases of a load and the copy. Rows fill pages of different sizes differently.
    fn needed_bytes(&self, data_bytes: u64) -> u64 {
        let databases = self.pages().len() as u64 + 1;
        databases.saturating_mul(data_bytes / 4 * 5).saturating_add(ROOM_BYTES)
    }

    /// Refuses what makes no sense.
    fn check(&self, data_bytes: u64) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        let sizes = PAGE_BYTES_MIN..=PAGE_BYTES_MAX;
        if let Some(page) = self.pages.iter().find(|page| !page.is_power_of_two() || !sizes.contains(page)) {
            return wrong(format!("--pages {page} is not a power of two from 512 bytes to 64 KiB"));
        }
        let (least, most) = (self.buffers.iter().min(), self.buffers.iter().max());
        let least_allowed = BUFFER_PAGES_MIN * self.pages.iter().max().copied().unwrap_or(PAGE_BYTES_MAX);
        if least.is_none_or(|&least| least < least_allowed) {
            let rule = format_size(least_allowed);
            return wrong(format!("each of --buffers holds at least {BUFFER_PAGES_MIN} pages: {rule}"));
        }
        if most.is_none_or(|&most| most > data_bytes / DATA_OVER_BUFFER_MIN) {
            return wrong(format!(
                "--data is at least {DATA_OVER_BUFFER_MIN} times the largest of --buffers"
            ));
        }
        Ok(())
    }
}

/// The study.
pub struct PageSize;

impl Study for PageSize {
    const NAME: &str = "page-size";
    const ABOUT: &str =
        "SQLite on pages of several sizes with buffers of several sizes: does flash want small pages?";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "512M"), ("seconds", "3"), ("warmup", "1")];
    const UNUSED: &[&str] = &["ram", "payload"];
    const TABLES: &[&Table] = &[&TABLE, &EQUAL];
    type Options = PageSizeOptions;
    type Task = Task;

    fn run(session: &mut Session, options: &PageSizeOptions, data_bytes: u64) -> Result<()> {
        options.check(data_bytes)?;
        if !options.unlimited {
            session.try_group()?;
        }
        for load in each_once(&options.load) {
            let files = Files::create(&session.common.dir, options.needed_bytes(data_bytes))?;
            for Pages(page_bytes) in options.pages() {
                session.progress.doing(format!("filling {load}, {}", Pages(page_bytes)));
                let path = files.filled(load, page_bytes);
                let task = FillTask { load, page_bytes, data_bytes, path };
                session.child(&Pages(page_bytes).to_string(), &Task::Fill(task), None)?;
            }
            let (points, mut speeds) = (options.points(load, data_bytes), Speeds::default());
            session.turns(&options.pages(), points.iter().cloned(), |session, cell, run| {
                let (Pages(page_bytes), buffer_bytes) = (cell.peer, cell.point.buffer_bytes);
                let settings = Settings {
                    path: files.restore(load, page_bytes)?,
                    page_bytes,
                    buffer_bytes,
                    journal: options.journal,
                    log_bytes: options.log,
                };
                let (warmup_s, seconds) = (session.common.warmup, session.common.seconds);
                let task = CellTask { load, settings, data_bytes, run, warmup_s, seconds };
                let name = cell.peer.to_string();
                let figures = session.child(&name, &Task::Measure(task), cell.point.limit_bytes)?;
                let per_s = figures.number("ops_per_s");
                speeds.0.entry((page_bytes, buffer_bytes)).or_default().extend(per_s);
                Ok(figures.with("page_bytes", page_bytes))
            })?;
            if let Some(first) = points.first() {
                speeds.keep(session, first)?;
            }
        }
        Ok(())
    }

    fn work(task: Task, parent: &mut Parent) -> Result<Fields> {
        match task {
            Task::Fill(task) => task::fill(&task, parent).map(|()| Fields::default()),
            Task::Measure(task) => task::measure(&task),
        }
    }
}

/// Transactions a second of each page size with each buffer.
#[derive(Default)]
struct Speeds(BTreeMap<(u64, u64), Vec<f64>>);

impl Speeds {
    /// For each buffer of the smallest pages, and each larger size: the largest buffer with which these are not faster.
    fn equal_buffers(&self) -> Vec<(u64, u64, String)> {
        let medians = self.0.iter().filter_map(|(&cell, per_s)| Some((cell, median_of(per_s.clone())?)));
        let medians: BTreeMap<(u64, u64), f64> = medians.collect();
        let pages: BTreeSet<u64> = medians.keys().map(|&(page, _)| page).collect();
        let buffers: BTreeSet<u64> = medians.keys().map(|&(_, buffer)| buffer).collect();
        let (Some(&smallest), true) = (pages.first(), buffers.len() > 1) else { return Vec::new() };
        let mut equal = Vec::new();
        for &own in &buffers {
            let Some(&speed) = medians.get(&(smallest, own)) else { continue };
            for &page in pages.iter().skip(1) {
                let is_slow =
                    |&&buffer: &&u64| medians.get(&(page, buffer)).is_some_and(|other| *other <= speed);
                let shown = match buffers.iter().take_while(is_slow).last() {
                    Some(largest) if buffers.last() == Some(largest) => {
                        format!("{} or more", format_size(*largest))
                    }
                    Some(&largest) => format_size(largest),
                    None => "-".to_owned(),
                };
                equal.push((own, page, shown));
            }
        }
        equal
    }

    fn keep(&self, session: &mut Session, point: &Point) -> Result<()> {
        for (own, page, shown) in self.equal_buffers() {
            let point = Fields::default()
                .with("load", point.load)
                .with("data_bytes", point.data_bytes)
                .with("journal", point.journal)
                .with("smallest_buffer_bytes", own);
            let figures = Fields::default().with("equal_buffer", shown);
            session.keep(&Pages(page).to_string(), &point, 1, Ok(figures))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PageSizeOptions,
    }

    fn options(line: &str) -> PageSizeOptions {
        Line::parse_from(std::iter::once("page-size").chain(line.split_whitespace())).options
    }

    #[test]
    fn limits_are_above_the_buffers() {
        let some = options("--load tpc-b --pages 64K,512,512 --buffers 2M,1M,1M");
        some.check(8 << 20).expect("sensible");
        assert_eq!(some.pages().iter().map(Pages::to_string).collect::<Vec<_>>(), [PEERS[0], PEERS[7]]);
        let points = some.points(Kind::TpcB, 8 << 20);
        assert_eq!(
            points.iter().map(|point| point.limit_bytes).collect::<Vec<_>>(),
            [Some(15 << 20), Some(16 << 20)]
        );
        assert_eq!(options("--unlimited").points(Kind::TpcB, 512 << 20)[0].limit_bytes, None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["--pages 5000", "--pages 128K", "--buffers 256K", "--buffers 256M"] {
            assert!(options(line).check(512 << 20).is_err(), "{line}");
        }
    }

    #[test]
    fn buffers_are_matched() {
        let (kib, mib) = (1 << 10, 1 << 20);
        let of = |page: u64, buffer: u64, per_s: f64| ((page * kib, buffer * mib), vec![per_s]);
        let speeds = Speeds(BTreeMap::from([
            of(4, 8, 2250.0),
            of(16, 8, 1125.0),
            of(4, 16, 3000.0),
            of(16, 16, 2300.0),
            of(4, 32, 3500.0),
            of(16, 32, 2500.0),
        ]));
        let row = |buffer: u64, shown: &str| (buffer * mib, 16 * kib, shown.to_owned());
        assert_eq!(
            speeds.equal_buffers(),
            [row(8, "8 MiB"), row(16, "32 MiB or more"), row(32, "32 MiB or more")]
        );
    }
}
