//! The stacks.

use std::fmt;

use aquifer_volume::layered::Kind;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Who translates addresses to flash, and how.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// The volume: one table.
    Volume,
    /// Extents in the order of the file, over a translation layer with 8 bytes for each page: ext4 where it has room.
    Ftl,
    /// The same with 4 bytes for each page.
    Ftl4,
    /// An extent for each page, over a translation layer with 8 bytes for each: an old and full file system, or one that never writes in place.
    FtlScattered,
    /// The same with 4 bytes for each page.
    Ftl4Scattered,
    /// Extents of physical pages, without a translation layer, after the file was written in order.
    Combined,
    /// The same after it was written in random order.
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

    /// Who has the same bytes on flash.
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
        f.write_str(match self {
            Self::Volume => "volume",
            Self::Ftl => "ftl",
            Self::Ftl4 => "ftl4",
            Self::FtlScattered => "ftl-scattered",
            Self::Ftl4Scattered => "ftl4-scattered",
            Self::Combined => "combined",
            Self::CombinedScattered => "combined-scattered",
        })
    }
}
