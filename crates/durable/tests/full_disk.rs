//! A disk that is full before the heap's file has its size: what is written is refused, what is removed makes room.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard};

use aquifer_base::HomeAddress;
use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::structures::BytesTree;
use aquifer_durable::{DurableHeap, Error, Options, Result};

const CHUNK_BYTES: u32 = 64 << 10;
const BLOCK_BYTES: u64 = 4096;

/// A file on a file system with a number of blocks, of which others take some.
#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    /// Blocks of the file, also behind its end.
    taken: BTreeSet<u64>,
    blocks: usize,
}

impl Disk {
    /// All of a range, or as much as there is and an error.
    fn allocate(&mut self, offset: u64, len_bytes: u64) -> Result<()> {
        for block in offset / BLOCK_BYTES..(offset + len_bytes).div_ceil(BLOCK_BYTES) {
            if !self.taken.contains(&block) && self.taken.len() >= self.blocks {
                let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
                return Err(Error::Io { what: "allocating".into(), source });
            }
            self.taken.insert(block);
        }
        Ok(())
    }
}

#[derive(Clone, Default)]
struct OnDisk(Arc<Mutex<Disk>>, Arc<Counts>);

impl OnDisk {
    fn with_bytes(bytes: u64) -> Self {
        let disk = Disk { blocks: (bytes / BLOCK_BYTES) as usize, ..Disk::default() };
        Self(Arc::new(Mutex::new(disk)), Arc::default())
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("nobody panics")
    }

    /// Others take all that is free.
    fn is_filled_by_others(&self) {
        let mut disk = self.disk();
        disk.blocks = disk.taken.len();
    }

    fn open(&self) -> DurableHeap {
        let options = Options { capacity_bytes: 256 << 20, chunk_bytes: CHUNK_BYTES, ..Options::default() };
        DurableHeap::on(Box::new(self.clone()), &options, "the disk").expect("opens")
    }
}

impl Persist for OnDisk {
    fn len_bytes(&self) -> u64 {
        self.disk().bytes.len() as u64
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        let mut disk = self.disk();
        let before = disk.bytes.len() as u64;
        disk.allocate(before, len_bytes.saturating_sub(before))?;
        let len = before.max(len_bytes) as usize;
        disk.bytes.resize(len, 0);
        Ok(())
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut disk = self.disk();
        let blocks = offset / BLOCK_BYTES..(offset + bytes.len() as u64).div_ceil(BLOCK_BYTES);
        assert!(
            blocks.into_iter().all(|block| disk.taken.contains(&block)),
            "a store into a hole ends the process"
        );
        disk.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let disk = self.disk();
        let there = disk.bytes.get(offset as usize..).unwrap_or(&[]);
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        out[len..].fill(0);
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let mut disk = self.disk();
        disk.bytes[offset as usize..][..len_bytes as usize].fill(0);
        for block in offset.div_ceil(BLOCK_BYTES)..(offset + len_bytes) / BLOCK_BYTES {
            disk.taken.remove(&block);
        }
        Ok(())
    }

    fn reserve(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.disk().allocate(offset, len_bytes)
    }

    fn refill(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.disk().allocate(offset, len_bytes)
    }

    fn counts(&self) -> &Counts {
        &self.1
    }
}

fn is_disk_full(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::StorageFull)
}

fn value_of(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(30 + n as usize % 300)
}

/// Fills the disk, takes all away, key by key, and fills it again; what is there is right at all times.
#[test]
fn what_is_removed_makes_room() {
    let disk = OnDisk::with_bytes(5 << 20);
    let mut heap = disk.open();
    let mut tree = heap.transaction(|tx| BytesTree::create(tx)).expect("room");
    let home = tree.home();
    let mut model = BTreeMap::new();
    let mut n = 0u64;
    for round in 0..6 {
        let full = loop {
            n += 1;
            match heap.transaction(|tx| tree.put(tx, &n.to_be_bytes(), &value_of(n))) {
                Ok(_) => drop(model.insert(n, value_of(n))),
                Err(error) => break error,
            }
        };
        assert!(is_disk_full(&full), "round {round}: {full}");
        assert!(model.len() > 1000, "round {round}: {} values", model.len());
        if round % 3 == 1 {
            // What is free in the file has given its memory back, as far as it is not kept.
            disk.is_filled_by_others();
        }
        if round % 2 == 1 {
            drop(heap);
            heap = disk.open();
            tree = heap.read(|tx| BytesTree::open(tx, home)).expect("the tree");
        }
        let keys: Vec<u64> = model.keys().copied().filter(|key| round % 3 == 0 || key % 5 != 0).collect();
        for key in keys {
            let removed = heap.transaction(|tx| tree.remove(tx, &key.to_be_bytes()));
            assert!(removed.unwrap_or_else(|error| panic!("round {round}, key {key} of {n}: {error}")));
            model.remove(&key);
        }
        for (key, value) in &model {
            assert_eq!(
                heap.read(|tx| tree.get(tx, &key.to_be_bytes())).expect("reads").as_ref(),
                Some(value)
            );
        }
    }
}

/// A program that only frees objects, in small transactions and in large ones.
#[test]
fn objects_are_freed() {
    for at_once in [1, 40, 1000] {
        let disk = OnDisk::with_bytes(3 << 20);
        let heap = disk.open();
        let mut homes: Vec<HomeAddress> = Vec::new();
        let full = loop {
            let made = heap.transaction(|tx| {
                let home = tx.alloc(700)?;
                tx.store(home, &[7; 700])?;
                Ok(home)
            });
            match made {
                Ok(home) => homes.push(home),
                Err(error) => break error,
            }
        };
        assert!(is_disk_full(&full) && homes.len() > 1000, "{full}, {} objects", homes.len());
        for some in homes.chunks(at_once) {
            let freed = heap.transaction(|tx| some.iter().try_for_each(|&home| tx.free(home)));
            freed.unwrap_or_else(|error| panic!("{at_once} at once: {error}"));
        }
        heap.transaction(|tx| tx.alloc(700)).expect("room again");
    }
}
