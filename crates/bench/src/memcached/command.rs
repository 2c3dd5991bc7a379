//! The command line of each server, and the size of its hash table.

use std::path::PathBuf;
use std::process::Command;

use super::peer::Peer;
use super::programs::Programs;
use super::ram::Shares;

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
pub const EXTSTORE_BUFFER_BYTES: u64 = 2 << 20;
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
    /// Bytes of all items.
    pub data_bytes: u64,
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

    /// The most that a server may hold: never the reason why something is dropped, also when its
    /// sizes are larger by half than the items.
    pub fn limit_mebibytes(&self) -> u64 {
        ((2 * self.data_bytes) >> 20) + 64
    }

    /// Size of everybody's flash file.
    pub fn flash_bytes(&self) -> u64 {
        (2 * self.data_bytes).next_multiple_of(1 << 20) + (64 << 20)
    }

    /// The flash file of extstore.
    pub fn extstore_path(&self) -> PathBuf {
        self.dir.join("aquifer-bench.extstore")
    }

    /// Starts `peer` with its `shares` of RAM, but for its socket and its control group.
    pub fn command(&self, peer: Peer, programs: &Programs, shares: &Shares) -> Command {
        let power = self.hash_power();
        let heap_mebibytes = self.limit_mebibytes();
        let mut command = match peer {
            Peer::Swap => Command::new(&programs.plain),
            Peer::Aquifer => {
                let mut command = Command::new(&programs.aquifer);
                command.env("AQUIFER_RAM", shares.given_bytes.to_string());
                command.env("AQUIFER_FLASH", &self.dir);
                command.env("AQUIFER_FLASH_SIZE", self.flash_bytes().to_string());
                command
            }
            Peer::Pages => {
                let mut command = Command::new(&programs.runner);
                command.args(["run", "--ram", &shares.given_bytes.to_string(), "--flash"]).arg(&self.dir);
                command.args(["--flash-size", &self.flash_bytes().to_string()]);
                command.args(["--threshold", &shares.threshold_bytes.to_string(), "--"]);
                command.arg(&programs.plain);
                command
            }
            Peer::Extstore => Command::new(&programs.extstore),
        };
        command.env_remove("AQUIFER_SOCKET").env_remove("AQUIFER_OBJECT_BYTES");
        // memcached wants to be told that it may stay root.
        // SAFETY: a plain question.
        if unsafe { libc::geteuid() } == 0 {
            command.args(["-u", "root"]);
        }
        let (mebibytes, options) = match peer {
            Peer::Swap | Peer::Pages => (heap_mebibytes, format!("hashpower={power},{LISTS}")),
            Peer::Aquifer => (heap_mebibytes, format!("hashpower={power},slab_sizes={SLAB_SIZES},{LISTS}")),
            Peer::Extstore => (shares.given_bytes >> 20, self.extstore_options(power)),
        };
        command.args(["-m", &mebibytes.to_string(), "-o", &options]);
        command
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
        Plan { dir, ram_bytes, items, value_bytes: 128, data_bytes: 512 << 20 }
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
}
