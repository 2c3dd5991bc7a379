//! The counters of memcached that tell what it holds and what it has dropped.

use serde::{Deserialize, Serialize};

macro_rules! server_stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals since the server started, under memcached's own names; 0 where it has none.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
        #[serde(default)]
        pub struct ServerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl ServerStats {
            /// Takes one line of the reply to `stats`; others than those above are ignored.
            pub fn set(&mut self, name: &str, value: &str) {
                match name {
                    $(stringify!($name) => self.$name = value.parse().unwrap_or(0),)*
                    _ => {}
                }
            }
        }
    };
}

server_stats! {
    /// Items with an entry in the hash table.
    curr_items,
    /// Items that were set.
    total_items,
    /// Items dropped from RAM to make room.
    evictions,
    /// Bytes of the hash table.
    hash_bytes,
    /// Pages of extstore dropped to make room.
    extstore_page_evictions,
    /// Values lost with them.
    extstore_objects_evicted,
    /// Values written to flash.
    extstore_objects_written,
    /// Values read from flash.
    extstore_objects_read,
    /// Values dropped while pages were compacted.
    extstore_compact_lost,
    /// Gets whose value was on flash when its entry was made and is gone.
    miss_from_extstore,
}

impl ServerStats {
    /// Values that the server dropped by itself.
    pub fn dropped(&self) -> u64 {
        self.evictions + self.extstore_objects_evicted + self.extstore_compact_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_taken() {
        let mut stats = ServerStats::default();
        for (name, value) in [
            ("curr_items", "7"),
            ("evictions", "2"),
            ("version", "1.6.18"),
            ("extstore_objects_evicted", "x"),
        ] {
            stats.set(name, value);
        }
        assert_eq!(stats, ServerStats { curr_items: 7, evictions: 2, ..ServerStats::default() });
        assert_eq!(stats.dropped(), 2);
    }
}
