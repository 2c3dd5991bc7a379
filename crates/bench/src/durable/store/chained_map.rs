//! A hash map with chains, on any heap with transactions: the same steps for all that are compared.
//!
//! Keys are random, so their highest bits are hash enough. A node is its key, its value and the address of the next one.

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Result};

use super::{BUCKET_SHIFT, BUCKETS};

const WORD: u64 = 8;
const NODE_BYTES: usize = 24;

/// Where the buckets are: an array of addresses of first nodes.
#[derive(Clone, Copy, Debug)]
pub struct ChainedMap(HomeAddress);

struct Node {
    key: u64,
    value: u64,
    next: u64,
}

impl Node {
    fn load(access: &mut impl Access, home: u64) -> Result<Self> {
        let mut bytes = [0; NODE_BYTES];
        access.load(HomeAddress(home), &mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Ok(Self { key: word(0), value: word(8), next: word(16) })
    }

    fn bytes(&self) -> [u8; NODE_BYTES] {
        let mut bytes = [0; NODE_BYTES];
        for (target, word) in bytes.chunks_exact_mut(8).zip([self.key, self.value, self.next]) {
            target.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl ChainedMap {
    /// An empty map.
    pub fn create(access: &mut impl Access) -> Result<Self> {
        Ok(Self(access.alloc(BUCKETS * WORD)?))
    }

    fn bucket(self, key: u64) -> HomeAddress {
        self.0.plus_bytes((key >> BUCKET_SHIFT) * WORD)
    }

    /// The first node of the key's bucket, and the key's node with its address.
    fn find(self, access: &mut impl Access, key: u64) -> Result<(u64, Option<(u64, Node)>)> {
        let first = access.load_u64(self.bucket(key))?;
        let mut home = first;
        while home != 0 {
            let node = Node::load(access, home)?;
            if node.key == key {
                return Ok((first, Some((home, node))));
            }
            home = node.next;
        }
        Ok((first, None))
    }

    /// What is under `key`.
    pub fn get(self, access: &mut impl Access, key: u64) -> Result<Option<u64>> {
        Ok(self.find(access, key)?.1.map(|(_, node)| node.value))
    }

    /// Puts `value` under `key`.
    pub fn insert(self, access: &mut impl Access, key: u64, value: u64) -> Result<()> {
        let (next, found) = self.find(access, key)?;
        if let Some((home, node)) = found {
            return access.store(HomeAddress(home), &Node { value, ..node }.bytes());
        }
        let home = access.alloc(NODE_BYTES as u64)?;
        access.store(home, &Node { key, value, next }.bytes())?;
        access.store_u64(self.bucket(key), home.0)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_durable::{DurableHeap, Options};

    use super::*;

    #[test]
    fn keys_of_one_bucket_are_kept_apart() {
        let path = std::env::temp_dir().join(format!("aquifer-chained-map-{}", std::process::id()));
        let heap = DurableHeap::open(&path, &Options::default()).expect("a temporary file");
        let map = heap.transaction(|tx| ChainedMap::create(tx)).expect("room");
        let keys = [0, 1, (1 << BUCKET_SHIFT) - 1, 1 << BUCKET_SHIFT, u64::MAX];
        for value in [3, 4] {
            for key in keys {
                heap.transaction(|tx| map.insert(tx, key, key ^ value)).expect("room");
            }
            for key in keys {
                assert_eq!(heap.transaction(|tx| map.get(tx, key)).expect("it is read"), Some(key ^ value));
            }
        }
        assert_eq!(heap.transaction(|tx| map.get(tx, 2)).expect("it is read"), None);
        drop(heap);
        std::fs::remove_file(&path).expect("was created");
    }
}
