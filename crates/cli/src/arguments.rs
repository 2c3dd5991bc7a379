//! What may stand on the command line.

pub mod old;
mod run;
pub mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use values::{address, duration};

pub use run::{
    CompressArgument, CopiesArgument, FaultsArgument, MallocArgument, MemoryArguments, RunArguments,
};

const EXAMPLES: &str = "\
Examples:
  aquifer run --ram 1G -- python3 big.py         an unchanged program with more data than RAM
  AQUIFER_SOCKET=/tmp/program.sock ./program &   a program that can be looked into
  aquifer stats --socket /tmp/program.sock       what its heap uses and has done
  aquifer top --socket /tmp/program.sock         the same, as it happens
  aquifer export --socket /tmp/program.sock      the same, as a page and for Prometheus
  aquifer check --socket /tmp/program.sock       whether its heap is in order
  aquifer durable check heap.aq                  whether the file of a durable heap is
  aquifer volume cp -r src data.vol:/src         files into a volume, by the one table
  aquifer donate --lend 8G                       RAM of this machine for others
  aquifer block --flash /nvme/b --size 64G       a block device over the network, also for swap
  aquifer probe /mnt/nvme --quick --html d.html  what a disk really does
  aquifer advise report.json                     settings for a device that was measured
  aquifer doctor                                 how programs would run here, and what helps
  aquifer version                                what is built in and here, and what adds the rest

Sizes: bytes, or a number with K, M, G or T, which are powers of 1024. Times: a number with us,
ms, s, m or h; without a unit, seconds. Addresses to listen at: a port of this machine, ADDRESS:PORT
for others, or the path of a Unix socket, which holds a slash. --json prints one line of JSON.

Environment:
  AQUIFER_SOCKET   where a program offers its heap to stats, top, export and check; where these ask
                   without --pid and --socket
  AQUIFER_PRELOAD  the library that run puts in front of the C library, in place of the one beside
                   this command or in ../lib beside it
  TMPDIR           where run makes files without a name [/var/tmp]
  NO_COLOR         if it is set and not empty, top has no colours

Exit status: 0 fine, 1 a check found something, 2 nothing could be asked. run has its program's, or
125 Aquifer could not run it, 126 the system could not, 127 there is no such program.";

const STATS_EXAMPLES: &str = "\
Examples:
  aquifer stats --pid 4711                       the heap of process 4711
  aquifer stats --socket /tmp/program.sock       the heap behind a socket
  aquifer stats --pid 4711 --interval 2s         again every two seconds, with rates
  aquifer stats --pid 4711 --json | jq .stats    one line of JSON for other programs
  aquifer stats --pid 4711 --events --interval 1s   what becomes of slabs in the RAM of donors

A program offers a socket when AQUIFER_SOCKET=/path is in its environment, or when
it sets options.socket_path (C), Options::socket (Rust) or socket= (Python). A volume
has one by aquifer volume mount --socket or serve --socket.";

const TOP_EXAMPLES: &str = "\
Examples:
  aquifer top --pid 4711                         the heap of process 4711 at work
  aquifer top --socket /tmp/program.sock --interval 200ms
  aquifer top --socket /run/files.sock           a volume: aquifer volume mount ... --socket /run/files.sock
  aquifer top --pid 4711 --once                  one snapshot as plain text
  aquifer top --pid 4711 | tee snapshot.txt      the same: nobody can watch a pipe

Keys: q, Esc or Ctrl-C quits, p pauses, + and - change the interval, h explains the keys.
NO_COLOR=1 in the environment switches colours off.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  aquifer export --pid 4711                      http://127.0.0.1:9464/ is a page, /metrics for Prometheus
  aquifer export --socket /tmp/program.sock --listen 127.0.0.1:9500
  aquifer export --pid 4711 --once > /var/lib/node_exporter/aquifer.prom

Every request asks the heap. When nobody answers there, aquifer_up is 0 and the other
metrics are missing; they are back when a program offers the socket again. There is no
password: keep to an address that only friends reach. Ctrl-C ends it.";

const CHECK_EXAMPLES: &str = "\
Examples:
  aquifer check --pid 4711                       the heap of process 4711
  aquifer check --socket /tmp/program.sock && echo in order
  aquifer check --pid 4711 --json | jq .problem

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

const DURABLE_CHECK_EXAMPLES: &str = "\
Examples:
  aquifer durable check heap.aq && echo fine
  aquifer durable check heap.aq --json | jq .problem

Exit status: 0 fine, 1 the file is damaged, 2 it could not be looked at.";

const DURABLE_STATS_EXAMPLES: &str = "\
Examples:
  aquifer durable stats heap.aq
  aquifer durable stats heap.aq --json | jq .objects

Exit status: 0 shown, 1 the file is damaged, 2 it could not be looked at.";

const DUMP_EXAMPLES: &str = "\
Examples:
  aquifer durable dump heap.aq | less

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
#[command(
    name = "aquifer",
    version,
    before_help = "Memory that reaches below RAM: pages, a cache of objects, RAM of other machines, flash.",
    after_help = EXAMPLES
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the command can do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Shows what a heap or a volume uses and has done
    #[command(before_help = "Tells RAM and flash in use, hits, faults, bytes written and times of a running program.", after_help = STATS_EXAMPLES)]
    Stats(StatsArguments),
    /// Shows a heap or a volume at work, as it happens
    #[command(before_help = "Draws tiers, rates and latencies of a running program on the terminal, once a second.", after_help = TOP_EXAMPLES)]
    Top(TopArguments),
    /// Offers the numbers of a heap or a volume to Prometheus, and to people as a live page
    #[command(before_help = "Answers each HTTP request with the numbers of that moment, until Ctrl-C.", after_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Runs an unchanged program with more data than RAM
    #[command(before_help = "Puts a library in front of the C library, so that memory beyond --ram goes to flash.", after_help = run::EXAMPLES)]
    Run(RunArguments),
    /// Says how a program would run here, and what would be better
    #[command(before_help = "Looks at kernel, limits, flash and memory cgroup, and names the command that mends each.", after_help = crate::doctor::EXAMPLES)]
    Doctor(crate::doctor::DoctorArguments),
    /// Measures what a flash device really does
    #[command(before_help = "Writes and reads it until it is steady, and says where its rates and latencies come from.", after_help = crate::probe::arguments::EXAMPLES)]
    Probe(crate::probe::arguments::ProbeArguments),
    /// Turns a report of a device into settings for the heap and a machine around it
    #[command(before_help = "Settings for `aquifer run --device-profile`, prices, and whether borrowing RAM pays.", after_help = crate::advise::arguments::EXAMPLES)]
    Advise(crate::advise::arguments::AdviseArguments),
    /// Has a heap prove that its parts agree
    #[command(before_help = "Compares entries, slots, pages and the log of a running program.", after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Looks into the file of a durable heap
    #[command(before_help = "Verifies the file, shows what is in it, and copies what is left of a damaged one.", after_help = DURABLE_EXAMPLES)]
    Durable(DurableArguments),
    /// Lends RAM of this machine to others
    #[command(before_help = "Gives other machines what programs here leave unused, and takes it back when they need it.", after_help = crate::remote::donate::EXAMPLES)]
    Donate(crate::remote::donate::DonateArguments),
    /// Shows who lends how much
    #[command(before_help = "Asks donors, and all donors that these know of, for their slabs.", after_help = crate::remote::donors::EXAMPLES)]
    Donors(crate::remote::donors::DonorsArguments),
    /// Says which hosts lend to each other
    #[command(before_help = "Makes the certificates by which donors and borrowers know each other.", after_help = crate::remote::cluster::EXAMPLES)]
    Cluster(crate::remote::cluster::ClusterArguments),
    /// Makes volumes, and works with the files in them
    #[command(before_help = "Copies, lists, mounts, serves, checks and salvages them without a program of your own.", after_help = crate::volume::arguments::EXAMPLES)]
    Volume(crate::volume::arguments::VolumeArguments),
    /// Serves a block device: over NBD, or as a file for losetup
    #[command(before_help = "File systems, databases and swap of other machines can lie on it, also in RAM of donors.", after_help = crate::block::arguments::EXAMPLES)]
    Block(crate::block::arguments::BlockArguments),
    /// Prints completions of this command line for a shell
    #[command(before_help = "Source them, or put them where the shell looks for those of other commands.", after_help = crate::manual::EXAMPLES)]
    Completions(crate::manual::CompletionsArguments),
    /// Says what this build can do here, and what would add the rest
    #[command(before_help = "Names each part that is built in or missing, and the command that adds it.", after_help = crate::version::EXAMPLES)]
    Version(crate::version::VersionArguments),
}

/// Which heap.
#[derive(Args, Clone, Debug)]
#[group(required = false, multiple = false)]
pub struct Target {
    /// The process that has the heap
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
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
    #[arg(short, long)]
    pub json: bool,
    /// The last 1024 events of donors and their slabs in place of numbers
    #[arg(long)]
    pub events: bool,
    /// Repeats after this time, until the program ends; only new events
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub interval: Option<Duration>,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
}

/// Arguments of `aquifer top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// Time between two looks
    #[arg(short, long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// One snapshot of an interval as plain text
    #[arg(long)]
    pub once: bool,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
}

/// Arguments of `aquifer export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// Where to listen
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:9464", value_parser = address, conflicts_with = "once")]
    pub listen: SocketAddr,
    /// Prints the numbers once
    #[arg(long)]
    pub once: bool,
    /// How long to wait for an answer of the heap
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
}

/// Arguments of `aquifer check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// Which heap.
    #[command(flatten)]
    pub target: Target,
    /// How long to wait for an answer; a large heap takes a while
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub timeout: Duration,
    /// One line of JSON in place of sentences
    #[arg(short, long)]
    pub json: bool,
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
    #[command(before_help = "Reads all of the file, and changes nothing.", after_help = DURABLE_CHECK_EXAMPLES)]
    Check(DurableStatsArguments),
    /// Shows chunks, blocks and their entries as they stand in the file
    #[command(before_help = "Also of a damaged file, and of one that a program has open.", after_help = DUMP_EXAMPLES)]
    Dump(DurableFile),
    /// Shows how much is in it
    #[command(before_help = "Objects, bytes, chunks, and how full these are.", after_help = DURABLE_STATS_EXAMPLES)]
    Stats(DurableStatsArguments),
    /// Copies what is left of a damaged heap into a new file
    #[command(before_help = "Whole transactions are kept, damaged ones are named; the old file stays as it is.", after_help = SALVAGE_EXAMPLES)]
    Salvage(DurableSalvageArguments),
}

/// Which file.
#[derive(Args, Debug)]
pub struct DurableFile {
    /// The heap's file
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
}

/// Arguments of `aquifer durable stats` and `check`.
#[derive(Args, Debug)]
pub struct DurableStatsArguments {
    /// Which file.
    #[command(flatten)]
    pub file: DurableFile,
    /// One line of JSON in place of the table
    #[arg(short, long)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
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
        assert!(
            parse("aquifer export --listen [::1]:0").is_ok() && parse("aquifer export --listen 0").is_ok()
        );
        assert!(parse("aquifer export --once --listen 127.0.0.1:1").is_err());
    }
}
