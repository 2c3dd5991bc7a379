//! Memory of other machines beside the bare transport: reads of 4 KiB, one after the other, and 128 KiB written with many under way.
//!
//! Two child processes serve, with the same thread behind each port: one knows nothing but libfabric, the other is a donor. All are measured in each run, in turns; the child that is not measured is stopped.
//!
//! | file | noun |
//! |---|---|
//! | `peers` | who is measured |
//! | `served` | the children that serve them |

mod peers;
mod served;

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::child::Parent;
use crate::error::{Error, Result};
use crate::study::{Fields, Session, Study, Table, key, median, ratio};
use peers::{Peer, Peers};
use served::Kind;

const PEERS: &[&str] = &["libfabric", "slab", "mirror"];

const EXAMPLES: &str = "\
Examples:
  aquifer-bench remote --out results.jsonl       spinning and blocking, medians of 5
  aquifer-bench remote --seconds 0.3 --runs 3
  aquifer-bench table results.jsonl";

/// Bytes of a read.
const READ_BYTES: usize = 4096;
/// Bytes of a piece of what is filled.
const PIECE_BYTES: usize = 128 << 10;
/// Bytes that are written with many pieces under way.
const FILL_BYTES: usize = 8 << 20;

const TABLE: Table = Table {
    title: "Memory of a donor beside bare libfabric",
    keys: &[key("both sides", "waiting")],
    peers: PEERS,
    columns: &[
        median("4 KiB read us", "read_us").digits(1).less(),
        ratio("by libfabric", "read_us", &["libfabric"]).less(),
        median("128 KiB writes MiB/s", "fill_mib_s").digits(0).more(),
        ratio("by libfabric", "fill_mib_s", &["libfabric"]).more(),
    ],
    note: "",
};

/// Options of `remote`: none of its own.
#[derive(Clone, Debug, Args)]
pub struct RemoteOptions {}

#[derive(Clone, Serialize)]
struct Point {
    waiting: Waiting,
}

/// The study.
pub struct Remote;

impl Study for Remote {
    const NAME: &str = "remote";
    const ABOUT: &str = "Memory of other machines, beside the bare transport";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("seconds", "1")];
    const UNUSED: &[&str] = &["ram", "data", "warmup", "dir", "payload"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = RemoteOptions;
    type Task = ();

    fn run(session: &mut Session, _: &RemoteOptions, _: u64) -> Result<()> {
        for waiting in [Waiting::Spinning, Waiting::Blocking] {
            let peers = Peers::connect(waiting)?;
            session.turns(PEERS, [Point { waiting }], |session, cell, _| {
                let seconds = session.common.seconds;
                let peer = peers.prepare(cell.peer);
                let figures = Fields::default().with("read_us", read_us(peer, seconds)?);
                Ok(figures.with("fill_mib_s", fill_mib_s(peer, seconds)?))
            })?;
        }
        Ok(())
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("its children serve")
    }
}

/// Options of the children that serve.
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    /// What is served
    kind: Kind,
    /// How both sides wait for each other
    waiting: Waiting,
}

/// Serves the peers and says where, until its input ends.
///
/// # Errors
/// No libfabric, no memory.
pub fn serve(options: &ServeOptions) -> Result<()> {
    served::serve(options.kind, options.waiting)
}

/// How both sides wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They look all the time.
    Spinning,
    /// They sleep.
    Blocking,
}

/// Microseconds of a read, one after the other.
fn read_us(peer: &dyn Peer, seconds: f64) -> Result<f64> {
    let mut bytes = aquifer_device::AlignedBuffer::new(READ_BYTES);
    let places = FILL_BYTES / READ_BYTES;
    repeat(seconds, |nth| {
        let offset = nth * 7919 % places * READ_BYTES;
        peer.read(offset, &mut bytes)?;
        if bytes[0] != peers::byte_at(offset) || bytes[READ_BYTES - 1] != bytes[0] {
            let what = format!("page at {offset} is of {}", bytes[0]);
            return Err(Error::WrongData { peer: peer.name().to_owned(), what });
        }
        Ok(())
    })
    .map(|each| each * 1e6)
}

/// MiB a second, written in pieces of 128 KiB.
fn fill_mib_s(peer: &dyn Peer, seconds: f64) -> Result<f64> {
    let mut bytes = aquifer_device::AlignedBuffer::new(FILL_BYTES);
    for (nth, page) in bytes.chunks_exact_mut(READ_BYTES).enumerate() {
        page.fill(peers::byte_at(nth * READ_BYTES));
    }
    repeat(seconds, |_| peer.fill(&bytes)).map(|each| (FILL_BYTES >> 20) as f64 / each)
}

/// Seconds of each of many, after some that do not count.
fn repeat(seconds: f64, mut each: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let warmup = Duration::from_secs_f64(seconds / 4.0);
    let (began, mut nth) = (Instant::now(), 0);
    while began.elapsed() < warmup {
        each(nth)?;
        nth += 1;
    }
    let (began, first) = (Instant::now(), nth);
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        each(nth)?;
        nth += 1;
    }
    Ok(began.elapsed().as_secs_f64() / (nth - first) as f64)
}
