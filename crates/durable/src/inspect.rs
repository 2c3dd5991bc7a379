//! A heap's file looked at from outside: what recovery finds in it, or its chunks and blocks one by one. It is opened for reading only
//! and never changed, whatever is in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use aquifer_base::limits::{LOG_GRAIN_BYTES, PARTITION_BYTES};
use aquifer_base::{HomeAddress, PartitionId};
use aquifer_map::partitions::{GRAINS, Hint, Partitions, Source};

use crate::checkpoint::{self, DamagedPart, Records};
use crate::chunk::{self, ChunkHeader, DamagedHeader, Head};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::homes::{AREA_BYTES, AREAS, SizeClass};
use crate::log::Log;
use crate::persist::{Counts, Persist};
use crate::record::{self, Record};
use crate::recovery;
use crate::superblock::{SUPERBLOCK_BYTES, Superblock, USED_BYTES};
use crate::tuning::Tuning;
use crate::usage::Usage;
pub use crate::walk::{Blocks, Found};

/// RAM for the map of a heap that is looked at, and entries on their way to it.
const RAM_BYTES: u64 = 20 << 20;

/// A file of which only bytes are asked for.
struct Reader {
    file: File,
    len_bytes: u64,
    /// The first read that did not succeed; zeros were given in its place.
    failed: Mutex<Option<io::Error>>,
    counts: Counts,
}

impl Reader {
    /// Bytes of the file; zeros from beyond its end.
    fn read(&self, offset: u64, out: &mut [u8]) {
        let inside = self.len_bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let (inside, beyond) = out.split_at_mut(inside);
        beyond.fill(0);
        if let Err(error) = self.file.read_exact_at(inside, offset) {
            inside.fill(0);
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// # Errors
    /// That of the first read that did not succeed.
    fn ensure_all_was_read(&self) -> Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(Error::io("reading the heap's file")(error)))
    }
}

/// The memory of a heap that nothing is committed to.
struct ReadOnly(Arc<Reader>);

impl ReadOnly {
    fn refuse<T>() -> Result<T> {
        Err(Error::io("changing a heap's file that is only looked at")(
            io::ErrorKind::ReadOnlyFilesystem.into(),
        ))
    }
}

impl Persist for ReadOnly {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes
    }

    fn grow(&self, _: u64) -> Result<()> {
        Self::refuse()
    }

    fn persist(&self, _: u64, _: &[u8]) -> Result<()> {
        Self::refuse()
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.0.read(offset, out);
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        Self::refuse()
    }

    fn refill(&self, _: u64, _: u64) -> Result<()> {
        Self::refuse()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn counts(&self) -> &Counts {
        &self.0.counts
    }
}

/// What recovery finds in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Objects that are allocated.
    pub objects: u64,
    /// The version of the newest transaction; 0 if there was none.
    pub newest_version: u64,
    /// Blocks that are damaged, and of which nothing is needed: all that they changed was changed again.
    pub damaged_blocks: u64,
    /// Bytes of objects, memory of the chunks in use, RAM of the map.
    pub usage: Usage,
}

/// A heap's file, opened for reading.
pub struct HeapFile {
    reader: Arc<Reader>,
    superblock: Superblock,
    name: String,
    allocated_bytes: u64,
}

impl HeapFile {
    /// Opens the file at `path`, which must exist.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is no durable heap of this version, or an empty file; [`Error::Damaged`] if it was one and its first
    /// bytes are damaged; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |what: &str| Error::io(format!("{what} {name}"));
        let foreign = |why: &str| Error::Foreign { path: name.clone(), why: why.into() };
        // Opening what is not a file could wait for somebody.
        let metadata = std::fs::metadata(path).map_err(failed("looking at"))?;
        if !metadata.is_file() {
            return Err(foreign("it is no regular file"));
        }
        let file = File::open(path).map_err(failed("opening"))?;
        let metadata = file.metadata().map_err(failed("looking at"))?;
        let reader =
            Reader { file, len_bytes: metadata.len(), failed: Mutex::default(), counts: Counts::default() };
        let mut first = [0; USED_BYTES];
        reader.read(0, &mut first);
        reader.ensure_all_was_read()?;
        if metadata.len() <= SUPERBLOCK_BYTES as u64 && first[..8] == [0; 8] {
            return Err(foreign("it is empty: a heap was to be made there, and was not"));
        }
        let superblock = Superblock::decode(&first).map_err(|why| superblock_error(&first, &name, why))?;
        let allocated_bytes = metadata.blocks() * 512;
        Ok(Self { reader: Arc::new(reader), superblock, name, allocated_bytes })
    }

    /// Keeps everybody from changing the file until this is dropped, with others who only look. False if somebody has the heap.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(&self) -> Result<bool> {
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(self.reader.file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock {
            return Ok(false);
        }
        Err(Error::io(format!("locking {}", self.name))(error))
    }

    /// What the file is, and how it is divided.
    pub fn superblock(&self) -> Superblock {
        self.superblock
    }

    /// How long it is.
    pub fn len_bytes(&self) -> u64 {
        self.reader.len_bytes
    }

    /// What it takes of its file system.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// How many whole chunks it has.
    pub fn chunks(&self) -> u32 {
        let bytes = self.reader.len_bytes.saturating_sub(SUPERBLOCK_BYTES as u64);
        u32::try_from(bytes / u64::from(self.superblock.chunk_bytes)).unwrap_or(u32::MAX)
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// [`Error::Io`]. Damage is in the chunk, and told by its methods.
    pub fn chunk(&self, number: u32) -> Result<Chunk> {
        let chunk_bytes = self.superblock.chunk_bytes;
        let offset = SUPERBLOCK_BYTES as u64 + u64::from(number) * u64::from(chunk_bytes);
        let mut bytes = vec![0; chunk_bytes as usize];
        self.reader.read(offset, &mut bytes);
        self.reader.ensure_all_was_read()?;
        let (head, _) = bytes.split_first_chunk().expect("a chunk is larger than its header");
        let id = self.superblock.id;
        let head = Head::decode(head, id, number);
        let part = checkpoint::Header::is_in(&bytes)
            .then(|| checkpoint::Header::decode_part(&bytes, id, number).map(|(header, _)| header));
        let header = match (head, part) {
            (Ok(Head::Used(header)), _) => Ok(Some(header)),
            (Err(damaged), None) => Err(damaged),
            _ => Ok(None),
        };
        let seed = match header {
            Ok(Some(header)) => chunk::seed(id, number, header.generation),
            _ => 0,
        };
        Ok(Chunk { number, offset, header, part, bytes, seed })
    }

    /// It, as the memory of a heap that nothing is committed to.
    pub(crate) fn memory(&self) -> Box<dyn Persist> {
        Box::new(ReadOnly(self.reader.clone()))
    }

    /// # Errors
    /// That of the first read that did not succeed.
    pub(crate) fn ensure_all_was_read(&self) -> Result<()> {
        self.reader.ensure_all_was_read()
    }

    /// Tells what recovery finds in it. Every block is verified. Takes at most 64 MiB of RAM, and longer if the heap's map has no room
    /// in that.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn contents(&self) -> Result<Contents> {
        let memory = self.memory();
        let floor = Record::read(&*memory, self.superblock.id, record::Kind::Floor)?;
        let core = Core::new(Log::new(memory, self.superblock, self.len_bytes(), 85)?, None, &Tuning::ALL)?;
        let mut counted = Counted::default();
        let damaged_blocks = recovery::recover_by_parts(&core, floor.value, RAM_BYTES, |map, partitions| {
            counted.add(&core, map, partitions)
        })?;
        self.reader.ensure_all_was_read()?;
        let usage =
            Usage { live_bytes: counted.live_bytes, map_bytes: counted.map_bytes, ..Usage::of(&core) };
        let newest_version = core.clock.load(Ordering::Relaxed);
        Ok(Contents { objects: counted.objects, newest_version, damaged_blocks, usage })
    }
}

/// What is wrong with a file whose superblock does not verify: it is something else, or it was a heap of this version.
fn superblock_error(bytes: &[u8; USED_BYTES], name: &str, why: String) -> Error {
    // Magic and version do not depend on the heap.
    let any = Superblock { chunk_bytes: Superblock::CHUNK_BYTES_MIN, id: 0 }.encode();
    if bytes[..12] == any[..12] {
        return Error::Damaged { offset: 0, why };
    }
    Error::Foreign { path: name.into(), why }
}

/// A chunk as it stands in the file.
pub struct Chunk {
    number: u32,
    offset: u64,
    header: std::result::Result<Option<ChunkHeader>, DamagedHeader>,
    part: Option<std::result::Result<checkpoint::Header, DamagedPart>>,
    bytes: Vec<u8>,
    seed: u32,
}

impl Chunk {
    /// Which one it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its header; `None` of a chunk that is free, or has a part of a checkpoint.
    ///
    /// # Errors
    /// It does not verify.
    pub fn header(&self) -> std::result::Result<Option<ChunkHeader>, DamagedHeader> {
        self.header
    }

    /// What is said of the part of a checkpoint that it has, if it has one.
    ///
    /// # Errors
    /// It does not verify. The heap can be opened all the same.
    pub fn part(&self) -> Option<std::result::Result<checkpoint::Header, DamagedPart>> {
        self.part
    }

    /// The records of that part; none if it has none, or one that does not verify.
    pub fn records(&self) -> Records<'_> {
        let bytes = match self.part {
            Some(Ok(header)) => &self.bytes[checkpoint::HEADER_BYTES..header.end as usize],
            _ => &[],
        };
        Records::new(bytes, 0..u64::MAX)
    }

    /// Its blocks from front to back; none of a chunk without a header.
    pub fn blocks(&self) -> Blocks<'_> {
        let has_blocks = matches!(self.header, Ok(Some(_)));
        let bytes: &[u8] = if has_blocks { &self.bytes } else { &[] };
        Blocks::new(bytes, self.seed)
    }
}

/// What was counted in parts of a heap.
#[derive(Default)]
struct Counted {
    /// The class of each area that has one, if that is known.
    codes: Option<BTreeMap<u32, u16>>,
    objects: u64,
    live_bytes: u64,
    map_bytes: u64,
}

impl Counted {
    /// Adds a part. The first one has the table of all areas.
    fn add(&mut self, heap: &Core, map: &Partitions, partitions: Range<u64>) -> Result<()> {
        let codes = match &mut self.codes {
            Some(codes) => codes,
            unknown => unknown.insert(recovery::classes(heap, map)?),
        };
        let area_of = |number: u64| (number * PARTITION_BYTES as u64 / AREA_BYTES) as u32;
        for area in area_of(partitions.start)..=area_of(partitions.end - 1).min(AREAS as u32 - 1) {
            let whole = recovery::partitions_of(area);
            let of_part = whole.start.max(partitions.start)..whole.end.min(partitions.end);
            match codes.get(&area).map(|&code| SizeClass::from_code(code)) {
                Some(Some(class)) => self.objects += count_slots(map, area, of_part, class.slot_bytes()),
                None if area > 0 => recovery::ensure_unused(map, of_part)?,
                _ => {}
            }
        }
        self.map_bytes += map.ram_bytes() as u64;
        for number in partitions {
            let (mut last, mut grains) = (None, 0);
            map.for_each_extent(PartitionId(number as u32), |start, source| {
                grains += last.map_or(0, |last| u64::from(start - last));
                last = matches!(source, Source::Log(_)).then_some(start);
            });
            grains += last.map_or(0, |last| GRAINS as u64 - u64::from(last));
            self.live_bytes += grains * LOG_GRAIN_BYTES as u64;
        }
        Ok(())
    }
}

/// The objects of an area that begin in some of its partitions.
fn count_slots(map: &Partitions, area: u32, partitions: Range<u64>, slot_bytes: u64) -> u64 {
    let area = u64::from(area) * AREA_BYTES;
    let byte = |partition: u64| partition * PARTITION_BYTES as u64 - area;
    let (mut at, mut objects) = (next_slot(byte(partitions.start), slot_bytes), 0);
    while at < byte(partitions.end) {
        let home = HomeAddress(area + at);
        let grain = home.offset_bytes() / LOG_GRAIN_BYTES;
        let run = map.find(home.partition(), grain, &mut Hint::default());
        if run.source == Source::Hole {
            // Nothing begins up to the end of the run.
            let end = (home.partition().start().0 - area) + (run.end * LOG_GRAIN_BYTES) as u64;
            at = next_slot(end, slot_bytes);
        } else {
            objects += 1;
            at = next_slot(at + slot_bytes, slot_bytes);
        }
    }
    objects
}

/// Where the first slot at or after a byte of an area begins. Small slots cross no partition, large ones follow each other.
fn next_slot(byte: u64, slot_bytes: u64) -> u64 {
    let partition = PARTITION_BYTES as u64;
    if slot_bytes > partition {
        return byte.next_multiple_of(slot_bytes);
    }
    let within = (byte % partition).next_multiple_of(slot_bytes);
    let start = byte - byte % partition;
    if within + slot_bytes <= partition { start + within } else { start + partition }
}
