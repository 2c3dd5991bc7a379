//! The `aquifer-research` command: studies that settled a decision, each a [`Study`](aquifer_bench::study::Study).

mod address_map;
mod hit_ratio;
mod layered;
mod page_size;
mod rumble;

use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_bench::runner::CHILD_COMMAND;
use aquifer_bench::study::{self, Entry, Record};
use aquifer_bench::{Result, child, cleanup};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The studies.
const STUDIES: &[Entry] = &[
    Entry::of::<rumble::Rumble>(),
    Entry::of::<layered::Layered>(),
    Entry::of::<address_map::AddressMap>(),
    Entry::of::<hit_ratio::HitRatio>(),
    Entry::of::<page_size::PageSize>(),
];

const EXAMPLES: &str = "\
Examples:
  aquifer-research hit-ratio --out results.jsonl
  aquifer-research page-size --out results.jsonl
  aquifer-research table results.jsonl > results.md
  aquifer-research plot results.jsonl --out-dir docs/plots";

/// Studies that settled a decision: research/README.md says which.
#[derive(Parser)]
#[command(name = "aquifer-research", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print result files as markdown tables of medians and ratios
    Table {
        /// Result files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Draw result files as SVG: lines over the buffer for `page-size`, else bars
    Plot {
        /// Result files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Directory for the SVG files
        #[arg(long, default_value = "docs/plots")]
        out_dir: PathBuf,
    },
    /// One peer, told on standard input what to do
    #[command(hide = true, name = CHILD_COMMAND)]
    Child,
}

fn main() -> ExitCode {
    let matches = study::with_commands(STUDIES, Cli::command()).get_matches();
    if matches.subcommand_name() == Some(CHILD_COMMAND) {
        child::main(STUDIES);
        return ExitCode::SUCCESS;
    }
    cleanup::install();
    let result = study::run_asked(STUDIES, &matches)
        .unwrap_or_else(|| run(Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aquifer-research: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Table { files } => print!("{}", study::render_all(STUDIES, &read(&files)?)),
        Command::Plot { files, out_dir } => {
            let records = read(&files)?;
            let mut drawn = page_size::draw(&records, &out_dir)?;
            if drawn.is_empty() {
                drawn = study::plot(STUDIES, &records, &out_dir)?;
            }
            drawn.iter().for_each(|path| println!("{}", path.display()));
        }
        Command::Child => {}
    }
    Ok(())
}

/// The records of all `files`.
fn read(files: &[PathBuf]) -> Result<Vec<Record>> {
    Ok(files.iter().map(|file| study::read(file)).collect::<Result<Vec<_>>>()?.concat())
}
