//! What to run, on what, how often and how long.

use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use clap::Args;

use super::peer::Peer;
use super::program::Program;
use super::task::{Extent, TaskOptions};
use crate::error::{Error, Result};

/// The block doubles when it grows.
const TPCC_BYTES_MAX: u64 = 512 << 20;
const EXAMPLES: &str = "\
Examples:
  aquifer-bench far --out results.jsonl
      All programs and peers, 256 MiB of data, 100, 75 and 50 % local, medians of 5; hours
  aquifer-bench far --program etc,pagerank --peer swap,donors --share 50 --runs 3
  aquifer-bench far --data 64M --seconds 1 --warmup 0.5 --runs 1
      A first look in some minutes
  aquifer-bench far --peer swap,donors,shared --share 50 --disk-iops 3000
      The same disk as if it were an ordinary volume of a cloud
  aquifer-bench table results.jsonl

Every program is run with all of its memory local first, which says how much that is, how many rounds of
pagerank fit in --seconds, and what comes of them; then in a control group of a share of it, the peers in turns.
donors and block-swap borrow over TCP on loopback; shared and block-shared map the memory of the same donors, as
with a network that wakes nobody.
Everything needs root for control groups; swap, zswap, block-swap and block-shared for their areas, the last two
also FUSE and loop devices. All four of donors need cargo build --release -p aquifer-cli -p aquifer-preload, etc
and sys the package memcached, redis the package redis-server. --disk-iops needs the kernel's blkio controller (io
in cgroups of version 2); block-swap and block-shared are left out with it, because their server is outside of the
group that it limits. In version 1 the kernel writes to swap outside of it as well, so that reads alone are limited
for swap and zswap. What cannot run is skipped with the reason; a wrong result ends the comparison.";

/// Options of `far`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FarOptions {
    /// Programs to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "etc,sys,tpcc,pagerank,shuffle")]
    pub program: Vec<Program>,
    /// What lies below their RAM; local runs are always made
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "local,swap,zswap,donors,shared,block-swap,block-shared,redis"
    )]
    pub peer: Vec<Peer>,
    /// Percentages of the program's memory that are local
    #[arg(long, value_delimiter = ',', default_value = "100,75,50", value_parser = clap::value_parser!(u64).range(5..=100))]
    pub share: Vec<u64>,
    /// Bytes of all data of a program, about
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub data: u64,
    /// Measured seconds of a run with everything local; with less RAM, pagerank does the same rounds and shuffle a whole one, however long it takes
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Seconds before, of memcached and SQLite
    #[arg(long, default_value_t = 2.0)]
    pub warmup: f64,
    /// Runs of each program on each peer with each share
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Clients of memcached, each a thread with a connection
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub clients: u16,
    /// RAM of every group beside the local share: code, and kernel memory that the group is charged for
    #[arg(long, value_parser = parse_size, default_value = "12M")]
    pub reserve: u64,
    /// Reads a second, and writes a second, that a program's group may do on the disk of --dir [default: no limit]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..u64::from(u32::MAX)))]
    pub disk_iops: Option<u64>,
    /// Seconds after which a task counts as hanging
    #[arg(long, default_value_t = 300.0)]
    pub limit: f64,
    /// Directory for swap and flash files, sockets and the graph, on a disk
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line per sample to this file [default: standard output]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Of this program as one of the programs that run
    #[command(flatten)]
    pub task: TaskOptions,
}

impl FarOptions {
    /// # Errors
    /// [`Error::Input`] with what makes no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Input(what.to_owned()));
        if !(0.05..=3600.0).contains(&self.seconds) || !(0.0..=3600.0).contains(&self.warmup) {
            return wrong("--seconds is from 0.05 to an hour, --warmup at most an hour");
        }
        if !(1.0..=86_400.0).contains(&self.limit) {
            return wrong("--limit is from 1 to a day");
        }
        if self.data < 1 << 20 || self.data > 1 << 40 {
            return wrong("--data is from 1 MiB to 1 TiB");
        }
        let has_tpcc =
            self.program.contains(&Program::Tpcc) && self.task.task.is_none_or(|task| task == Program::Tpcc);
        if has_tpcc && self.data > TPCC_BYTES_MAX {
            return wrong("SQLite has at most 1 GiB in one block: tpcc takes --data of at most 512M");
        }
        Ok(())
    }

    /// How much, how long.
    pub fn extent(&self) -> Extent {
        Extent {
            data_bytes: self.data,
            warmup: Duration::from_secs_f64(self.warmup),
            length: Duration::from_secs_f64(self.seconds),
        }
    }

    /// The limit for the disk of a run on `peer`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for those whose reads and writes are done outside of the group.
    pub fn disk_iops_of(&self, peer: Peer) -> Result<Option<u64>> {
        match self.disk_iops {
            Some(_) if peer.is_block() => {
                let what = "its server is outside of the group whose disk --disk-iops limits";
                Err(Error::Unavailable(what.to_owned()))
            }
            // Everything is in RAM, and there is no group.
            _ if peer == Peer::Local => Ok(None),
            disk_iops => Ok(disk_iops),
        }
    }

    /// Peers with something below RAM.
    pub fn far_peers(&self, program: Program) -> impl Iterator<Item = Peer> + '_ {
        self.peer.iter().copied().filter(move |peer| *peer != Peer::Local && peer.serves(program))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: FarOptions,
    }

    pub fn options(line: &str) -> FarOptions {
        let words = std::iter::once("far").chain(line.split_whitespace());
        Line::parse_from(words).options
    }

    #[test]
    fn the_defaults_are_everything() {
        let options = options("");
        options.check().expect("sensible");
        assert_eq!((options.program.len(), options.peer.len(), options.share.len()), (5, 8, 3));
        assert_eq!((options.data, options.runs, options.task.task), (256 << 20, 5, None));
        assert_eq!(options.far_peers(Program::Etc).count(), 7);
        assert_eq!(options.far_peers(Program::Shuffle).count(), 6);
    }

    #[test]
    fn lists_and_tasks_are_understood() {
        let options =
            options("--program etc,tpcc --peer block-swap --share 60 --task tpcc --seed 9 --rounds 2");
        assert_eq!(options.program, [Program::Etc, Program::Tpcc]);
        assert_eq!((options.peer, options.share), (vec![Peer::BlockSwap], vec![60]));
        assert_eq!(
            (options.task.task, options.task.seed, options.task.rounds),
            (Some(Program::Tpcc), 9, Some(2))
        );
    }

    #[test]
    fn the_disk_is_limited_for_all_that_can_be() {
        let without = options("");
        let with = options("--disk-iops 3000");
        with.check().expect("sensible");
        for peer in [Peer::Swap, Peer::Zswap, Peer::Donors, Peer::Shared, Peer::Redis] {
            assert_eq!(without.disk_iops_of(peer).expect("no limit"), None, "{peer}");
            assert_eq!(with.disk_iops_of(peer).expect("a limit"), Some(3000), "{peer}");
        }
        assert_eq!(with.disk_iops_of(Peer::Local).expect("no limit"), None);
        for peer in [Peer::BlockSwap, Peer::BlockShared] {
            assert_eq!(without.disk_iops_of(peer).expect("no limit"), None, "{peer}");
            assert!(matches!(with.disk_iops_of(peer), Err(Error::Unavailable(_))), "{peer}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(options("--data 2G --program shuffle").check().is_ok());
        for line in ["--data 10K", "--data 2G", "--seconds 0", "--warmup 90000", "--limit 0"] {
            assert!(options(line).check().is_err(), "{line}");
        }
        for line in [
            "--share 4",
            "--share 101",
            "--program emacs",
            "--rounds 3",
            "--runs 0",
            "--disk-iops 0",
            "--disk-iops 3k",
            "--disk-iops 5000000000",
        ] {
            let words = std::iter::once("far").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
