//! What may stand behind `aquifer probe`.

use std::path::PathBuf;

use aquifer_base::units::parse_size;
use clap::{Args, Subcommand};

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  aquifer probe nand: --quick --html flash.html  emulated flash, in simulated time
  aquifer probe /mnt/nvme                        files of its own in a directory, some ten minutes
  aquifer probe /mnt/nvme --quick --html disk.html --report-json disk.json
  aquifer probe /dev/nvme1n1 --full --erase /dev/nvme1n1 --report-json disk.json
  aquifer probe nand:size=2G,op=0.28,dies=4,gc=cost-benefit --report-json flash.json
  aquifer probe /mnt/a --beside /mnt/b --beside /mnt/c   stripes over three disks
  aquifer probe compare old.json new.json        what has changed, and what is noise
  aquifer advise disk.json                       what to make of it

TARGET is a block device, a directory (the probe's files have no name and go with it), an
existing file, or nand: with parameters. What holds data is refused unless --erase names it
again; what is mounted is always refused. Ctrl-C ends a run, shows what there is, and leaves
nothing behind.

Parameters of nand: (defaults in brackets), as KEY=VALUE with commas between them:
  size bytes of flash [1G]      channels [4]            dies per channel [2]
  pages per block [128]         page bytes [4096]       op spare by user pages [0.07]
  read, program, erase microseconds [40, 200, 2000]     bus MB/s per channel [800]
  gc random, fifo, greedy, N-choices, cost-benefit [greedy]
  frontiers shared or separate [separate]               cache pages of write cache [256]
  controller microseconds per transfer [1]              limit erases of a block [none]
  seed [1]

Exit status: 0 measured, 1 ended before its end, 2 nothing could be measured.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  aquifer probe compare old.json new.json
  aquifer probe compare old.json new.json --html compared.html
  aquifer probe compare old.json new.json --json | jq '.loads[].figures[1].verdict'

Exit status: 0 compared, 2 a report could not be read.";

const RENDER_EXAMPLES: &str = "\
Examples:
  aquifer probe render disk.json --html disk.html
  aquifer probe render disk.json --markdown disk.md --csv disk.csv --fio jobs

Exit status: 0 rendered, 2 the report could not be read, or a file not be written.";

/// Arguments of `aquifer probe`.
#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct ProbeArguments {
    /// What to do with reports
    #[command(subcommand)]
    pub question: Option<ProbeQuestion>,
    /// Block device, directory, file, or nand: with parameters
    #[arg(value_name = "TARGET", required = true)]
    pub target: Option<String>,
    /// Under two minutes: few loads, short rounds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Every load, in long rounds; the run says how long before it begins
    #[arg(long)]
    pub full: bool,
    /// The part of the target that is used [default: 512M quick, 4G, all with --full]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub span: Option<u64>,
    /// A directory or device that stands beside the target in stripes; may be repeated
    #[arg(long, value_name = "PATH")]
    pub beside: Vec<PathBuf>,
    /// Allows to overwrite what holds data: the target's name, again
    #[arg(long, value_name = "PATH")]
    pub erase: Vec<PathBuf>,
    /// Says what would be written and how long it would take, and ends
    #[arg(long)]
    pub dry_run: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Writes the report as JSON: for compare, advise and other programs
    #[arg(long, value_name = "FILE")]
    pub report_json: Option<PathBuf>,
    /// The report as one line of JSON in place of the summary
    #[arg(short, long)]
    pub json: bool,
    /// What is made of the report
    #[command(flatten)]
    pub forms: FormArguments,
}

/// Forms of a report.
#[derive(Args, Debug)]
pub struct FormArguments {
    /// Writes a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Writes the tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Writes every round as a line
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Writes a job file of fio for every load into a folder, which is made
    #[arg(long, value_name = "FOLDER")]
    pub fio: Option<PathBuf>,
}

/// What can be done with reports.
#[derive(Subcommand, Debug)]
pub enum ProbeQuestion {
    /// Sets reports side by side: the first one is what the others are compared with
    #[command(before_help = "A difference counts if every round of one report is faster than every round of another.", after_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Makes pages and tables of a report again
    #[command(before_help = "Nothing is measured; the report says all that they show.", after_help = RENDER_EXAMPLES)]
    Render(RenderArguments),
}

/// Arguments of `aquifer probe compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// Reports that --report-json wrote, two or more
    #[arg(value_name = "REPORT", required = true, num_args = 2..)]
    pub reports: Vec<PathBuf>,
    /// Writes a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Writes the table as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// One line of JSON in place of the table
    #[arg(short, long)]
    pub json: bool,
}

/// Arguments of `aquifer probe render`.
#[derive(Args, Debug)]
pub struct RenderArguments {
    /// A report that --report-json wrote
    #[arg(value_name = "REPORT")]
    pub report: PathBuf,
    /// What is made of the report
    #[command(flatten)]
    pub forms: FormArguments,
}
