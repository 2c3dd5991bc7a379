//! Bytes of tables for each page of 4 KiB: the volume's table, measured, beside those of a conventional stack, computed.
//!
//! The volume stands in a sparse file, 2 TiB as long as nobody asks for another size, and has one file of the same size. Of that file runs of
//! leaves and leaves at random are written, so that all 512 words of each are in use.

mod conventional;
mod sparse;
mod spread;

use std::path::Path;
use std::sync::Arc;

use aquifer_base::units::parse_size;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, Volume};
use clap::Args;
use serde::Serialize;

use super::file::failed;
use super::source::check_room;
use crate::child::Parent;
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::study::{Fields, Session, Study, Table, key, median};
use conventional::{PAGE_TABLE_BYTES, stacks};
use sparse::SparseFile;
use spread::Spread;

const EXAMPLES: &str = "\
Examples:
  aquifer-bench volume metadata --out results.jsonl
      512 leaves in a row and 512 at random in a file of 2 TiB; half a minute, 3 GiB of disk and of RAM
  aquifer-bench volume metadata --data 64G --leaves 8 --volume-ram 64M

The file system of --dir must allow a sparse file of --data. Nothing depends on time.";

/// Pages that a leaf translates.
const LEAF_PAGES: u64 = 512;
const PAGE_BYTES: u64 = 4096;
const LEAF_BYTES: u64 = LEAF_PAGES * PAGE_BYTES;
/// The largest segments that a volume can have.
const SEGMENT_PAGES: u32 = (64 << 20) / PAGE_BYTES as u32;
/// Room for everything that is in the leaves' way.
const ROOM_BYTES: u64 = 1 << 30;

const TABLE: Table = Table {
    title: "Bytes of tables for each page of 4 KiB",
    keys: &[key("file", "data_bytes").size(), key("full leaves", "leaves"), key("which stand", "spread")],
    peers: &["volume"],
    columns: &[
        median("on flash", "flash_each").digits(3).less(),
        median("in RAM", "ram_each").digits(3).less(),
        median("page table, if mapped", "page_table_each").digits(3),
        median("extents", "extents_each").digits(3),
        median("FTL", "ftl_each").digits(3),
        median("sum of what is in RAM, or could be", "sum_each").digits(3),
    ],
    note: "Rows of the volume are measured: nodes on flash, and nodes in RAM with what finds them, for the pages that they translate. A page that a \
        program has mapped has an entry of 8 bytes in the processor's page table with everybody: the table of the volume does not replace it; its upper \
        levels are not counted, those of the volume are. Each page in the log also has its name and checksum there, 16 bytes that are read to recover \
        and to clean. The other rows are computed: extents of 12 bytes, 340 in a block of 4 KiB, of at most 128 MiB (ext4); a map of 4 or 8 bytes a page \
        in the device, on top of which a volume on an ordinary disk has one too.",
};

/// Options of `volume metadata`.
#[derive(Clone, Debug, Args)]
pub struct MetadataOptions {
    /// Leaves in a row, and leaves at random
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=4096))]
    leaves: u64,
    /// RAM of the volume, enough for all nodes while pages are written
    #[arg(long, value_parser = parse_size, default_value = "3G")]
    volume_ram: u64,
}

#[derive(Clone, Serialize)]
struct Point {
    data_bytes: u64,
    leaves: u64,
    spread: Spread,
}

/// The study.
pub struct Metadata;

impl Study for Metadata {
    const NAME: &str = "volume metadata";
    const ABOUT: &str =
        "Bytes of tables for each page, beside page tables, extents and a flash translation layer";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[("data", "2T")];
    const UNUSED: &[&str] = &["ram", "runs", "seconds", "warmup", "payload"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = MetadataOptions;
    type Task = ();

    fn run(session: &mut Session, options: &MetadataOptions, data_bytes: u64) -> Result<()> {
        let leaves = options.leaves;
        if data_bytes / LEAF_BYTES < 8 * leaves || data_bytes > aquifer_volume::SIZE_BYTES_MAX / 2 {
            return Err(Error::Input("--data is too small for --leaves, or more than 8 TiB".to_owned()));
        }
        check_room(&session.common.dir, ROOM_BYTES + 2 * leaves * LEAF_BYTES)?;
        for spread in [Spread::Together, Spread::Apart] {
            let path = session.common.dir.join("aquifer-bench-volume.sparse");
            session.progress.doing(format!("leaves {spread}"));
            let figures = measure(&path, data_bytes, options, spread);
            session.keep("volume", &Point { data_bytes, leaves, spread }, 1, figures)?;
        }
        for stack in stacks() {
            session.keep(&stack.name, &Fields::default(), 1, Ok(stack.figures()))?;
        }
        Ok(())
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        unreachable!("it has no children")
    }
}

fn measure(path: &Path, data_bytes: u64, options: &MetadataOptions, spread: Spread) -> Result<Fields> {
    let device = Arc::new(SparseFile::create(path, data_bytes)?);
    let open_options = OpenOptions { ram_bytes: options.volume_ram, is_read_only: false };
    let medium = || DeviceMedium::new(Arc::clone(&device), SEGMENT_PAGES).map(Box::new);
    let make = || {
        Volume::create(medium()?, (0, 0))?;
        let volume = Volume::open(medium()?, open_options)?;
        let ino = volume.make(Ino::ROOT_FOLDER, b"data", Kind::File, 0o600, 0, 0)?;
        volume.truncate(ino, data_bytes)?;
        Ok((volume, ino))
    };
    let (volume, ino) = make().map_err(failed("making a volume in", path))?;
    let leaves = spread.leaves(data_bytes / LEAF_BYTES, options.leaves);
    let mut bytes = vec![0; LEAF_BYTES as usize];
    let mut rng = Rng::new(options.leaves);
    for leaf in &leaves {
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.next().to_ne_bytes());
        volume.write(ino, leaf * LEAF_BYTES, &bytes).map_err(failed("writing", path))?;
    }
    let used = volume.table_use(ino).map_err(failed("counting in", path))?;
    let findings =
        volume.check(aquifer_volume::Depth::Metadata, |_, _| ()).map_err(failed("checking", path))?;
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
    let each = |bytes: u64| bytes as f64 / used.pages.max(1) as f64;
    Ok(Fields::default()
        .with("flash_each", each(used.node_bytes))
        .with("ram_each", each(used.node_bytes_in_ram))
        .with("page_table_each", PAGE_TABLE_BYTES)
        .with("sum_each", each(used.node_bytes_in_ram) + PAGE_TABLE_BYTES)
        .with("pages", used.pages)
        .with("nodes", used.nodes)
        .with("nodes_in_ram", used.nodes_in_ram)
        .with("nodes_of_volume", findings.nodes)
        .with("pages_of_volume", findings.pages)
        .with("volume_ram_bytes", options.volume_ram))
}
