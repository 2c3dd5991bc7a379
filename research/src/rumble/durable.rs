//! The durable heap, and where its memory is, found by reading its file as recovery would.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use aquifer_base::HomeAddress;
use aquifer_bench::error::{Error, Result};
use aquifer_bench::study::Fields;
use aquifer_durable::block::Kind;
use aquifer_durable::chunk::{self, ChunkHeader};
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, Superblock};
use aquifer_durable::walk::{Blocks, Found};
use aquifer_durable::{Backing, DurableHeap, Options, Usage};

use super::RumbleTask;
use super::books::Object;
use super::churn::Peaks;
use super::malloc::Resident;
use super::store::{Footprint, Store};

const SIZE_MAX: usize = u16::MAX as usize;
/// Capacity in units of the cap: far from being what limits the file.
const CAPACITY: u64 = 4;
const CAPACITY_BYTES_MIN: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 512;

/// Objects of a heap on a file in RAM; memory is the file's.
pub struct Heap {
    heap: DurableHeap,
    file: File,
    payload: Vec<u8>,
    baseline_bytes: u64,
    blocks_max_bytes: u64,
    ram_max_bytes: u64,
    wants_breakdown: bool,
    breakdown: Option<Breakdown>,
}

fn failed(error: aquifer_durable::Error) -> Error {
    Error::Input(format!("the durable heap: {error}"))
}

impl Heap {
    /// A new heap in the task's file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Input`] with what the heap says.
    pub fn create(task: &RumbleTask) -> Result<Self> {
        let baseline_bytes = Resident::now()?.anonymous_bytes;
        let options = Options {
            capacity_bytes: (CAPACITY * task.live_bytes).max(CAPACITY_BYTES_MIN),
            chunk_bytes: task.chunk_bytes,
            utilisation_percent: task.contestant.utilisation_percent,
            backing: Backing::Memory,
            ..Options::default()
        };
        Ok(Self {
            heap: DurableHeap::open(&task.path, &options).map_err(failed)?,
            file: File::open(&task.path).map_err(Error::io("opening", &task.path))?,
            payload: vec![0xA5; SIZE_MAX],
            baseline_bytes,
            blocks_max_bytes: 0,
            ram_max_bytes: 0,
            wants_breakdown: task.wants_breakdown,
            breakdown: None,
        })
    }
}

impl Store for Heap {
    fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()> {
        let before = made.len();
        let payload = &self.payload;
        let outcome = self.heap.transaction(|tx| {
            // A transaction that met another one is run again.
            made.truncate(before);
            for &bytes in sizes {
                let home = tx.alloc(u64::from(bytes))?;
                tx.store(home, &payload[..bytes as usize])?;
                made.push(Object { home: home.0, bytes });
            }
            Ok(())
        });
        outcome.map_err(failed)
    }

    fn free(&mut self, objects: &[Object]) -> Result<()> {
        let outcome = self
            .heap
            .transaction(|tx| objects.iter().try_for_each(|object| tx.free(HomeAddress(object.home))));
        outcome.map_err(failed)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let usage = self.heap.usage();
        let blocks = self.file.metadata().map_err(Error::io("looking at", "the heap's file"))?.blocks();
        self.blocks_max_bytes = self.blocks_max_bytes.max(blocks * BLOCK_BYTES);
        let ram_bytes = Resident::now()?.anonymous_bytes.saturating_sub(self.baseline_bytes);
        self.ram_max_bytes = self.ram_max_bytes.max(ram_bytes);
        Ok(Footprint {
            resident_bytes: usage.file_bytes + SUPERBLOCK_BYTES as u64,
            reserve_bytes: usage.reserve_bytes + SUPERBLOCK_BYTES as u64,
            map_bytes: usage.map_bytes,
        })
    }

    fn look_into(&mut self, object_bytes: u64) -> Result<()> {
        if self.wants_breakdown {
            self.breakdown = Some(Breakdown::of(&self.heap, object_bytes)?);
        }
        Ok(())
    }

    fn figures(&self, live_bytes: u64, peaks: &Peaks) -> Fields {
        let (counts, cleaned) = (self.heap.persist().counts(), self.heap.cleaned());
        let each = |bytes: u64| bytes as f64 / peaks.allocated_bytes as f64;
        let per_live = |bytes: u64| bytes as f64 / live_bytes as f64;
        let figures = Fields::default()
            .with("durable.written_each", each(counts.bytes()))
            .with("durable.map_ratio", per_live(peaks.map_bytes))
            .with("durable.ram_ratio", per_live(self.ram_max_bytes))
            .with("durable.blocks_max_bytes", self.blocks_max_bytes)
            .with("durable.file_ratio", self.blocks_max_bytes as f64 / peaks.resident_bytes as f64)
            .with("durable.copied_each", each(cleaned.copied_bytes))
            .with("durable.cleaned_chunks", cleaned.chunks)
            .with("durable.fences", counts.fences());
        match &self.breakdown {
            Some(parts) => figures.and(parts.figures()),
            None => figures,
        }
    }
}

/// Parts of a file's memory, in bytes. Their sum is all of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Breakdown {
    /// Objects, as large as the program wants them.
    object_bytes: u64,
    /// What rounding adds to them.
    rounding_bytes: u64,
    /// What objects were and are no more: of chunks that have not been cleaned yet.
    dead_bytes: u64,
    /// Headers of chunks and blocks, indexes, padding.
    index_bytes: u64,
    /// Of these, entries for what was freed.
    holes: u64,
    /// What open chunks have room for, and what no block fitted at the ends of full ones.
    unfilled_bytes: u64,
    /// Free chunks that keep their memory.
    free_bytes: u64,
    /// The superblock.
    superblock_bytes: u64,
    /// Chunks that are in use.
    chunks: u64,
}

/// What one chunk has.
#[derive(Default)]
struct Filling {
    payload_bytes: u64,
    index_bytes: u64,
    unfilled_bytes: u64,
    holes: u64,
}

impl Filling {
    /// The blocks of a chunk in use.
    fn of(bytes: &[u8], seed: u32) -> Self {
        let mut filling = Self { index_bytes: chunk::HEADER_BYTES as u64, ..Self::default() };
        let mut end = chunk::HEADER_BYTES;
        for (at, found) in Blocks::new(bytes, seed) {
            end = at + found.len_bytes();
            let Found::Block(block) = found else { continue };
            let payload: u64 = block
                .entries()
                .filter(|entry| entry.kind == Kind::Bytes)
                .map(|entry| u64::from(entry.grains) * GRAIN_BYTES)
                .sum();
            filling.holes += block.entries().filter(|entry| entry.kind == Kind::Hole).count() as u64;
            filling.payload_bytes += payload;
            filling.index_bytes += block.len_bytes() as u64 - payload;
        }
        filling.unfilled_bytes = (bytes.len() - end) as u64;
        filling
    }
}

const GRAIN_BYTES: u64 = aquifer_base::limits::LOG_GRAIN_BYTES as u64;

impl Breakdown {
    /// The parts of a heap with `object_bytes` of live objects, to which nobody writes meanwhile.
    ///
    /// # Errors
    /// [`Error::Input`] if the file is not one of a durable heap.
    fn of(heap: &DurableHeap, object_bytes: u64) -> Result<Self> {
        // The heap's own thread may be cleaning; it comes to an end while nobody writes.
        loop {
            let before = heap.cleaned();
            let parts = Self::look(heap, object_bytes)?;
            if heap.cleaned() == before {
                return Ok(parts);
            }
        }
    }

    fn look(heap: &DurableHeap, object_bytes: u64) -> Result<Self> {
        let persist = heap.persist();
        let superblock = Superblock::find(persist).map_err(Error::Input)?;
        let superblock = superblock.ok_or_else(|| Error::Input("the heap has no superblock".into()))?;
        let usage = heap.usage();
        let mut parts = Self::known(&usage, object_bytes);
        let mut bytes = vec![0; superblock.chunk_bytes as usize];
        let chunks = (persist.len_bytes() - SUPERBLOCK_BYTES as u64) / bytes.len() as u64;
        let mut payload_bytes = 0;
        for number in 0..chunks as u32 {
            persist.read(SUPERBLOCK_BYTES as u64 + u64::from(number) * bytes.len() as u64, &mut bytes);
            let header = bytes.first_chunk().expect("a chunk is larger than its header");
            let Some(header) = ChunkHeader::decode(header, superblock.id, number) else { continue };
            let filling = Filling::of(&bytes, chunk::seed(superblock.id, number, header.generation));
            payload_bytes += filling.payload_bytes;
            parts.index_bytes += filling.index_bytes;
            parts.unfilled_bytes += filling.unfilled_bytes;
            parts.holes += filling.holes;
            parts.chunks += 1;
        }
        parts.dead_bytes = payload_bytes.saturating_sub(usage.live_bytes);
        Ok(parts)
    }

    fn known(usage: &Usage, object_bytes: u64) -> Self {
        Self {
            object_bytes,
            rounding_bytes: usage.live_bytes.saturating_sub(object_bytes),
            free_bytes: usage.reserve_bytes,
            superblock_bytes: SUPERBLOCK_BYTES as u64,
            ..Self::default()
        }
    }

    /// Share of the memory without dead bytes and free chunks that is no object: what no cleaning regains.
    fn lost(&self) -> f64 {
        let kept = self.total_bytes() - self.dead_bytes - self.free_bytes - self.superblock_bytes;
        1.0 - self.object_bytes as f64 / kept as f64
    }

    /// The parts but the superblock, by their names.
    fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("object", self.object_bytes),
            ("rounding", self.rounding_bytes),
            ("dead", self.dead_bytes),
            ("index", self.index_bytes),
            ("unfilled", self.unfilled_bytes),
            ("free", self.free_bytes),
        ]
    }

    /// All of it.
    fn total_bytes(&self) -> u64 {
        self.superblock_bytes + self.named().iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    fn figures(&self) -> Fields {
        let total_bytes = self.total_bytes();
        let figures = Fields::default()
            .with("parts.total_bytes", total_bytes)
            .with("parts.object_bytes", self.object_bytes)
            .with("parts.lost_percent", 100.0 * self.lost())
            .with("parts.holes", self.holes)
            .with("parts.chunks", self.chunks);
        self.named().into_iter().fold(figures, |figures, (name, bytes)| {
            figures.with(&format!("parts.{name}_percent"), 100.0 * bytes as f64 / total_bytes as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shares_of_their_sum() {
        let parts = Breakdown {
            object_bytes: 800,
            dead_bytes: 150,
            index_bytes: 100,
            free_bytes: 50,
            ..Breakdown::default()
        };
        let figures = parts.figures();
        let shown =
            |name: &str| format!("{:.1}", figures.number(&format!("parts.{name}_percent")).expect("there"));
        let all = ["object", "rounding", "dead", "index", "unfilled", "free", "lost"].map(shown);
        assert_eq!(all, ["72.7", "0.0", "13.6", "9.1", "0.0", "4.5", "11.1"]);
    }
}
