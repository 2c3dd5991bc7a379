//! Bytes of tables for each page of 4 KiB: the volume's table, measured, beside those of a conventional stack, computed.
//!
//! The volume stands in a sparse file, 2 TiB as long as nobody asks for another size, and has one file of the same size. Of that file runs of
//! leaves and leaves at random are written, so that all 512 words of each are in use.

mod conventional;
pub mod sample;
mod sparse;

use std::sync::Arc;

use aquifer_base::units::parse_size;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, Volume};
use clap::Args;

use super::file::failed;
use super::options::CommonOptions;
use super::source::check_room;
use super::study::Study;
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::sample::Record;
pub use conventional::{LOG_TAG_BYTES, PAGE_TABLE_BYTES, stacks};
use sample::{Metadata, Spread};
use sparse::SparseFile;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume metadata --out results.jsonl
      512 leaves in a row and 512 at random in a file of 2 TiB; half a minute, 3 GiB of disk and of RAM
  aquifer-bench volume metadata --size 64G --leaves 8 --volume-ram 64M

The file system of --dir must allow a sparse file of --size. --ram, --reserve, --fill and --runs do not matter here: nothing depends on time.";

/// Pages that a leaf translates.
const LEAF_PAGES: u64 = 512;
const PAGE_BYTES: u64 = 4096;
const LEAF_BYTES: u64 = LEAF_PAGES * PAGE_BYTES;
/// The largest segments that a volume can have.
const SEGMENT_PAGES: u32 = (64 << 20) / PAGE_BYTES as u32;
/// Room for everything that is in the leaves' way.
const ROOM_BYTES: u64 = 1 << 30;

/// Options of `volume metadata`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MetadataOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Size of the volume and of the file in it
    #[arg(long, value_parser = parse_size, default_value = "2T")]
    size: u64,
    /// Leaves in a row, and leaves at random
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=4096))]
    leaves: u64,
    /// RAM of the volume; so much that no node leaves it while pages are written
    #[arg(long, value_parser = parse_size, default_value = "3G")]
    volume_ram: u64,
}

/// Measures and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Io`]; [`Error::Unavailable`] where the file system refuses; [`Error::WrongData`] if the volume's books are wrong.
pub fn run(options: &MetadataOptions) -> Result<()> {
    if options.size / LEAF_BYTES < 8 * options.leaves || options.size > aquifer_volume::SIZE_BYTES_MAX / 2 {
        return Err(Error::Input("--size is too small for --leaves, or more than 8 TiB".to_owned()));
    }
    let mut study = Study::open_unlimited(&options.common, 2)?;
    check_room(&options.common.dir, ROOM_BYTES + 2 * options.leaves * LEAF_BYTES)?;
    for spread in [Spread::Together, Spread::Apart] {
        study.progress.doing(format!("leaves {spread}"));
        let sample = measure(options, spread, &study)?;
        study.keep(Record::VolumeMetadata(Box::new(sample)))?;
        study.progress.step();
    }
    study.finish()
}

fn measure(options: &MetadataOptions, spread: Spread, study: &Study) -> Result<Metadata> {
    let path = options.common.dir.join("aquifer-bench-volume.sparse");
    let device = Arc::new(SparseFile::create(&path, options.size)?);
    let open_options = OpenOptions { ram_bytes: options.volume_ram, is_read_only: false };
    let medium = || DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).map(Box::new);
    let make = || {
        Volume::create(medium()?, (0, 0))?;
        let volume = Volume::open(medium()?, open_options)?;
        let ino = volume.make(Ino::ROOT_FOLDER, b"data", Kind::File, 0o600, 0, 0)?;
        volume.truncate(ino, options.size)?;
        Ok((volume, ino))
    };
    let (volume, ino) = make().map_err(failed("making a volume in", &path))?;
    let leaves = spread.leaves(options.size / LEAF_BYTES, options.leaves);
    let mut bytes = vec![0; LEAF_BYTES as usize];
    let mut rng = Rng::new(options.leaves);
    for (done, leaf) in leaves.iter().enumerate() {
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.next().to_ne_bytes());
        volume.write(ino, leaf * LEAF_BYTES, &bytes).map_err(failed("writing", &path))?;
        study.progress.doing(format!("leaves {spread}: {done} of {}", leaves.len()));
    }
    let used = volume.table_use(ino).map_err(failed("counting in", &path))?;
    let findings =
        volume.check(aquifer_volume::Depth::Metadata, |_, _| ()).map_err(failed("checking", &path))?;
    let wrong = |what: String| Err(Error::WrongData { peer: "volume".to_owned(), what });
    if let Some(problem) = findings.problems.first() {
        return wrong(problem.clone());
    }
    let written = leaves.len() as u64 * LEAF_PAGES;
    if used.pages != written || used.pages_in_ram != written {
        return wrong(format!(
            "{written} pages were written, there are {used:?}; is --volume-ram too small?"
        ));
    }
    Ok(Metadata {
        spread,
        leaves: options.leaves,
        size_bytes: options.size,
        volume_ram_bytes: options.volume_ram,
        pages: used.pages,
        nodes: used.nodes,
        node_bytes: used.node_bytes,
        nodes_in_ram: used.nodes_in_ram,
        node_bytes_in_ram: used.node_bytes_in_ram,
        nodes_of_volume: findings.nodes,
        pages_of_volume: findings.pages,
        context: study.context.clone(),
    })
}
