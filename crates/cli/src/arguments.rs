//! What may stand on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  AQUIFER_SOCKET=/tmp/program.sock ./program &   a program that can be looked into
  aquifer stats --socket /tmp/program.sock       what its heap uses and has done
  aquifer check --socket /tmp/program.sock       whether its heap is in order

Exit status: 0 fine, 1 a check found something, 2 nothing could be asked.";

const STATS_EXAMPLES: &str = "\
Examples:
  aquifer stats --pid 4711                       the heap of process 4711
  aquifer stats --socket /tmp/program.sock       the heap behind a socket
  aquifer stats --pid 4711 --watch 2             again every two seconds, with rates
  aquifer stats --pid 4711 --json | jq .stats    one line of JSON for other programs

A program offers a socket when AQUIFER_SOCKET=/path is in its environment, or when
it sets options.socket_path (C) or Options::socket (Rust).";

const CHECK_EXAMPLES: &str = "\
Examples:
  aquifer check --pid 4711                       the heap of process 4711
  aquifer check --socket /tmp/program.sock && echo in order

The check compares entries, slots, pages and log. Run it while the program leaves
its heap alone: what changes meanwhile can look like a disagreement.

Exit status: 0 in order, 1 a disagreement, 2 nothing could be asked.";

/// Looks into running programs that keep objects in an Aquifer heap.
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
    /// Has a heap prove that its parts agree
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
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
    /// One line of JSON in place of the table
    #[arg(long)]
    pub json: bool,
    /// Repeats every so many seconds until the program ends
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,
    /// How long to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
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
}
