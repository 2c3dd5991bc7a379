//! The log of a durable heap: how full it is with all that belongs to its objects, and what theory says of cleaning one that is as full.

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_durable::DurableHeap;
use aquifer_durable::block::Kind;
use aquifer_durable::chunk::{self, ChunkHeader};
use aquifer_durable::inspect::{self, Found};
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};

use crate::study::Fields;
use crate::theory::write_amplification;

/// Bytes of the blocks that a log has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Blocks {
    /// Bytes of objects, as they are now or were.
    payload_bytes: u64,
    /// With headers, entries and padding.
    bytes: u64,
}

impl Blocks {
    /// Those of a heap that nobody uses; its cleaner may be at work. None if the file is not one of a durable heap.
    fn of(heap: &DurableHeap) -> Option<Self> {
        let persist = heap.persist();
        let superblock = Superblock::find(persist).ok().flatten()?;
        let mut bytes = vec![0; superblock.chunk_bytes as usize];
        let chunks = (persist.len_bytes() - SUPERBLOCK_BYTES as u64) / bytes.len() as u64;
        let mut blocks = Self::default();
        for number in 0..chunks as u32 {
            persist.read(SUPERBLOCK_BYTES as u64 + u64::from(number) * bytes.len() as u64, &mut bytes);
            let header = bytes.first_chunk().expect("a chunk is larger than its header");
            if let Some(header) = ChunkHeader::decode(header, superblock.id, number) {
                blocks.add(&bytes, chunk::seed(superblock.id, number, header.generation));
            }
        }
        Some(blocks)
    }

    /// Adds the blocks of a chunk.
    fn add(&mut self, chunk: &[u8], seed: u32) {
        for (_, found) in inspect::Blocks::new(chunk, seed) {
            let Found::Block(block) = found else { continue };
            let payloads = block.entries().filter(|entry| entry.kind == Kind::Bytes);
            self.payload_bytes +=
                payloads.map(|entry| u64::from(entry.grains) * LOG_GRAIN_BYTES as u64).sum::<u64>();
            self.bytes += block.len_bytes() as u64;
        }
    }
}

/// How a heap's file is filled at the end of a run: by objects alone, and with their part of headers.
pub fn state(heap: &DurableHeap) -> Fields {
    let usage = heap.usage();
    let live_share = usage.live_bytes as f64 / usage.file_bytes as f64;
    let blocks = Blocks::of(heap).filter(|blocks| blocks.payload_bytes > 0);
    let overhead = blocks.map(|blocks| blocks.bytes as f64 / blocks.payload_bytes as f64);
    Fields::default()
        .with("live_share", live_share)
        .with("map_bytes", usage.map_bytes)
        .with("overhead", overhead)
        .with("fill", overhead.map(|overhead| live_share * overhead))
}

/// What cleaning wrote for what was written once, and what it has to by theory: uniform random overwrites in a log that is as full, with headers
/// ([`write_amplification`]). What was copied counts with as much overhead as the log has. A heap that copies nothing writes what it must.
///
/// `bytes` and `copied_bytes` are for one transaction, `state` is that at the end.
pub fn beside_theory(bytes: f64, copied_bytes: Option<f64>, state: &Fields) -> Fields {
    let log = copied_bytes.zip(state.number("overhead")).zip(state.number("fill"));
    let Some(((copied_bytes, overhead), fill)) = log else {
        return Fields::default().with("theory_bytes", bytes);
    };
    let once_bytes = bytes - copied_bytes * overhead;
    let theory = write_amplification(fill.clamp(0.01, 0.99));
    Fields::default()
        .with("once_bytes", once_bytes)
        .with("amplification", bytes / once_bytes)
        .with("theory", theory)
        .with("theory_bytes", once_bytes * theory)
}

#[cfg(test)]
mod tests {
    use aquifer_durable::Options;

    use super::*;

    #[test]
    fn headers_fill_a_log_too() {
        let path = std::env::temp_dir().join(format!("aquifer-bench-log-{}", std::process::id()));
        let heap = DurableHeap::open(&path, &Options::default()).expect("a heap");
        std::fs::remove_file(&path).expect("it is there");
        for _ in 0..100 {
            let made = heap.transaction(|tx| {
                let object = tx.alloc(1000)?;
                tx.store(object, &[1; 1000])
            });
            made.expect("room");
        }
        let blocks = Blocks::of(&heap).expect("it is one");
        // Beside the objects there is the table of areas.
        assert!((100_000..150_000).contains(&blocks.payload_bytes), "{blocks:?}");
        assert!(blocks.bytes >= blocks.payload_bytes + 100 * 16, "{blocks:?}");
        let state = state(&heap);
        let figure = |name| state.number(name).expect("it is there");
        let with_headers = figure("live_share") * blocks.bytes as f64 / blocks.payload_bytes as f64;
        assert!((figure("fill") - with_headers).abs() < 1e-9);
    }

    #[test]
    fn theory_counts_headers() {
        let state = Fields::default().with("overhead", 1.25).with("fill", 0.5);
        let beside = beside_theory(150.0, Some(40.0), &state);
        let figure = |name| beside.number(name).expect("it is there");
        assert_eq!((figure("once_bytes"), figure("amplification")), (100.0, 1.5));
        assert!((figure("theory") - 1.255).abs() < 0.001 && (figure("theory_bytes") - 125.5).abs() < 0.1);
        let in_place = beside_theory(150.0, None, &Fields::default());
        assert_eq!(in_place.number("theory_bytes"), Some(150.0));
        assert_eq!(in_place.number("theory"), None);
    }
}
