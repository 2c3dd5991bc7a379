//! What is switched off.

use std::fmt;

use aquifer_durable::Tuning;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What is switched off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Off {
    /// Nothing: what the others are compared with
    Nothing,
    /// The hot-node cache
    HotNodes,
    /// Both halves of the group update
    GroupUpdate,
    /// Neighbours merged at commit: one half of the group update
    MergesWrites,
    /// One persist for each commit: the other half
    PersistsOnce,
    /// Extents of the map joined
    JoinsExtents,
}

impl Off {
    /// What the heap has without it.
    pub fn tuning(self) -> Tuning {
        let all = Tuning::ALL;
        match self {
            Self::Nothing => all,
            Self::HotNodes => Tuning { hot_nodes: false, ..all },
            Self::GroupUpdate => Tuning { merges_writes: false, persists_once: false, ..all },
            Self::MergesWrites => Tuning { merges_writes: false, ..all },
            Self::PersistsOnce => Tuning { persists_once: false, ..all },
            Self::JoinsExtents => Tuning { joins_extents: false, ..all },
        }
    }

    /// What it gave Hu et al. (ATC 2017), in percent of throughput, where they say so.
    pub fn paper_percent(self) -> Option<f64> {
        match self {
            Self::HotNodes => Some(30.1),
            Self::GroupUpdate => Some(42.3),
            Self::Nothing | Self::MergesWrites | Self::PersistsOnce | Self::JoinsExtents => None,
        }
    }
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::HotNodes => "hot-nodes",
            Self::GroupUpdate => "group-update",
            Self::MergesWrites => "merges-writes",
            Self::PersistsOnce => "persists-once",
            Self::JoinsExtents => "joins-extents",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for &off in Off::value_variants() {
            assert_eq!(off.to_string(), off.to_possible_value().expect("not hidden").get_name());
        }
    }
}
