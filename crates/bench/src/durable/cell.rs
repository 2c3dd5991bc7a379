//! A system at a point, as studies of transactions measure them.

use std::fmt;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::directory::Setup;
use super::heaps::Medium;
use crate::scale::parse_count;
use crate::study::{name_of, sorted};

/// Options of studies of transactions.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// Threads; each has objects, keys, a queue or a warehouse of its own
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Vec<u64>,
    /// Measured transactions of a run, unless --seconds end it; a quarter as many before: a number with K or M
    #[arg(long, default_value = "500K", value_parser = parse_count)]
    pub count: u64,
    /// The durable heap's file grows only while at least this percentage of it is objects; else it is cleaned
    #[arg(long, value_delimiter = ',', default_value = "85", value_parser = clap::value_parser!(u32).range(5..=95))]
    pub utilisation: Vec<u32>,
    /// Least time of a persist to emulated memory
    #[arg(long, default_value_t = 500)]
    pub latency_ns: u64,
    /// Bytes that emulated memory persists in a second: a number with M or G (powers of 1000)
    #[arg(long, default_value = "1G", value_parser = parse_count)]
    pub bandwidth: u64,
}

/// A system as it takes part in the turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variant<S> {
    /// The system.
    pub system: S,
    /// The file grows only while at least this share of it is objects; none for systems that do not clean.
    pub percent: Option<u32>,
}

impl<S: ValueEnum> fmt::Display for Variant<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(&self.system))?;
        self.percent.map_or(Ok(()), |percent| write!(f, ", {percent} %"))
    }
}

/// What all systems are given at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point<W> {
    /// What the transactions do.
    pub workload: W,
    /// What the files are on, where that is chosen.
    pub medium: Option<Medium>,
    pub threads: u64,
    /// Entries of each structure, where that is chosen.
    pub entries: Option<u64>,
    latency_ns: u64,
    bandwidth: u64,
}

impl LoadOptions {
    /// Systems that clean with each utilisation, the others once.
    pub fn variants<S: Copy>(&self, systems: Vec<S>, cleans: impl Fn(S) -> bool) -> Vec<Variant<S>> {
        let percents: Vec<_> = sorted(&self.utilisation).into_iter().map(Some).collect();
        let of = |system| {
            let percents = if cleans(system) { &percents[..] } else { &[None] };
            percents.iter().map(move |&percent| Variant { system, percent }).collect::<Vec<_>>()
        };
        systems.into_iter().flat_map(of).collect()
    }

    /// All media, workloads and threads.
    pub fn points<W: Copy>(
        &self,
        media: &[Option<Medium>],
        workloads: &[W],
        entries: Option<u64>,
    ) -> Vec<Point<W>> {
        let (latency_ns, bandwidth) = (self.latency_ns, self.bandwidth);
        let mut points = Vec::new();
        for &medium in media {
            for &workload in workloads {
                let point = |&threads| Point { workload, medium, threads, entries, latency_ns, bandwidth };
                points.extend(self.threads.iter().map(point));
            }
        }
        points
    }
}

/// What a child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task<S, P> {
    pub system: S,
    pub point: P,
    /// Number of the run, which decides all choices.
    pub run: u32,
    pub setup: Setup,
}
