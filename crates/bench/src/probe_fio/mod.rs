//! The probe beside fio: the same loads on the same file in the same run, in turns.
//!
//! | file | noun |
//! |---|---|
//! | `cells` | the sample of loads |
//! | `rival` | fio, told by the probe's own job files |
//! | `sample` | lines of results |

mod cells;
mod rival;
pub mod sample;

use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use aquifer_device::FileDevice;
use aquifer_device::queue::{Queue, RealQueue};
use aquifer_probe::control::Unwatched;
use aquifer_probe::load::{self, Limits};
use aquifer_probe::random::Random;
use aquifer_probe::report::{Job, Pattern, WriteMode};
use clap::Args;

use crate::cleanup;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::progress::Progress;
use crate::sample::{Output, Record};
use crate::table;
use crate::workdir::WorkDir;
use rival::Fio;
use sample::ProbeFio;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench probe-fio --out results.jsonl    12 loads, 5 rounds each of the probe and of fio
  aquifer-bench probe-fio --size 256M --seconds 1 --runs 3
  aquifer-bench table results.jsonl";

/// Options of `probe-fio`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeFioOptions {
    /// Size of the file that both use
    #[arg(long, value_parser = parse_size, default_value = "1G")]
    pub size: u64,
    /// Rounds of each; medians count
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
    /// Seconds of each round; fio knows whole ones only
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Directory for the file, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per round to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Measures every cell with both in turns, and prints the table.
///
/// # Errors
/// [`Error::Unavailable`] without fio or io_uring, [`Error::Io`], [`Error::Child`].
pub fn run(options: &ProbeFioOptions) -> Result<()> {
    let workdir = WorkDir::acquire(&options.dir)?;
    let context = Context::here(&Device::holding(workdir.path())?);
    let path = workdir.path().join("aquifer-bench-probe.data");
    let fio = Fio::new(&path)?;
    let mut output = Output::open(options.out.as_deref())?;
    let size = options.size / (1 << 20) * (1 << 20);
    let _removed = cleanup::register({
        let path = path.clone();
        move || drop(std::fs::remove_file(path))
    });
    let device = FileDevice::create(&path, size).map_err(|error| Error::Unavailable(error.to_string()))?;
    let queue = RealQueue::new(vec![device], 4096).map_err(Error::io("making a ring for", &path))?;
    let mut ours = Ours { queue, random: Random::new(1), seconds: options.seconds };
    let cells = cells::cells(size);
    let progress = Progress::new(1 + u64::from(options.runs) * cells.len() as u64);
    progress.doing("writing the file once");
    ours.write_once(size)?;
    progress.step();
    let mut records = Vec::new();
    for run in 1..=options.runs {
        for (number, job) in cells.iter().enumerate() {
            progress.doing(job.to_string());
            // Who comes first changes from round to round, so that what one leaves behind meets both.
            let (probe_iops, fio_iops) = if run % 2 == 1 {
                let probe_iops = ours.iops(job)?;
                std::thread::sleep(REST);
                (probe_iops, fio.iops(job, options.seconds)?)
            } else {
                std::thread::sleep(REST);
                let fio_iops = fio.iops(job, options.seconds)?;
                (ours.iops(job)?, fio_iops)
            };
            let job = job.clone();
            let sample = ProbeFio {
                run,
                cell: number as u32 + 1,
                job,
                probe_iops,
                fio_iops,
                context: context.clone(),
            };
            let record = Record::ProbeFio(Box::new(sample));
            output.write(&record)?;
            records.push(record);
            progress.step();
        }
    }
    progress.note(&table::render(&records));
    Ok(())
}

/// Before each turn: a disk that lends speed to who has been idle must lend it to both.
const REST: Duration = Duration::from_secs(1);

/// The probe's own way to measure.
struct Ours {
    queue: RealQueue,
    random: Random,
    seconds: u32,
}

impl Ours {
    fn round(&mut self, job: &Job, limits: Limits) -> Result<f64> {
        let jobs = std::slice::from_ref(job);
        let rounds = load::run(&mut self.queue, jobs, limits, &mut self.random, &Unwatched, &mut 0)
            .map_err(|stop| Error::Unavailable(format!("the probe could not measure {job}: {stop}")))?;
        Ok(rounds[0].iops())
    }

    fn iops(&mut self, job: &Job) -> Result<f64> {
        std::thread::sleep(REST);
        let duration_ns = u64::from(self.seconds) * 1_000_000_000;
        self.round(job, Limits { duration_ns, ios: u64::MAX, written_bytes: u64::MAX })
    }

    /// What was never written reads as zeros without a look at the disk.
    fn write_once(&mut self, size: u64) -> Result<()> {
        let block_bytes = 1 << 20;
        let job = Job {
            pattern: Pattern::Sequential,
            read_percent: 0,
            block_bytes,
            depth: 8,
            write_mode: WriteMode::Cached,
            span_bytes: size,
        };
        self.round(
            &job,
            Limits { duration_ns: u64::MAX, ios: size / u64::from(block_bytes), written_bytes: u64::MAX },
        )?;
        self.queue.flush().map_err(|error| Error::Unavailable(error.to_string()))
    }
}
