//! Memory of other machines beside the bare transport: reads of 4 KiB, one after the other, and 128 KiB written with many under way.
//!
//! Two child processes serve, with the same thread behind each port: one knows nothing but libfabric, the other is a donor. All are measured in each run, in turns; the child that is not measured is stopped.
//!
//! | file | noun |
//! |---|---|
//! | `peers` | who is measured |
//! | `served` | the children that serve them |
//! | `sample` | lines of results |

mod peers;
pub mod sample;
mod served;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::{Error, Result};
use crate::machine::Context;
use crate::progress::Progress;
use crate::sample::{Output, Record};
use crate::table;
use peers::{Peer, Peers};
use sample::{Remote, Waiting};
pub use served::Kind;

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

/// Options of `remote`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RemoteOptions {
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Append one JSON line per run and peer to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Serves the peers and says where: given by this command to itself
    #[arg(long, hide = true, requires = "kind")]
    pub serve: Option<Waiting>,
    /// What it serves
    #[arg(long, hide = true)]
    pub kind: Option<Kind>,
}

/// Measures everybody, and prints the table.
///
/// # Errors
/// [`Error::Unavailable`] without libfabric, [`Error::Io`], [`Error::WrongData`].
pub fn run(options: &RemoteOptions) -> Result<()> {
    if let (Some(waiting), Some(kind)) = (options.serve, options.kind) {
        return served::serve(kind, waiting);
    }
    let context = Context::with_files_on("loopback");
    let mut output = Output::open(options.out.as_deref())?;
    let progress = Progress::new(2 * u64::from(options.runs) * 3);
    let mut records = Vec::new();
    for waiting in [Waiting::Spinning, Waiting::Blocking] {
        let peers = Peers::connect(waiting)?;
        for run in 1..=options.runs {
            let mut order = peers.all();
            let first = run as usize % order.len();
            order.rotate_left(first);
            for peer in order {
                progress.doing(format!("{}, {waiting}, run {run}", peer.name()));
                peers.prepare(peer);
                let sample = Remote {
                    peer: peer.name().to_owned(),
                    waiting,
                    run,
                    read_us: read_us(peer, options.seconds)?,
                    fill_mib_s: fill_mib_s(peer, options.seconds)?,
                    context: context.clone(),
                };
                let record = Record::Remote(Box::new(sample));
                output.write(&record)?;
                records.push(record);
                progress.step();
            }
        }
    }
    progress.note(&table::render(&records));
    Ok(())
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
