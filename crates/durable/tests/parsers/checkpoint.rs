//! A file that is opened as a durable heap, with a checkpoint of any bytes.

use aquifer_base::HomeAddress;
use aquifer_base::checksum::crc32c_seeded;
use aquifer_durable::checkpoint::{HEADER_BYTES, Record, Records};
use aquifer_durable::superblock::SUPERBLOCK_BYTES;
use aquifer_durable::{DurableHeap, Error, Options, chunk};

use super::heap::{CHUNK_BYTES, Memory, options};

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn is_part(chunk: &[u8]) -> bool {
    chunk.starts_with(b"CKPT")
}

/// A small heap with objects in some chunks, and a checkpoint.
fn sample() -> Memory {
    let memory = Memory::default();
    let options = Options { checkpoint_bytes: u64::MAX, cleans_ahead: false, ..options() };
    let heap = DurableHeap::on(Box::new(memory.clone()), &options, "sample").expect("opens");
    for n in 0..40u64 {
        heap.transaction(|tx| {
            let home = tx.alloc(n % 8 * 1500)?;
            tx.store(home, &vec![n as u8; n as usize % 8 * 1000])?;
            tx.set_root(home)
        })
        .expect("room");
    }
    drop(heap);
    memory
}

/// The records of a checkpoint as it is written.
#[allow(dead_code, reason = "the fuzzer makes its inputs itself")]
pub fn records() -> Vec<u8> {
    let memory = sample();
    let file = memory.bytes();
    let part = file[SUPERBLOCK_BYTES..].chunks(CHUNK_BYTES).find(|chunk| is_part(chunk)).expect("one");
    part[HEADER_BYTES..word(part, 12) as usize].to_vec()
}

/// The records of a heap's checkpoint become these, and all checksums are right.
fn replace(memory: &Memory, records: &[u8]) {
    let mut file = memory.bytes();
    let id = u64::from(word(&file, 16)) | u64::from(word(&file, 20)) << 32;
    let records = &records[..records.len().min(CHUNK_BYTES - HEADER_BYTES)];
    let end = HEADER_BYTES + records.len();
    for (number, chunk) in file[SUPERBLOCK_BYTES..].chunks_mut(CHUNK_BYTES).enumerate() {
        if !is_part(chunk) {
            continue;
        }
        chunk[HEADER_BYTES..end].copy_from_slice(records);
        chunk[12..16].copy_from_slice(&(end as u32).to_le_bytes());
        let seed = chunk::seed(id, number as u32, u32::from_le_bytes(*b"CKPT"));
        let crc = crc32c_seeded(seed, &chunk[HEADER_BYTES..end]);
        chunk[36..40].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c_seeded(seed, &chunk[8..HEADER_BYTES]);
        chunk[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Records make sense or are refused, and so does a heap with them, whatever they say of it.
pub fn property(input: &[u8]) {
    let mut homes = Vec::new();
    for record in Records::new(input, 1024..1 << 20) {
        if let Ok(Record::Partition { number, extents, .. }) = record {
            homes.push(u64::from(number) * 4096);
            assert!(extents.iter().all(|(start, _)| start < 1024));
        }
    }
    let memory = sample();
    replace(&memory, input);
    let heap = match DurableHeap::on(Box::new(memory), &options(), "input") {
        Ok(heap) => heap,
        Err(Error::Damaged { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    // What is found there may be anything that the file has, or damaged.
    for home in homes.into_iter().take(100) {
        let _ = heap.transaction(|tx| tx.load(HomeAddress(home), &mut [0; 4096]));
    }
    let _ = heap.transaction(|tx| {
        let home = tx.alloc(100)?;
        tx.store(home, &[7; 100])
    });
    let _ = heap.clean();
}
