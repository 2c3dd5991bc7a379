//! The programs that run, none of which is ours: their data, their command lines, and what of their output must be the same everywhere.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

use super::FarOptions;
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::programs::installed;
use crate::rng::Rng;
use crate::study::{Session, name_of};

/// Where `scripts/sqlite-tests.sh` builds it.
const SPEEDTEST1: &str = "build/sqlite/plain/speedtest1";
const RANKS: &str = include_str!("pagerank.py");
const FIND_IGRAPH: &str = "import sys, igraph; print(sys.executable)";
/// Bytes of a line, without its end.
const LINE_BYTES: usize = 48;
/// What GNU sort has beside a line: its end, and a structure and a half.
const SORTED_EXTRA_BYTES: u64 = 1 + 48;
/// What igraph has of an edge, its vertices included, while it computes ranks.
const EDGE_BYTES: u64 = 72;
const EDGES_PER_VERTEX: u64 = 8;
/// What speedtest1 has for each unit of its --size.
const SIZE_BYTES: u64 = 870 << 10;

/// A program that keeps its data in ordinary memory and knows nothing of what lies below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// memcached, 95 % gets and 5 % sets
    Etc,
    /// memcached, 75 % gets and 25 % sets
    Sys,
    /// Redis, asked by redis-benchmark: as many GETs as SETRANGEs
    Redis,
    /// SQLite's speedtest1 on a database in memory
    Sqlite,
    /// Ranks of a graph by igraph
    Pagerank,
    /// Lines, by GNU sort
    Sort,
}

impl Program {
    /// Whether it is memcached, whose clients are ours.
    pub fn is_cache(self) -> bool {
        matches!(self, Self::Etc | Self::Sys)
    }

    /// Whether this benchmark makes the bytes that it has.
    pub fn has_payload(self) -> bool {
        !matches!(self, Self::Sqlite | Self::Pagerank)
    }

    /// The operations that are counted for each second.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Etc | Self::Sys | Self::Redis => "requests/s",
            Self::Sqlite => "of --size/s",
            Self::Pagerank => "edges/s",
            Self::Sort => "lines/s",
        }
    }

    /// What it has under `aquifer run` beside `--ram`: small blocks, code, kernel memory.
    pub fn outside_bytes(self) -> u64 {
        match self {
            Self::Pagerank => 20 << 20,
            _ => 7 << 20,
        }
    }

    /// What of a `line` of its output must be the same everywhere; none of those that tell of time.
    pub fn compared(self, line: &[u8]) -> Option<&[u8]> {
        match self {
            // " 100 - 50000 INSERTs into table with no index....    0.041s"
            Self::Sqlite if line.starts_with(b" ") => {
                let end = line.iter().rposition(|byte| !b"0123456789. s".contains(byte))?;
                (!line.trim_ascii_start().starts_with(b"TOTAL")).then_some(&line[..=end])
            }
            Self::Pagerank if line.starts_with(b"seconds ") => None,
            _ => Some(line),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

/// A program that runs to its end, with its data.
pub struct Job {
    program: Program,
    tool: PathBuf,
    count: u64,
    file: Option<DataFile>,
}

impl Job {
    /// Finds `program`, and makes a file with its data.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is to be installed; [`Error::Io`].
    pub fn prepare(
        session: &Session,
        options: &FarOptions,
        program: Program,
        data_bytes: u64,
    ) -> Result<Self> {
        let (tool, bytes_each) = match program {
            Program::Sqlite => (speedtest1(options)?, SIZE_BYTES),
            Program::Pagerank => (python(&options.python)?, EDGE_BYTES),
            _ => (installed("sort", "coreutils")?, LINE_BYTES as u64 + SORTED_EXTRA_BYTES),
        };
        let mut job = Self { program, tool, count: (data_bytes / bytes_each).max(1), file: None };
        let payload = session.payload;
        session.progress.doing(format!("{program}: making its data"));
        job.file = match program {
            Program::Sort => {
                Some(DataFile::write(session, "lines", |file| write_lines(file, job.count, payload))?)
            }
            Program::Pagerank => {
                Some(DataFile::write(session, "edges", |file| write_edges(file, job.count))?)
            }
            _ => None,
        };
        Ok(job)
    }

    /// How much it does: lines, edges, the size of the test.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The program on its data. Threads would make the order of igraph's sums another one each time.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.tool);
        match self.program {
            Program::Sqlite => command.args(["--memdb", "--verify", "--size", &self.count.to_string()]),
            Program::Pagerank => command.env("OMP_NUM_THREADS", "1").args(["-c", RANKS]),
            _ => {
                let room = 2 * self.count * (LINE_BYTES as u64 + SORTED_EXTRA_BYTES) + (1 << 20);
                command.env("LC_ALL", "C").args(["--parallel=1", "-S", &format!("{room}b")])
            }
        };
        command.args(self.file.as_ref().map(DataFile::path));
        command
    }
}

fn speedtest1(options: &FarOptions) -> Result<PathBuf> {
    let given = options.speedtest1.clone();
    let file = given.or_else(|| installed("speedtest1", "").ok()).unwrap_or_else(|| SPEEDTEST1.into());
    let remedy = "run scripts/sqlite-tests.sh --short, which builds it from Debian's source, or say with --speedtest1 where it is";
    let lacks = |_| Error::Unavailable(format!("{} is not there; {remedy}", file.display()));
    fs::canonicalize(&file).map_err(lacks)
}

/// The interpreter itself, where `given` is a script that starts it.
fn python(given: &Path) -> Result<PathBuf> {
    let said = Command::new(given).args(["-c", FIND_IGRAPH]).output();
    match said {
        Ok(said) if said.status.success() => Ok(PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())),
        _ => {
            let remedy = "install the package python3-igraph, or the wheel igraph where --python says";
            Err(Error::Unavailable(format!("{} has no igraph; {remedy}", given.display())))
        }
    }
}

/// A file of this study; removed when dropped.
pub struct DataFile {
    path: PathBuf,
    _removed_on_drop: Guard,
}

impl DataFile {
    /// Names one in the folder of `session`, which is not made yet.
    pub fn named(session: &Session, name: &str) -> Self {
        let path = session.common.dir.join(format!("aquifer-bench-far-{}.{name}", std::process::id()));
        let owned = path.clone();
        let guard = cleanup::register(move || {
            if owned.exists()
                && let Err(error) = fs::remove_file(&owned)
            {
                eprintln!("removing {}: {error}", owned.display());
            }
        });
        Self { path, _removed_on_drop: guard }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it with what `write` writes, and waits for the disk, so that this does not disturb what is measured.
    fn write(
        session: &Session,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Self> {
        let file = Self::named(session, name);
        let written = File::create(&file.path).and_then(|created| {
            let mut buffer = BufWriter::with_capacity(1 << 20, created);
            write(&mut buffer)?;
            buffer.into_inner()?.sync_all()
        });
        written.map_err(Error::io("writing", &file.path)).map(|()| file)
    }
}

/// Lines of words of the payload: as they are if they are text, else in hexadecimal digits.
fn write_lines(file: &mut impl Write, count: u64, payload: Payload) -> io::Result<()> {
    let mut line = [0; LINE_BYTES];
    (0..count).try_for_each(|number| {
        if payload == Payload::Text {
            payload.fill(number, &mut line);
            file.write_all(&line)?;
        } else {
            (0..LINE_BYTES as u64 / 16)
                .try_for_each(|place| write!(file, "{:016x}", payload.word(number, place)))?;
        }
        file.write_all(b"\n")
    })
}

/// Edges of a graph in which few vertices have many of them, the same each time.
fn write_edges(file: &mut impl Write, count: u64) -> io::Result<()> {
    let mut rng = Rng::new(1);
    let vertices = (count / EDGES_PER_VERTEX).max(2) as f64;
    (0..count).try_for_each(|_| {
        let [from, to] = [3, 2].map(|power| (vertices * rng.unit().powi(power)) as u64);
        writeln!(file, "{from} {to}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_not_compared() {
        let compared = |program: Program, line| program.compared(line);
        let line: &[u8] = b" 100 - 50000 INSERTs into table....    0.041s";
        assert_eq!(compared(Program::Sqlite, line), Some(&line[..31]));
        assert_eq!(compared(Program::Sqlite, b"       TOTAL.......   58.719s"), None);
        let hash: &[u8] = b"Verification Hash: 1770470 19f033c0ab47";
        assert_eq!(compared(Program::Sqlite, hash), Some(hash));
        assert_eq!(compared(Program::Pagerank, b"seconds 0.5"), None);
        assert_eq!(compared(Program::Sort, b"seconds 0.5"), Some(&b"seconds 0.5"[..]));
    }

    #[test]
    fn lines_are_of_the_payload_and_of_one_length() {
        for payload in [Payload::Random, Payload::Text, Payload::Python, Payload::Graph] {
            let mut bytes = Vec::new();
            write_lines(&mut bytes, 100, payload).expect("a vector takes all");
            let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            assert!(lines.len() == 100 && lines.iter().all(|line| line.len() == LINE_BYTES + 1), "{payload}");
            assert_ne!(lines[0], lines[1], "{payload}");
        }
    }
}
