//! memcached with more data than RAM: a real server under real load, beside its alternatives.
//!
//! Every server has the same RAM and, for each size of values, is started once and filled once. Clients send requests over UNIX sockets
//! and check every answer. The servers take turns, so that a disk that gets slower or faster does so for all of them.
//!
//! | file | noun |
//! |---|---|
//! | `peer`, `command` | the servers: their programs, command lines and RAM |
//! | `client`, `connection`, `load` | the clients: one, what it says, all of them |
//! | `value`, `versions` | what a right answer is |
//! | `race` | the servers in the race |

pub mod client;
pub mod command;
pub mod connection;
pub mod load;
mod peer;
mod race;
pub mod value;
pub mod versions;

use std::path::PathBuf;

use aquifer_base::units::{format_size, parse_size};
use clap::Args;
use serde::Serialize;

use crate::child::Parent;
use crate::contents::{Flip, parse_flip};
use crate::distribution::{Distribution, HOT_SPACING};
use crate::error::{Error, Result};
use crate::study::{Fields, Session, Study, Table, key, median, parse_seconds, ratio};
use crate::workdir::free_bytes;
use command::Plan;
use peer::Peer;
use race::Race;
use value::{ITEM_HEADER_BYTES, Sizes, VALUE_BYTES_MIN, Values};

/// From here on memcached makes chains of chunks.
const VALUE_BYTES_MAX: u64 = 256 << 10;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench memcached --out results.jsonl
      All peers, 64 MiB of RAM, 512 MiB of data, medians of 5; more than an hour
  aquifer-bench memcached --ram 256M --data 2G --values 1024 --gets 95 --dist scattered-hot --payload text
  aquifer-bench memcached --ram 32M --data 128M --values 1024 --seconds 2 --warmup 1 --runs 1
      A first look in a minute or two
  aquifer-bench memcached --peer aquifer,extstore --clients 8 --pipeline 16

--data counts values, keys, and memcached's own header of 56 bytes. --ram is the RAM of the whole server, of which each peer
gives its values what the rest leaves: program, hash table, write buffers. Each server is in a control group of that size, with
what zswap holds for it. swap, zswap and extstore need root for it; swap and zswap also for their swap file. The servers listen on
UNIX sockets in --dir. Every byte of every value is checked; a wrong one ends the call with status 1.

swap, zswap, aquifer and pages need examples/memcached/build.sh; extstore needs the distribution's package memcached. Peers that
cannot run are left out with the reason.";

const TABLE: Table = Table {
    title: "memcached, {data_bytes:size} of items with {value_bytes}-byte values, {ram_bytes:size} of RAM",
    keys: &[
        key("accesses", "distribution"),
        key("gets %", "get_percent"),
        key("clients", "clients"),
        key("pipeline", "pipeline"),
    ],
    peers: Peer::NAMES,
    columns: &[
        median("requests/s", "requests_per_s").digits(0),
        median("hits/s", "hits_per_s").digits(0).more(),
        ratio("x swap", "hits_per_s", &["swap"]).more(),
        ratio("x zswap", "hits_per_s", &["zswap"]).more(),
        median("held %", "held_percent").digits(1),
        median("lost %", "lost_percent").digits(1),
        median("dropped", "dropped").digits(0),
        median("p50 us", "p50_ns").per(1e3).digits(1),
        median("p99 us", "p99_ns").per(1e3).digits(1).less(),
        median("CPU us", "cpu_us_each").digits(1).less(),
        median("RSS + PTE MiB", "memory_bytes").mib(),
        median("charged MiB", "charged_bytes").mib(),
        median("written MiB/s", "written_bytes_per_s").per(1048576.0).digits(1).less(),
    ],
    note: "x swap, x zswap: hits per second over theirs. held: keys for which the server has an entry. lost: gets of keys that had been \
        set, answered with nothing. dropped: values that the server dropped by itself since it was started, and sets that it refused. \
        CPU: processor time of the server per request. charged: to the control group, with page cache, kernel memory and what zswap holds.",
};

/// Options of `memcached`.
#[derive(Clone, Debug, Args)]
pub struct MemcachedOptions {
    /// Servers to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "swap,zswap,aquifer,pages,extstore")]
    peer: Vec<Peer>,
    /// Bytes of a value; each size is a comparison of its own
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "128,1024,8192")]
    values: Vec<u64>,
    /// Percentages of gets; the other requests set
    #[arg(long, value_delimiter = ',', default_value = "50,95", value_parser = clap::value_parser!(u32).range(0..=100))]
    gets: Vec<u32>,
    /// Which keys are asked for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zipf,scattered-hot")]
    dist: Vec<Distribution>,
    /// Clients, each a thread with a connection
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Requests that each client sends together before it waits for the replies
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipeline: u16,
    /// Keys that are set per second at first [default: as fast as the server takes them]. extstore
    /// drops what comes faster than it writes to flash
    #[arg(long, value_parser = parse_rate)]
    fill_rate: Option<f64>,
    /// Seconds of warm-up before each later run of the same point
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    rewarm: f64,
    /// Size of the swap file as a multiple of the data; below 3 the kernel rewrites clean pages
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    swap_factor: u64,
    /// Smallest block that is managed for the peer pages
    #[arg(long, value_parser = parse_size, default_value = "64K")]
    threshold: u64,
    /// RAM of aquifer and pages beside their budget: the library's code, connections, and kernel memory
    /// that their group is charged for, such as page tables on their way out
    #[arg(long, value_parser = parse_size, default_value = "8M")]
    reserve: u64,
    /// Where examples/memcached/build.sh has built [default: build/examples/memcached]
    #[arg(long)]
    build: Option<PathBuf>,
    /// Turn the bits of a byte of a value around once each server is filled, to see that wrong bytes end the call: OBJECT:BYTE, the object is the number of the key
    #[arg(long, value_parser = parse_flip)]
    flip_byte: Option<Flip>,
}

/// A positive number of keys per second.
fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1.0..1e9).contains(rate));
    rate.ok_or_else(|| format!("'{text}' is not a number of keys per second from 1 up"))
}

impl MemcachedOptions {
    /// What every server is told when values have `value_bytes` bytes.
    fn plan(&self, session: &Session, data_bytes: u64, value_bytes: u64) -> Plan {
        let items = data_bytes / (value_bytes + ITEM_HEADER_BYTES);
        Plan {
            dir: session.common.dir.clone(),
            ram_bytes: session.common.ram,
            items,
            value_bytes,
            data_bytes: items * (value_bytes + ITEM_HEADER_BYTES),
            threshold_bytes: self.threshold,
            reserve_bytes: self.reserve,
        }
    }

    fn loads(&self) -> impl Iterator<Item = load::Point> {
        let (clients, pipeline) = (self.clients.into(), self.pipeline.into());
        self.dist.iter().flat_map(move |&distribution| {
            self.gets.iter().map(move |&get_percent| load::Point {
                distribution,
                get_percent,
                clients,
                pipeline,
            })
        })
    }

    /// Size of the swap file for `data_bytes` of items at each peer that swaps.
    fn swap_bytes(&self, data_bytes: u64) -> u64 {
        let swapping = self.peer.iter().filter(|peer| peer.swaps()).count() as u64;
        (swapping * self.swap_factor * data_bytes).next_multiple_of(4096)
    }

    /// Refuses what makes no sense, and what the disk cannot hold.
    fn check(&self, plan: &Plan, data_bytes: u64) -> Result<()> {
        let wrong = |what: String| Err(Error::Input(what));
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&plan.value_bytes) {
            let (least, most) = (VALUE_BYTES_MIN, format_size(VALUE_BYTES_MAX));
            return wrong(format!("--values {} is not from {least} bytes to {most}", plan.value_bytes));
        }
        if !(HOT_SPACING..=u64::from(u32::MAX)).contains(&plan.items) {
            return wrong(format!("{} items are not from {HOT_SPACING} to 4 billion", plan.items));
        }
        if self.flip_byte.is_some_and(|flip| flip.object >= plan.items || flip.byte >= plan.value_bytes) {
            return wrong(format!(
                "--flip-byte: keys are below {}, bytes below {}",
                plan.items, plan.value_bytes
            ));
        }
        let others = self.peer.iter().filter(|peer| !peer.swaps()).count() as u64;
        let (needed, free) =
            (self.swap_bytes(data_bytes) + others * plan.flash_bytes(), free_bytes(&plan.dir)?);
        if needed <= free {
            return Ok(());
        }
        let [needed, free] = [needed, free].map(format_size);
        let dir = plan.dir.display();
        wrong(format!(
            "{needed} of disk are needed in {dir}, {free} are free; use smaller --data, fewer --peer, or another --dir"
        ))
    }
}

/// What all servers are given, and asked for.
#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    ram_bytes: u64,
    value_bytes: u64,
    /// Of the values.
    lz4: String,
    #[serde(flatten)]
    load: Option<load::Point>,
}

/// The study.
pub struct Memcached;

impl Study for Memcached {
    const NAME: &str = "memcached";
    const ABOUT: &str =
        "memcached with more data than RAM, under load: requests, hits, latency, memory, lost values";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] =
        &[("ram", "64M"), ("data", "512M"), ("seconds", "10"), ("warmup", "10")];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = MemcachedOptions;
    type Task = ();

    fn run(session: &mut Session, options: &MemcachedOptions, data_bytes: u64) -> Result<()> {
        let plan = |&value_bytes| options.plan(session, data_bytes, value_bytes);
        let plans: Vec<Plan> = options.values.iter().map(plan).collect();
        plans.iter().try_for_each(|plan| options.check(plan, data_bytes))?;
        plans.into_iter().try_for_each(|plan| compare(session, options, data_bytes, plan))
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("its servers are programs of others")
    }
}

/// All points with values of one size.
fn compare(session: &mut Session, options: &MemcachedOptions, data_bytes: u64, plan: Plan) -> Result<()> {
    let (ram_bytes, value_bytes) = (plan.ram_bytes, plan.value_bytes);
    let values = Values { sizes: Sizes::Same(value_bytes as usize), payload: session.payload };
    let lz4 = format!("{:.2}", values.lz4_size());
    let given = Point { data_bytes, ram_bytes, value_bytes, lz4, load: None };
    let mut race = Race::new(options, plan, values, options.swap_bytes(data_bytes))?;
    for &peer in &options.peer {
        session.attempt(&peer.to_string(), &given, |session| race.open(session, peer))?;
    }
    let points: Vec<_> = options.loads().map(|load| Point { load: Some(load), ..given.clone() }).collect();
    session.progress.expect(u64::from(session.common.runs) * (points.len() * options.peer.len()) as u64);
    points.iter().try_for_each(|point| race.measure(session, point))?;
    race.prove(session, &given)
}
