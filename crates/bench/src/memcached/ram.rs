//! How the RAM of a server is divided, so that all of it together is the same for everybody.

use aquifer_base::units::format_size;

use super::command::{EXTSTORE_BUFFER_BYTES, Plan};
use super::peer::Peer;
use crate::error::{Error, Result};

/// extstore's four write buffers, and the one it compacts with.
const EXTSTORE_BUFFERS: u64 = 5;
/// What is left to extstore for the page cache of its file: one part of so many.
const PAGE_CACHE_SHARE: u64 = 8;
/// Below this neither the heap nor memcached works.
const GIVEN_BYTES_MIN: u64 = 4 << 20;

/// The RAM of one server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// What its own limit is set to: `AQUIFER_RAM`, `--ram`, `-m`; all of it under swap.
    pub given_bytes: u64,
    /// Smallest block that is managed, for [`Peer::Pages`].
    pub threshold_bytes: u64,
}

/// What the options say about the division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// See [`Shares::threshold_bytes`].
    pub threshold_bytes: u64,
    /// RAM beside the heap for the library's code, connections, and what the kernel has on behalf of
    /// the process and charges to its group: most of it page tables that were dropped and wait for
    /// the end of a grace period, several MiB when the processors are busy. The kernel kills whom it
    /// cannot swap.
    pub reserve_bytes: u64,
}

impl Shares {
    /// Divides the RAM of `plan` for `peer`, of which the program takes `program_bytes` when it has
    /// just started and holds nothing.
    ///
    /// - swap: the control group decides.
    /// - aquifer: the hash table is ordinary memory beside the heap.
    /// - pages: the hash table is a large block, and managed with all others.
    /// - extstore: hash table and write buffers are beside `-m`, and the file needs page cache.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too little is left.
    pub fn new(peer: Peer, plan: &Plan, program_bytes: u64, settings: Settings) -> Result<Self> {
        let beside = match peer {
            Peer::Swap => 0,
            Peer::Aquifer => program_bytes + settings.reserve_bytes + plan.hash_bytes(),
            Peer::Pages => program_bytes + settings.reserve_bytes,
            Peer::Extstore => {
                let buffers = EXTSTORE_BUFFERS * EXTSTORE_BUFFER_BYTES;
                program_bytes + buffers + plan.hash_bytes() + plan.ram_bytes / PAGE_CACHE_SHARE
            }
        };
        let given_bytes = plan.ram_bytes.saturating_sub(beside);
        if given_bytes < GIVEN_BYTES_MIN {
            return Err(Error::Unavailable(format!(
                "of {} of RAM, {} are taken before the first value: hash table, program, buffers",
                format_size(plan.ram_bytes),
                format_size(beside)
            )));
        }
        Ok(Self { given_bytes, threshold_bytes: settings.threshold_bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn everything_together_is_the_limit() {
        let (dir, ram_bytes) = (PathBuf::new(), 64 << 20);
        let plan = Plan { dir, ram_bytes, items: 480_000, value_bytes: 1024, data_bytes: 512 << 20 };
        let settings = Settings { threshold_bytes: 65_536, reserve_bytes: 8 << 20 };
        let given = |peer| Shares::new(peer, &plan, 3 << 20, settings).map(|shares| shares.given_bytes >> 20);
        assert_eq!(given(Peer::Swap).expect("enough"), 64);
        assert_eq!(given(Peer::Aquifer).expect("enough"), 64 - 3 - 8 - 8);
        assert_eq!(given(Peer::Pages).expect("enough"), 64 - 3 - 8);
        assert_eq!(given(Peer::Extstore).expect("enough"), 64 - 3 - 10 - 8 - 8);
        let small = Plan { ram_bytes: 16 << 20, ..plan };
        assert!(matches!(Shares::new(Peer::Extstore, &small, 3 << 20, settings), Err(Error::Unavailable(_))));
    }
}
