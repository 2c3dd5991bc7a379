//! The `aquifer-sim` command.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use aquifer_base::units::parse_size;
use aquifer_sim::kept::Keeping;
use aquifer_sim::load::Population;
use aquifer_sim::report::{Report, markdown, means};
use aquifer_sim::scenario::Activity;
use aquifer_sim::{Borrowers, Contender, Eviction, Limits, Placer, Scenario, SimError, plot, run};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

const EXAMPLES: &str = "\
Examples:
  aquifer-sim paper
      32 machines of 64 GB and 90 containers, of which 50, 30 and 20 % may have 100, 75 and 50 % of their working set in RAM
  aquifer-sim paper --containers 115 --placers two,new,paper
      More than fits well, by three placers
  aquifer-sim paper --kept 0
      Whatever comes back to RAM gives its place in slabs up
  aquifer-sim cluster --machines 1000 --out results.jsonl --plots docs/plots
  aquifer-sim cluster --machines 10000 --placers two --evict 1+0,1+4,4+12
      How many slabs a donor should ask about before it takes one back

Tables go to standard output. One seed gives one result.";

/// Clusters that lend and borrow memory, in virtual time, by the engine's own code.
#[derive(Parser)]
#[command(name = "aquifer-sim", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The experiment of the paper (Infiniswap, NSDI'17, section 7.4): 1,300 s of a cluster with and without memory of other machines
    Paper {
        /// Limits in percent of the working set, with weights
        #[arg(long, default_value = "100:50,75:30,50:20")]
        limits: Limits,
        /// Containers
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        containers: u32,
        #[command(flatten)]
        options: Options,
    },
    /// Many machines under a load like Google's, with failures
    Cluster {
        /// How many
        #[arg(long, default_value_t = 1000)]
        machines: usize,
        /// Donors that a machine has on its list
        #[arg(long, default_value_t = 64)]
        known: usize,
        /// Measured virtual hours
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        hours: u64,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args)]
struct Options {
    /// Decides everything that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs with this seed and the next ones: tables have means and ranges
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// How donors are chosen: one choice; two choices by the free share of slabs; two choices by free slabs (free); new, as two among donors
    /// that lend nothing to the borrower yet, then among the others; paper, as free among the same; a central greedy placer
    #[arg(long, value_delimiter = ',', default_value = "one,two,free,new,paper,greedy")]
    placers: Vec<Placer>,
    /// E+E': slabs taken back at once, and further ones whose activity is asked for; all placers have the first
    #[arg(long, value_delimiter = ',', default_value = "1+4")]
    evict: Vec<Eviction>,
    /// Bytes of a slab [default: 1G for paper, 256M for cluster]
    #[arg(long, value_parser = parse_size)]
    slab: Option<u64>,
    /// What has slabs of its own: machines or containers [default: machines for paper, containers for cluster]
    #[arg(long)]
    borrowers: Option<Borrowers>,
    /// What donors leave for programs of their machine [default: 8G for paper, 4G for cluster]
    #[arg(long, value_parser = parse_size)]
    headroom: Option<u64>,
    /// Bytes that a move of a slab transfers in a second [default: 7,000,000,000 for paper, 1,250,000,000 for cluster]
    #[arg(long)]
    network: Option<u64>,
    /// Seconds that a borrower has to move a slab
    #[arg(long, default_value_t = 5)]
    leave_within: u64,
    /// What borrowers answer when a donor asks how active slabs are: rates, as the engine's do, or counts of uses since the last question
    #[arg(long, default_value = "rates")]
    activity: Activity,
    /// What of a container's local bytes keeps its place in slabs, having been out: slots or clean, as measured with programs of each kind (paper
    /// alone), or a share from 0 to 1 [default: slots for paper, 0 for cluster]
    #[arg(long)]
    kept: Option<Keeping>,
    /// Runs at the same time [default: as many as there are processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Add one JSON line for each run to this file
    #[arg(long)]
    out: Option<PathBuf>,
    /// Draw pictures into this directory
    #[arg(long)]
    plots: Option<PathBuf>,
}

impl Options {
    fn change(&self, scenario: &mut Scenario) {
        scenario.slab_bytes = self.slab.unwrap_or(scenario.slab_bytes);
        scenario.borrowers = self.borrowers.unwrap_or(scenario.borrowers);
        scenario.headroom_bytes = self.headroom.unwrap_or(scenario.headroom_bytes);
        scenario.network_bytes_per_s = self.network.unwrap_or(scenario.network_bytes_per_s);
        scenario.activity = self.activity;
        scenario.leave_within = Duration::from_secs(self.leave_within);
    }
}

fn main() -> ExitCode {
    let (mut scenario, options) = match Cli::parse().command {
        Command::Paper { limits, containers, options } => {
            let mut scenario = Scenario::paper(options.seed, &limits);
            scenario.load.population = Population::Places(containers as usize);
            (scenario, options)
        }
        Command::Cluster { machines, known, hours, options } => {
            let measured = Duration::from_secs(3600 * hours);
            (Scenario { known, measured, ..Scenario::cluster(options.seed, machines) }, options)
        }
    };
    options.change(&mut scenario);
    let scenario = match options.kept {
        Some(keeping) => scenario.keeping(keeping).map_err(SimError::Scenario),
        None => Ok(scenario),
    };
    match scenario.and_then(|scenario| simulate(&scenario, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aquifer-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(scenario: &Scenario, options: &Options) -> Result<(), SimError> {
    scenario.check().map_err(SimError::Scenario)?;
    // A file that cannot be written is better known before than after minutes of work.
    let out = options.out.as_deref().map(|path| Ok((path, open(path)?))).transpose()?;
    let contenders = Contender::all(&options.placers, &options.evict);
    let seeds = (0..options.seeds).map(|nth| scenario.seed + u64::from(nth));
    let scenarios: Vec<_> = seeds.map(|seed| Scenario { seed, ..scenario.clone() }).collect();
    let jobs: Vec<_> =
        scenarios.iter().flat_map(|one| contenders.iter().map(move |who| (one, *who))).collect();
    let reports = run_all(&jobs, options.threads)?;
    print!("{}", markdown(&reports));
    if let Some((path, file)) = out {
        append(path, file, &reports)?;
    }
    if let Some(out_dir) = &options.plots {
        let drawn = plot::draw(&means(&reports), out_dir)?;
        drawn.iter().for_each(|path| eprintln!("{}", path.display()));
    }
    Ok(())
}

/// Runs all jobs, some at the same time; reports in their order.
fn run_all(jobs: &[(&Scenario, Contender)], threads: Option<usize>) -> Result<Vec<Report>, SimError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(processors).clamp(1, jobs.len());
    let progress = Mutex::new((bar(), vec![0.0; jobs.len()]));
    let waiting = Mutex::new((0..jobs.len()).collect::<std::collections::VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(nth) = locked(&waiting).pop_front() {
                    let (scenario, contender) = jobs[nth];
                    let observe = |share: f64| {
                        let (bar, shares) = &mut *locked(&progress);
                        shares[nth] = share;
                        bar.set_position((STEPS * shares.iter().sum::<f64>() / shares.len() as f64) as u64);
                        bar.set_message(contender.placer.to_string());
                    };
                    let began = Instant::now();
                    let outcome = run(scenario, contender, &observe);
                    let took_s = began.elapsed().as_secs_f64();
                    locked(&done).push((nth, outcome.map(|outcome| Report::new(scenario, took_s, outcome))));
                }
            });
        }
    });
    locked(&progress).0.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, report)| report).collect()
}

/// Steps of the bar.
const STEPS: f64 = 1000.0;

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(STEPS as u64);
    let template = "{elapsed_precise} [{bar:30}] {percent} %, {eta} left: {msg}";
    // The template is a constant: that it is right shows at the first run.
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn open(path: &Path) -> Result<File, SimError> {
    let failed = |reason| SimError::Io { doing: "opening", path: path.to_owned(), reason };
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

fn append(path: &Path, mut file: File, reports: &[Report]) -> Result<(), SimError> {
    let failed = |reason| SimError::Io { doing: "writing", path: path.to_owned(), reason };
    for report in reports {
        // Plain numbers and names: nothing that JSON does not have.
        let line = serde_json::to_string(report).expect("serialisable");
        writeln!(file, "{line}").map_err(failed)?;
    }
    Ok(())
}

/// A panic elsewhere has ended the run already.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
