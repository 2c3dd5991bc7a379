//! The command line of each server, the size of its hash table, and how its RAM is divided, so that all of it together is the same
//! for everybody.

use std::path::PathBuf;
use std::process::Command;

use aquifer_base::units::format_size;

use super::peer::{Peer, Programs};
use crate::error::{Error, Result};

/// Nobody walks through all items, and few are moved from one list to another: what
/// `examples/memcached/start.sh` sets, good for every server whose items are not all in RAM.
pub const LISTS: &str =
    "no_lru_crawler,hot_lru_pct=78,warm_lru_pct=2,hot_max_factor=1000,warm_max_factor=1000";
/// The sizes that the heap has, as in `start.sh`.
const SLAB_SIZES: &str = "96-112-128-160-192-224-256-320-384-448-512-640-768-896-1024-1280-1536-1792-2048-\
                          2560-3072-3584-4096-8192-12288-16384-20480-24576-28672-32768-40960-49152-57344-65536-\
                          81920-98304-114688-131072-163840-196608-229376-262144-327680-393216-458752";
/// memcached makes its table larger once there are more items than 3/2 of its buckets.
const ITEMS_PER_2_BUCKETS_MAX: u64 = 3;
const HASH_POWER_MIN: u32 = 16;
/// Size of a bucket.
const BUCKET_BYTES: u64 = 8;
/// The smallest write buffers that extstore takes; it has four.
const EXTSTORE_BUFFER_BYTES: u64 = 2 << 20;
/// Those four, and the one that it compacts with.
const EXTSTORE_BUFFERS: u64 = 5;
/// One part in this many of the RAM is left to extstore for the page cache of its file.
const PAGE_CACHE_SHARE: u64 = 8;
/// Below this neither the heap nor memcached works.
const GIVEN_BYTES_MIN: u64 = 4 << 20;
/// extstore drops the oldest page when few are free, so that it needs a number of them.
const EXTSTORE_PAGES: u64 = 64;

/// What every server of one comparison is told.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Directory for flash files and sockets.
    pub dir: PathBuf,
    /// RAM of the whole process.
    pub ram_bytes: u64,
    /// Number of keys.
    pub items: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Bytes of all items: values, keys and memcached's headers.
    pub data_bytes: u64,
    /// Smallest block that is managed, for the peer `pages`.
    pub threshold_bytes: u64,
    /// RAM beside the heap for the library's code, connections, and what the kernel has on behalf of
    /// the process and charges to its group: most of it page tables that were dropped and wait for
    /// the end of a grace period, several MiB when the processors are busy. The kernel kills whom it
    /// cannot swap.
    pub reserve_bytes: u64,
}

/// memcached wants to be told that it may stay root.
pub fn may_stay_root(command: &mut Command) {
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } == 0 {
        command.args(["-u", "root"]);
    }
}

impl Plan {
    /// Two buckets for each item, as long as the table takes no more than a quarter of the RAM, but
    /// as many as memcached would make by itself: a table that grows under load brings in all items.
    pub fn hash_power(&self) -> u32 {
        let buckets = |power: u32| 1u64 << power;
        let mut power = HASH_POWER_MIN;
        while buckets(power) < 2 * self.items && buckets(power + 1) * BUCKET_BYTES <= self.ram_bytes / 4 {
            power += 1;
        }
        while buckets(power) * ITEMS_PER_2_BUCKETS_MAX / 2 < self.items {
            power += 1;
        }
        power
    }

    /// Bytes of the hash table.
    pub fn hash_bytes(&self) -> u64 {
        BUCKET_BYTES << self.hash_power()
    }

    /// Size of everybody's flash file.
    pub fn flash_bytes(&self) -> u64 {
        (2 * self.data_bytes).next_multiple_of(1 << 20) + (64 << 20)
    }

    /// The flash file of extstore.
    pub fn extstore_path(&self) -> PathBuf {
        self.dir.join("aquifer-bench.extstore")
    }

    /// What the limit of the server of `peer` is set to, when its program takes `program_bytes` before it holds anything:
    /// `AQUIFER_RAM`, `--ram`, `-m`.
    ///
    /// - swap, zswap: all of it; the control group decides.
    /// - aquifer: the hash table is ordinary memory beside the heap.
    /// - pages: the hash table is a large block, and managed with all others.
    /// - extstore: hash table and write buffers are beside `-m`, and the file needs page cache.
    pub fn given_bytes(&self, peer: Peer, program_bytes: u64) -> Result<u64> {
        let beside = match peer {
            Peer::Swap | Peer::Zswap => 0,
            Peer::Aquifer => program_bytes + self.reserve_bytes + self.hash_bytes(),
            Peer::Pages => program_bytes + self.reserve_bytes,
            Peer::Extstore => {
                let buffers = EXTSTORE_BUFFERS * EXTSTORE_BUFFER_BYTES;
                program_bytes + buffers + self.hash_bytes() + self.ram_bytes / PAGE_CACHE_SHARE
            }
        };
        let given_bytes = self.ram_bytes.saturating_sub(beside);
        if given_bytes < GIVEN_BYTES_MIN {
            return Err(Error::Unavailable(format!(
                "of {} of RAM, {} are taken before the first value: hash table, program, buffers",
                format_size(self.ram_bytes),
                format_size(beside)
            )));
        }
        Ok(given_bytes)
    }

    /// The server of `peer`, but for its socket and its control group.
    pub fn command(&self, peer: Peer, programs: &Programs, given_bytes: u64) -> Result<Command> {
        let [memcached, _] = programs.memcached(peer)?;
        let mut command = Command::new(&memcached);
        if peer == Peer::Pages {
            command = Command::new(programs.installed.aquifer()?);
            command.args(["run", "--ram", &given_bytes.to_string(), "--flash"]).arg(&self.dir);
            command.args(["--flash-size", &self.flash_bytes().to_string()]);
            command.args(["--threshold", &self.threshold_bytes.to_string(), "--"]).arg(memcached);
        }
        if peer == Peer::Aquifer {
            command.env("AQUIFER_RAM", given_bytes.to_string());
            command.env("AQUIFER_FLASH", &self.dir);
            command.env("AQUIFER_FLASH_SIZE", self.flash_bytes().to_string());
        }
        command.env_remove("AQUIFER_SOCKET").env_remove("AQUIFER_OBJECT_BYTES");
        may_stay_root(&mut command);
        let power = self.hash_power();
        let options = match peer {
            Peer::Swap | Peer::Zswap | Peer::Pages => format!("hashpower={power},{LISTS}"),
            Peer::Aquifer => format!("hashpower={power},slab_sizes={SLAB_SIZES},{LISTS}"),
            Peer::Extstore => self.extstore_options(power),
        };
        // Never the reason why something is dropped, also when sizes of chunks are larger by half than the items.
        let limit_bytes = if peer == Peer::Extstore { given_bytes } else { 2 * self.data_bytes + (64 << 20) };
        command.args(["-m", &(limit_bytes >> 20).to_string(), "-o", &options]);
        Ok(command)
    }

    /// extstore wants its sizes before its path. Every value goes to its file.
    fn extstore_options(&self, power: u32) -> String {
        let buffer = EXTSTORE_BUFFER_BYTES;
        let page_bytes = (self.flash_bytes() / EXTSTORE_PAGES).next_multiple_of(buffer).min(64 << 20);
        format!(
            "hashpower={power},ext_page_size={},ext_wbuf_size={},ext_item_size={},ext_path={}:{}M",
            page_bytes >> 20,
            buffer >> 20,
            self.value_bytes.min(512),
            self.extstore_path().display(),
            self.flash_bytes() >> 20,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = include_str!("../../../../examples/memcached/start.sh");

    fn plan(items: u64) -> Plan {
        let (dir, ram_bytes) = (PathBuf::from("/var/tmp"), 64 << 20);
        let (value_bytes, data_bytes, threshold_bytes, reserve_bytes) = (128, 512 << 20, 65_536, 8 << 20);
        Plan { dir, ram_bytes, items, value_bytes, data_bytes, threshold_bytes, reserve_bytes }
    }

    #[test]
    fn the_options_are_those_of_the_example() {
        assert!(START.contains(&format!("lists={LISTS}\n")));
        let sizes = |name: &str| {
            let lines = START.lines().filter_map(|line| line.strip_prefix(name));
            lines.map(|line| line.trim_start_matches("$large-").to_owned()).collect::<Vec<_>>().join("-")
        };
        assert_eq!(format!("{}-{}", sizes("small="), sizes("large=")), SLAB_SIZES);
    }

    #[test]
    fn the_hash_table_is_never_too_small() {
        assert_eq!(plan(1000).hash_power(), 16);
        assert_eq!(plan(480_000).hash_power(), 20);
        // Two buckets for each would be 64 MiB.
        assert_eq!(plan(2_600_000).hash_power(), 21);
        assert_eq!(plan(3_200_000).hash_power(), 22);
        assert_eq!(plan(1000).hash_bytes(), 512 << 10);
    }

    #[test]
    fn extstore_has_pages_of_whole_buffers() {
        let options = plan(1000).extstore_options(16);
        assert_eq!(
            options,
            "hashpower=16,ext_page_size=18,ext_wbuf_size=2,ext_item_size=128,\
             ext_path=/var/tmp/aquifer-bench.extstore:1088M"
        );
    }

    #[test]
    fn everything_together_is_the_limit() {
        let given = |plan: Plan, peer| plan.given_bytes(peer, 3 << 20).map(|bytes| bytes >> 20);
        for (peer, mebibytes) in [
            (Peer::Swap, 64),
            (Peer::Zswap, 64),
            (Peer::Aquifer, 64 - 3 - 8 - 8),
            (Peer::Pages, 64 - 3 - 8),
            (Peer::Extstore, 64 - 3 - 10 - 8 - 8),
        ] {
            assert_eq!(given(plan(480_000), peer).expect("enough"), mebibytes, "{peer}");
        }
        let small = Plan { ram_bytes: 16 << 20, ..plan(480_000) };
        assert!(matches!(given(small, Peer::Extstore), Err(Error::Unavailable(_))));
    }
}
