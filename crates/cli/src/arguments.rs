//! What may stand on the command line.

mod run;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

pub use run::{
    CompressArgument, CopiesArgument, FaultsArgument, MallocArgument, MemoryArguments, RunArguments,
};

const EXAMPLES: &str = "\
Examples:
  aquifer run --ram 1G -- python3 big.py         an unchanged program with more data than RAM
  AQUIFER_SOCKET=/tmp/program.sock ./program &   a program that can be looked into
  aquifer stats --socket /tmp/program.sock       what its heap uses and has done
  aquifer top --socket /tmp/program.sock         the same, as it happens
  aquifer export --socket /tmp/program.sock      the same, for Prometheus
  aquifer check --socket /tmp/program.sock       whether its heap is in order
  aquifer durable check heap.aq                  whether the file of a durable heap is
  aquifer volume cp -r src data.vol:/src         files into a volume, by the one table
  aquifer donate --lend 8G                       RAM of this machine for others
  aquifer block --flash /nvme/b --size 64G       a block device over the network, also for swap
  aquifer probe /mnt/nvme --quick --html d.html  what a disk really does
  aquifer advise report.json                     settings for a device that was measured
  aquifer doctor                                 how programs would run here, and what helps
  aquifer version                                what is built in and here, and what adds the rest

Exit status: 0 fine, 1 a check found something, 2 nothing could be asked or run.";

const STATS_EXAMPLES: &str = "\
Examples:
  aquifer stats --pid 4711                       the heap of process 4711
  aquifer stats --socket /tmp/program.sock       the heap behind a socket
  aquifer stats --pid 4711 --watch 2             again every two seconds, with rates
  aquifer stats --pid 4711 --json | jq .stats    one line of JSON for other programs
  aquifer stats --pid 4711 --events --watch 1    what becomes of slabs in the RAM of donors

A program offers a socket when AQUIFER_SOCKET=/path is in its environment, or when
it sets options.socket_path (C) or Options::socket (Rust).";

const TOP_EXAMPLES: &str = "\
Examples:
  aquifer top --pid 4711                         the heap of process 4711 at work
  aquifer top --socket /tmp/program.sock --interval 0.2
  aquifer top --pid 4711 --once                  one snapshot as plain text
  aquifer top --pid 4711 | tee snapshot.txt      the same: nobody can watch a pipe

Keys: q, Esc or Ctrl-C quits, p pauses, + and - change the interval, h explains the keys.
NO_COLOR=1 in the environment switches colours off.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  aquifer export --pid 4711                      http://127.0.0.1:9464/metrics for Prometheus
  aquifer export --socket /tmp/program.sock --listen 127.0.0.1:9500
  aquifer export --pid 4711 --once > /var/lib/node_exporter/aquifer.prom

Every request asks the heap. When nobody answers there, aquifer_up is 0 and the other
metrics are missing; they are back when a program offers the socket again. There is no
password: keep to an address that only friends reach. Ctrl-C ends it.";

const CHECK_EXAMPLES: &str = "\
Examples:
  aquifer check --pid 4711                       the heap of process 4711
  aquifer check --socket /tmp/program.sock && echo in order

The check compares entries, slots, pages and log. Run it while the program leaves
its heap alone: what changes meanwhile can look like a disagreement.

Exit status: 0 in order, 1 a disagreement, 2 nothing could be asked.";

const DURABLE_EXAMPLES: &str = "\
Examples:
  aquifer durable check heap.aq && echo fine     whether everything in the file verifies
  aquifer durable stats heap.aq                  what is in it
  aquifer durable stats heap.aq --json | jq .objects
  aquifer durable dump heap.aq | less            chunk by chunk, also of a damaged file
  aquifer durable salvage heap.aq saved.aq       what is left of a damaged file, in a new one

FILE is the file of a heap that aq_durable_open (C) or DurableHeap::open (Rust) has made. It
is read and never changed. While a program has it open, only dump works, and shows blocks
that are being written as it finds them.

Exit status: 0 fine, 1 the file is damaged, 2 it could not be looked at.";

const SALVAGE_EXAMPLES: &str = "\
Examples:
  aquifer durable salvage heap.aq saved.aq && mv saved.aq heap.aq

All transactions that verify are copied, and every object has the reference that it had.
Objects that a lost transaction has changed are as they were before it, or missing; ones
that it has freed may be there again. Each piece of damage is named on standard error, with
the versions of the transactions around it (see `aquifer durable dump`).

Exit status: 0 nothing was lost, 1 something was, 2 there is no new file.";

/// Runs programs with more data than RAM, and looks into programs that keep objects in an Aquifer heap.
#[derive(Parser, Debug)]
#[command(name = "aquifer", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the command can do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Shows what a heap uses and has done
    #[command(after_help = STATS_EXAMPLES)]
    Stats(StatsArguments),
    /// Shows a heap at work, as it happens
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArguments),
    /// Offers a heap's numbers to Prometheus
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Runs an unchanged program with more data than RAM
    #[command(after_help = run::EXAMPLES)]
    Run(RunArguments),
    /// Says how a program would run here, and what would be better
    #[command(after_help = crate::doctor::EXAMPLES)]
    Doctor(crate::doctor::DoctorArguments),
    /// Measures what a flash device really does
    #[command(after_help = crate::probe::arguments::EXAMPLES)]
    Probe(crate::probe::arguments::ProbeArguments),
    /// Turns a report of a device into settings for the heap and a machine around it
    #[command(after_help = crate::advise::arguments::EXAMPLES)]
    Advise(crate::advise::arguments::AdviseArguments),
    /// Has a heap prove that its parts agree
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Looks into the file of a durable heap
    #[command(after_help = DURABLE_EXAMPLES)]
    Durable(DurableArguments),
    /// Lends RAM of this machine to others
    #[command(after_help = crate::remote::donate::EXAMPLES)]
    Donate(crate::remote::donate::DonateArguments),
    /// Shows who lends how much
    #[command(after_help = crate::remote::donors::EXAMPLES)]
    Donors(crate::remote::donors::DonorsArguments),
    /// Says which hosts lend to each other
    #[command(after_help = crate::remote::cluster::EXAMPLES)]
    Cluster(crate::remote::cluster::ClusterArguments),
    /// Makes volumes, and works with the files in them
    #[command(after_help = crate::volume::arguments::EXAMPLES)]
    Volume(crate::volume::arguments::VolumeArguments),
    /// Serves a block device: over NBD, or as a file for losetup
    #[command(after_help = crate::block::arguments::EXAMPLES)]
    Block(crate::block::arguments::BlockArguments),
    /// Says what this build can do here, and what would add the rest
    #[command(after_help = crate::version::EXAMPLES)]
    Version(crate::version::VersionArguments),
}

/// Which heap.
#[derive(Args, Clone, Debug)]
#[group(required = false, multiple = false)]
pub struct Target {
    /// The process that has the heap
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// The heap's socket [default: $AQUIFER_SOCKET]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Arguments of `aquifer stats`.
#[derive(Args, Debug)]
pub struct StatsArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// One line of JSON in place of the table, or for each event
    #[arg(long)]
    pub json: bool,
    /// The last 1024 events of donors and their slabs in place of numbers
    #[arg(long)]
    pub events: bool,
    /// Repeats every SECONDS seconds until the program ends; only new events
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,
    /// How long to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
}

/// Arguments of `aquifer top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,
    /// One snapshot of an interval as plain text
    #[arg(long)]
    pub once: bool,
    /// How long to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
}

/// Arguments of `aquifer export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464", conflicts_with = "once")]
    pub listen: SocketAddr,
    /// Prints the numbers once
    #[arg(long)]
    pub once: bool,
    /// How long to wait for an answer of the heap
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub timeout: Duration,
}

/// Arguments of `aquifer check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// How long to wait for an answer; a large heap takes a while
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: Duration,
}

/// Arguments of `aquifer durable`.
#[derive(Args, Debug)]
pub struct DurableArguments {
    /// What to look for.
    #[command(subcommand)]
    pub question: DurableQuestion,
}

/// What `aquifer durable` can tell of a file.
#[derive(Subcommand, Debug)]
pub enum DurableQuestion {
    /// Opens the heap as a program does, and verifies every block
    #[command(after_help = DURABLE_EXAMPLES)]
    Check(DurableFile),
    /// Shows chunks, blocks and their entries as they stand in the file
    #[command(after_help = DURABLE_EXAMPLES)]
    Dump(DurableFile),
    /// Shows how much is in it
    #[command(after_help = DURABLE_EXAMPLES)]
    Stats(DurableStatsArguments),
    /// Copies what is left of a damaged heap into a new file
    #[command(after_help = SALVAGE_EXAMPLES)]
    Salvage(DurableSalvageArguments),
}

/// Which file.
#[derive(Args, Debug)]
pub struct DurableFile {
    /// The heap's file
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
}

/// Arguments of `aquifer durable stats`.
#[derive(Args, Debug)]
pub struct DurableStatsArguments {
    /// Which file.
    #[command(flatten)]
    pub file: DurableFile,
    /// One line of JSON in place of the table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `aquifer durable salvage`.
#[derive(Args, Debug)]
pub struct DurableSalvageArguments {
    /// Which file.
    #[command(flatten)]
    pub file: DurableFile,
    /// The new file, which must not exist
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
}

/// A positive number of seconds, up to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.001..=86_400.0).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{text} seconds are not between 0.001 and 86400"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_heap_at_a_time() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert!(parse("aquifer stats --pid 1 --socket /a").is_err());
        assert!(parse("aquifer stats --pid 0").is_err());
        assert!(parse("aquifer check").is_ok());
    }

    #[test]
    fn the_exporter_stays_at_home_by_default() {
        let parse =
            |line: &str| Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command);
        let Ok(Command::Export(arguments)) = parse("aquifer export --pid 1") else { panic!("it parses") };
        assert!(arguments.listen.ip().is_loopback());
        assert!(parse("aquifer export --listen localhost").is_err());
        assert!(parse("aquifer export --listen [::1]:0").is_ok());
        assert!(parse("aquifer export --once --listen 127.0.0.1:1").is_err());
    }
}
