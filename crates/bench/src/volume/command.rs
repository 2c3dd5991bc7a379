//! What is given on the command line.

use clap::Subcommand;

use super::kv::KvOptions;
use super::layered::{self, LayeredOptions};
use super::metadata::MetadataOptions;
use super::oltp::OltpOptions;
use super::pagerank::PagerankOptions;
use super::reads::ReadsOptions;
use super::updates::UpdatesOptions;
use super::{kv, metadata, oltp, pagerank, reads, updates};
use crate::error::Result;

/// The benchmarks of the volume.
#[derive(Clone, Debug, Subcommand)]
pub enum VolumeCommand {
    /// Random reads and scans of a mapped file, beside mmap and the disk itself
    Reads(ReadsOptions),
    /// Small random updates with a sync every so often: updates per second, and bytes written for each
    Updates(UpdatesOptions),
    /// PageRank over a graph of several times the RAM, with the rank vectors in the mapped file
    Pagerank(PagerankOptions),
    /// A key-value store in a mapped file under YCSB A to F
    Kv(KvOptions),
    /// SQLite with its database on the host's file system and on a volume: TPC-B, TATP, TPC-C
    Oltp(OltpOptions),
    /// Bytes of tables for each page, beside page tables, extents and a flash translation layer
    Metadata(MetadataOptions),
    /// One table against three: the volume beside a file system over a flash translation layer, on the same emulated flash
    Layered(LayeredOptions),
}

/// Runs one of them.
///
/// # Errors
/// [`crate::Error`] of the benchmark.
pub fn run(command: &VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::Reads(options) => reads::run(options),
        VolumeCommand::Updates(options) => updates::run(options),
        VolumeCommand::Pagerank(options) => pagerank::run(options),
        VolumeCommand::Kv(options) => kv::run(options),
        VolumeCommand::Oltp(options) => oltp::run(options),
        VolumeCommand::Metadata(options) => metadata::run(options),
        VolumeCommand::Layered(options) => layered::run(options),
    }
}
