//! Lines of results.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::machine::Context;
use crate::rng::Rng;

/// Which leaves are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// One after the other.
    Together,
    /// At random.
    Apart,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Together => "in a row",
            Self::Apart => "at random",
        })
    }
}

impl Spread {
    /// Numbers of `count` of the `all` leaves that a file could have.
    pub fn leaves(self, all: u64, count: u64) -> Vec<u64> {
        let first = all / 3;
        match self {
            Self::Together => (first..first + count).collect(),
            Self::Apart => {
                let (mut leaves, mut rng) = (BTreeSet::new(), Rng::new(all));
                while (leaves.len() as u64) < count {
                    leaves.insert(rng.below(all));
                }
                leaves.into_iter().collect()
            }
        }
    }
}

/// What the table takes for one file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Metadata {
    /// Which leaves were written.
    pub spread: Spread,
    /// How many.
    pub leaves: u64,
    /// Size of the volume, and of its file.
    pub size_bytes: u64,
    /// RAM of the volume.
    pub volume_ram_bytes: u64,
    /// Pages of the file on flash.
    pub pages: u64,
    /// Nodes of its table there.
    pub nodes: u64,
    /// Bytes that they take there, patches included.
    pub node_bytes: u64,
    /// Nodes of its table in RAM.
    pub nodes_in_ram: u64,
    /// Bytes that they take there, with what finds them.
    pub node_bytes_in_ram: u64,
    /// Nodes of the whole volume on flash, as its check counts them.
    pub nodes_of_volume: u64,
    /// Pages of the whole volume on flash.
    pub pages_of_volume: u64,
    /// Machine and command.
    pub context: Context,
}

impl Metadata {
    /// Bytes on flash for each page.
    pub fn flash_each(&self) -> f64 {
        self.node_bytes as f64 / self.pages.max(1) as f64
    }

    /// Bytes in RAM for each page that they translate.
    pub fn ram_each(&self) -> f64 {
        self.node_bytes_in_ram as f64 / self.pages.max(1) as f64
    }

    /// One line for the person who waits.
    pub fn summary(&self) -> String {
        format!(
            "leaves {}: {:.3} bytes on flash, {:.3} in RAM for each of {} pages",
            self.spread,
            self.flash_each(),
            self.ram_each(),
            self.pages
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_different_leaves_as_asked_for() {
        for spread in [Spread::Together, Spread::Apart] {
            let leaves: BTreeSet<u64> = spread.leaves(1000, 64).into_iter().collect();
            assert_eq!(leaves.len(), 64);
            assert!(leaves.iter().all(|&leaf| leaf < 1000));
        }
        assert_ne!(Spread::Apart.leaves(1000, 64), Spread::Together.leaves(1000, 64));
    }
}
