//! What is left of a damaged file, in a new one.
//!
//! Blocks that do not verify are left out, and so are chunks whose headers do not. All other transactions count, in their order, so that
//! objects of the lost ones are as they were before, or missing; freed ones may be there again. What was lost is listed by its place in the
//! file, and by the versions of the transactions around it.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_map::partitions::{GRAINS, Source};

use crate::core::Core;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::heap::{DurableHeap, Options};
use crate::homes::{self, AREA_BYTES};
use crate::inspect::HeapFile;
use crate::log::{Log, capacity_bytes_max};
use crate::record::{self, NO_FLOOR, Record};
pub use crate::recovery::Loss;
use crate::recovery::{self, Damage, LeftOut};
use crate::tuning::Tuning;

/// Bytes that are copied in one transaction, about.
const COPIED_BYTES: u64 = 256 << 10;
const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Room for more than is left of any file.
const CAPACITY_BYTES_MIN: u64 = 1 << 30;
/// How often blocks are left out that turn out to be needed, before all are whose payloads do not verify.
const TRIES: usize = 8;

/// What a salvage has found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Salvaged {
    /// Damage that it went around, in the order of the file.
    pub losses: Vec<Loss>,
    /// Objects in the new file.
    pub objects: u64,
    /// Bytes of objects in it.
    pub live_bytes: u64,
}

/// The map of all that verifies, between which partitions that is, and what does not.
type Recovered = (Core, Range<u64>, Vec<Loss>);

impl HeapFile {
    /// Copies all that verifies into a new heap in the file at `target`, which must not be there; every object has the reference that it had. The
    /// damaged file is read and never changed. `progress` is told which share was copied.
    ///
    /// # Errors
    /// [`Error::Io`] if the target exists or cannot be written, or the file cannot be read; [`Error::Damaged`] if a record is damaged
    /// without which nothing can be told of the file. There is no target then.
    ///
    /// # Durability
    /// All of the target is durable when this returns.
    pub fn salvage(&self, target: &Path, progress: impl FnMut(f64)) -> Result<Salvaged> {
        let refused = |error| Error::io(format!("making {}", target.display()))(error);
        if target.symlink_metadata().is_ok() {
            return Err(refused(ErrorKind::AlreadyExists.into()));
        }
        // An interrupted salvage leaves nothing that looks like the whole.
        let mut part = target.as_os_str().to_owned();
        part.push(format!(".part-{}", std::process::id()));
        let part = Path::new(&part);
        let saved = self.salvage_to(part, progress);
        // A link replaces nothing.
        let saved = saved.and_then(|saved| std::fs::hard_link(part, target).map_err(refused).map(|()| saved));
        let _ = std::fs::remove_file(part);
        saved
    }

    fn salvage_to(&self, target: &Path, mut progress: impl FnMut(f64)) -> Result<Salvaged> {
        let (core, used, mut losses) = self.recover()?;
        let chunk_bytes = self.superblock().chunk_bytes;
        let options = Options {
            capacity_bytes: capacity_bytes_max(chunk_bytes).min(2 * self.len_bytes() + CAPACITY_BYTES_MIN),
            chunk_bytes,
            durability: Durability::Relaxed,
            ..Options::default()
        };
        let heap = DurableHeap::open(target, &options)?;
        let total = core.log.live_bytes().max(1);
        let (mut transaction, mut copied, mut done) = (heap.begin(), 0, 0);
        let known: HashSet<u32> = core.homes.areas().into_iter().collect();
        let mut nameless = BTreeSet::new();
        for number in used {
            let id = PartitionId(number as u32);
            let area = (id.start().0 / AREA_BYTES) as u32;
            for (start, grains, source) in runs(&core, id) {
                let home = HomeAddress(id.start().0 + start as u64 * GRAIN);
                let read = |out: &mut [u8]| match source {
                    Source::Log(grain) => core.log.persist.read(grain * GRAIN, out),
                    Source::Zeros | Source::Hole => out.fill(0),
                };
                if !known.contains(&area) {
                    nameless.insert(area);
                }
                copied += if source == Source::Zeros { 16 } else { u64::from(grains) * GRAIN };
                transaction.put(home, grains, (source != Source::Zeros).then_some(read));
                if copied >= COPIED_BYTES {
                    transaction.commit()?;
                    (transaction, done, copied) = (heap.begin(), done + copied, 0);
                    progress(done.min(total) as f64 / total as f64);
                }
            }
        }
        for &area in &nameless {
            // Whatever is allocated later must not be put over them.
            transaction.store(homes::class_home(area), &homes::CLASS_LOST.to_le_bytes())?;
            let (offset, why) = (
                0,
                format!(
                    "the size of the objects from {:#x} on is lost: they can be loaded and stored, and not freed",
                    u64::from(area) * AREA_BYTES
                ),
            );
            losses.push(Loss { offset, bytes: 0, why });
        }
        transaction.commit()?;
        heap.sync()?;
        drop(heap);
        self.ensure_all_was_read()?;
        // As a program finds it.
        let contents = HeapFile::open(target)?.contents()?;
        losses.sort_by_key(|loss| loss.offset);
        Ok(Salvaged { losses, objects: contents.objects, live_bytes: contents.usage.live_bytes })
    }

    /// The map of all that verifies, between which partitions that is, and what does not.
    fn recover(&self) -> Result<Recovered> {
        // Without a block of which something was needed an older one is, which may be damaged too.
        let mut left_out = HashSet::new();
        for _ in 0..TRIES {
            let (recovered, needed) = self.recover_without(LeftOut::Of(left_out.clone()))?;
            if needed.is_empty() {
                return Ok(recovered);
            }
            left_out.extend(needed);
        }
        self.recover_without(LeftOut::All).map(|(recovered, _)| recovered)
    }

    /// The same without some blocks; and those whose payloads do not verify and of which something is needed.
    fn recover_without(&self, left_out: LeftOut) -> Result<(Recovered, Vec<u64>)> {
        let (memory, superblock) = (self.memory(), self.superblock());
        let floor =
            Record::read(&*memory, superblock.id, record::Kind::Floor).map_or(NO_FLOOR, |floor| floor.value);
        let capacity_bytes = memory.len_bytes().min(capacity_bytes_max(superblock.chunk_bytes));
        let log = Log::new(memory, superblock, capacity_bytes, 85)?;
        let core = Core::new(log, None, &Tuning::default())?;
        let mut damage = Damage::listed(Arc::new(left_out));
        let used = recovery::recover(&core, floor, Options::default().opening_bytes, &mut damage)?;
        let (losses, needed) = damage.into_lists();
        Ok(((core, used, losses), needed))
    }
}

/// The runs of a partition in which something is allocated: where each begins, how many grains it has, and where its bytes are.
fn runs(core: &Core, id: PartitionId) -> Vec<(u16, u32, Source)> {
    let mut extents = Vec::new();
    core.map.for_each_extent(id, |start, source| extents.push((start, source)));
    let ends = extents.iter().skip(1).map(|&(start, _)| usize::from(start)).chain([GRAINS]);
    let runs = extents.iter().zip(ends.collect::<Vec<_>>());
    runs.filter(|((_, source), _)| *source != Source::Hole)
        .map(|(&(start, source), end)| (start, (end - usize::from(start)) as u32, source))
        .collect()
}
