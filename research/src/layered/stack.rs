//! The stacks, and their flash with the data on it.

use std::fmt;
use std::io;
use std::sync::Arc;

use aquifer_bench::error::{Error, Result};
use aquifer_bench::rng::{Rng, mix};
use aquifer_device::Pacing;
use aquifer_device::nand::{Geometry, Nand, NandOptions};
use aquifer_volume::layered::{Image, Kind, Stack, StackOptions};
use aquifer_volume::medium::NandMedium;
use aquifer_volume::{Ino, Kind as InodeKind, OpenOptions, PAGE_BYTES, Volume, VolumeError};
use clap::ValueEnum;
use serde::Serialize;

/// The stacks, by how they translate addresses to places on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// The volume: one table
    Volume,
    /// Extents in the order of the file, over a translation layer with 8 bytes for each page: ext4 where it has room
    Ftl,
    /// The same with 4 bytes for each page
    Ftl4,
    /// An extent for each page, over a translation layer with 8 bytes for each: an old and full file system, or one that never writes in place
    FtlScattered,
    /// The same with 4 bytes for each page
    Ftl4Scattered,
    /// Extents of physical pages, without a translation layer, after the file was written in order
    Combined,
    /// The same after it was written in random order
    CombinedScattered,
}

impl Contestant {
    /// The layers; none for the volume.
    pub fn kind(self) -> Option<Kind> {
        let ftl = |entry_bytes, is_scattered| Some(Kind::Ftl { entry_bytes, is_scattered });
        match self {
            Self::Volume => None,
            Self::Ftl => ftl(8, false),
            Self::Ftl4 => ftl(4, false),
            Self::FtlScattered => ftl(8, true),
            Self::Ftl4Scattered => ftl(4, true),
            Self::Combined | Self::CombinedScattered => Some(Kind::Combined),
        }
    }

    /// Whether its file is written in random order.
    pub fn is_scattered(self) -> bool {
        matches!(self, Self::FtlScattered | Self::Ftl4Scattered | Self::CombinedScattered)
    }

    /// The stack with the same bytes on flash that is filled for this one.
    pub fn image(self) -> Self {
        match self {
            Self::Ftl4 => Self::Ftl,
            Self::Ftl4Scattered => Self::FtlScattered,
            other => other,
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

/// RAM for filling.
const RAM_BYTES: u64 = 64 << 20;
/// Erase blocks of each die, so that segments are many.
const BLOCKS_MIN: u32 = 256;

/// Bytes that a stack has written and that nobody changes: all who use it get a snapshot.
pub struct Filled {
    stack: Contestant,
    pages: u32,
    bytes: Bytes,
}

pub enum Bytes {
    Volume(Nand, Ino),
    Layers(Image),
}

/// What went wrong with a stack. Damage is wrong data, and too little of something is a reason to leave a stack out.
pub fn failed(error: VolumeError) -> Error {
    let what = error.to_string();
    match error {
        VolumeError::Damaged { .. } | VolumeError::Corrupt(_) => {
            Error::WrongData { peer: "emulated flash".to_owned(), what }
        }
        VolumeError::Invalid(_) | VolumeError::NoSpace | VolumeError::System { .. } => {
            Error::Unavailable(what)
        }
        _ => Error::io("using", "emulated flash")(io::Error::other(what)),
    }
}

/// The first word of a page.
pub fn stamp(page: u32) -> u64 {
    mix(page.into())
}

impl Filled {
    /// Writes every page once.
    ///
    /// # Errors
    /// Those of [`failed`].
    pub fn new(stack: Contestant, pages: u32, fill_percent: u32) -> Result<Self> {
        let nand = flash(pages, fill_percent)?;
        let bytes = match stack.kind() {
            None => fill_volume(nand, pages)?,
            Some(kind) => {
                let options = StackOptions { ram_bytes: RAM_BYTES, kind, pacing: Pacing::Simulated };
                let mounted = Stack::mount(Image::new(nand, pages, kind), options).map_err(failed)?;
                for page in order(pages, stack.is_scattered()) {
                    mounted.write(page, &content(page)).map_err(failed)?;
                }
                Bytes::Layers(mounted.unmount().map_err(failed)?)
            }
        };
        Ok(Filled { stack: stack.image(), pages, bytes })
    }

    /// Whether a stack can use it.
    pub fn serves(&self, stack: Contestant) -> bool {
        self.stack == stack.image()
    }

    /// Pages of the file.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// What is on the flash, which the caller may change.
    pub fn snapshot(&self) -> Bytes {
        match &self.bytes {
            Bytes::Volume(nand, ino) => Bytes::Volume(nand.snapshot().expect("in memory"), *ino),
            Bytes::Layers(image) => Bytes::Layers(image.snapshot().expect("in memory")),
        }
    }
}

/// Eight channels with two dies each, of which the file takes `fill` percent.
fn flash(pages: u32, fill: u32) -> Result<Nand> {
    let all = u64::from(pages) * 100 / u64::from(fill);
    let (channels, dies_per_channel) = (8, 2);
    let mut pages_per_block = 64;
    let blocks =
        |pages_per_block: u32| all.div_ceil(u64::from(channels * dies_per_channel * pages_per_block)) as u32;
    while blocks(pages_per_block) < BLOCKS_MIN && pages_per_block > 4 {
        pages_per_block /= 2;
    }
    let geometry = Geometry {
        channels,
        dies_per_channel,
        planes_per_die: 1,
        blocks_per_plane: blocks(pages_per_block),
        pages_per_block,
        page_bytes: PAGE_BYTES as u32,
    };
    Nand::new(NandOptions::new(geometry)).map_err(|error| Error::Unavailable(error.to_string()))
}

fn content(page: u32) -> [u8; PAGE_BYTES] {
    let mut bytes = [page as u8; PAGE_BYTES];
    bytes[..8].copy_from_slice(&stamp(page).to_le_bytes());
    bytes
}

fn order(pages: u32, is_scattered: bool) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pages).collect();
    if is_scattered {
        Rng::new(1).shuffle(&mut order);
    }
    order
}

fn fill_volume(nand: Nand, pages: u32) -> Result<Bytes> {
    let medium = Arc::new(NandMedium::new(nand, Pacing::Simulated).map_err(failed)?);
    Volume::create(Box::new(Arc::clone(&medium)), (0, 0)).map_err(failed)?;
    let open = OpenOptions { ram_bytes: RAM_BYTES, is_read_only: false };
    let volume = Volume::open(Box::new(Arc::clone(&medium)), open).map_err(failed)?;
    let ino = volume.make(Ino::ROOT_FOLDER, b"file", InodeKind::File, 0o600, 0, 0).map_err(failed)?;
    for page in order(pages, false) {
        volume.write(ino, u64::from(page) * PAGE_BYTES as u64, &content(page)).map_err(failed)?;
    }
    volume.close().map_err(failed)?;
    let medium = Arc::into_inner(medium).expect("the volume is closed");
    Ok(Bytes::Volume(medium.into_inner(), ino))
}
