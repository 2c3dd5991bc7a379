//! A file that is opened as a durable heap.

use std::sync::{Arc, Mutex};

use aquifer_base::checksum::crc32c_seeded;
use aquifer_durable::chunk;
use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock, USED_BYTES};
use aquifer_durable::{DurableHeap, Error, Options, Result};

/// One chunk, of the smallest size.
pub const CHUNK_BYTES: usize = Superblock::CHUNK_BYTES_MIN as usize;

/// A file in RAM.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>, Arc<Counts>);

impl Memory {
    pub fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Persist for Memory {
    fn len_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        let mut bytes = self.bytes();
        let len = bytes.len().max(len_bytes as usize);
        bytes.resize(len, 0);
        Ok(())
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bytes()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let bytes = self.bytes();
        let there = bytes.get(offset as usize..).unwrap_or(&[]);
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        out[len..].fill(0);
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.bytes()[offset as usize..][..len_bytes as usize].fill(0);
        Ok(())
    }

    fn refill(&self, _offset: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.1
    }
}

/// How heaps are opened here.
pub fn options() -> Options {
    let capacity_bytes = (SUPERBLOCK_BYTES + 12 * CHUNK_BYTES) as u64;
    Options { capacity_bytes, chunk_bytes: CHUNK_BYTES as u32, ..Options::default() }
}

/// What of a heap's file is an input: the superblock's bytes and the beginning of the first chunk.
#[allow(dead_code, reason = "the fuzzer makes its inputs itself")]
pub fn input_of(memory: &Memory, bytes: usize) -> Vec<u8> {
    let file = memory.bytes();
    [&file[..USED_BYTES], &file[SUPERBLOCK_BYTES..SUPERBLOCK_BYTES + bytes - USED_BYTES]].concat()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

/// The records in the superblock's page, as those of a new heap: the value and the places of each.
const RECORDS: [(u64, [usize; 2]); 3] = [(u64::MAX, [1024, 2048]), (0, [1536, 2560]), (0, [3072, 3584])];

/// The file of an input, with magic numbers and checksums that are right, so that what is behind them is reached.
fn file_of(input: &[u8]) -> Vec<u8> {
    let mut file = vec![0; SUPERBLOCK_BYTES + CHUNK_BYTES];
    let (head, rest) = input.split_at(input.len().min(USED_BYTES));
    file[..head.len()].copy_from_slice(head);
    let id = u64::from(word(&file, 16)) | u64::from(word(&file, 20)) << 32;
    file[..USED_BYTES].copy_from_slice(&Superblock { chunk_bytes: CHUNK_BYTES as u32, id }.encode());
    for (kind, (value, places)) in RECORDS.into_iter().enumerate() {
        for place in places {
            let record = &mut file[place..place + 24];
            record[..8].copy_from_slice(&1u64.to_le_bytes());
            record[8..16].copy_from_slice(&value.to_le_bytes());
            record[16..20].copy_from_slice(&(kind as u32).to_le_bytes());
            let crc = crc32c_seeded(id as u32, &record[..20]);
            record[20..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let chunk = &mut file[SUPERBLOCK_BYTES..];
    let len = rest.len().min(CHUNK_BYTES);
    chunk[..len].copy_from_slice(&rest[..len]);
    chunk[..4].copy_from_slice(b"CHNK");
    let crc = crc32c_seeded(chunk::seed(id, 0, 0), &chunk[8..chunk::HEADER_BYTES]);
    chunk[4..8].copy_from_slice(&crc.to_le_bytes());
    let seed = chunk::seed(id, 0, word(chunk, 8));
    let mut at = chunk::HEADER_BYTES;
    while at + 24 <= CHUNK_BYTES {
        let len = word(chunk, at + 4) as usize;
        if len < 24 || len > CHUNK_BYTES - at {
            break;
        }
        let crc = crc32c_seeded(seed, &chunk[at + 4..at + len]);
        chunk[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at += len;
    }
    file
}

/// A file is refused, or is a heap that can be used, cleaned and opened again.
pub fn property(input: &[u8]) {
    let memory = Memory::default();
    *memory.bytes() = file_of(input);
    let open = || DurableHeap::on(Box::new(memory.clone()), &options(), "input");
    let heap = match open() {
        Ok(heap) => heap,
        Err(Error::Damaged { .. } | Error::Foreign { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let outcome = heap.transaction(|tx| {
        let home = tx.alloc(100)?;
        tx.store(home, &[7; 100])?;
        if let Ok(Some(root)) = tx.root() {
            // It leads anywhere.
            let _ = tx.load(root, &mut [0; 300]);
        }
        Ok(home)
    });
    let home = match outcome {
        Ok(home) => home,
        // The table of areas may say that there is no room for this size.
        Err(Error::Full { .. } | Error::NotAllocated(_)) => return,
        Err(error) => panic!("{error}"),
    };
    heap.clean().expect("what could be opened can be cleaned");
    drop(heap);
    let heap = open().expect("it was a heap");
    let mut out = [0; 100];
    heap.transaction(|tx| tx.load(home, &mut out)).expect("it is allocated");
    assert_eq!(out, [7; 100]);
}
