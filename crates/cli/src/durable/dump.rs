//! Chunks, blocks and entries as they stand in the file of a durable heap, also if it cannot be opened.

use std::collections::HashMap;
use std::io::Write;

use aquifer_durable::block::{Block, Entry, Kind, Role};
use aquifer_durable::checkpoint::{DamagedPart, Header as PartHeader, Record};
use aquifer_durable::chunk::{ChunkHeader, DamagedHeader, HEADER_BYTES, Previous};
use aquifer_durable::inspect::{Chunk, Found, HeapFile};
use aquifer_durable::superblock::{SUPERBLOCK_BYTES, VERSION};

use crate::error::Error;

/// Writes all of a file to `out`; returns how many places are damaged.
///
/// # Errors
/// [`Error::Durable`] if it cannot be read, [`Error::Output`].
pub fn dump(file: &HeapFile, out: &mut impl Write) -> Result<usize, Error> {
    let superblock = file.superblock();
    let chunk_bytes = u64::from(superblock.chunk_bytes);
    writeln!(
        out,
        "superblock: version {VERSION}, id {:#018x}, chunks of {chunk_bytes} bytes",
        superblock.id
    )?;
    let mut seen = Seen::default();
    for number in 0..file.chunks() {
        seen.dump_chunk(&file.chunk(number)?, out)?;
    }
    let end = SUPERBLOCK_BYTES as u64 + u64::from(file.chunks()) * chunk_bytes;
    if file.len_bytes() > end {
        writeln!(out, "{} bytes at {end}: no whole chunk", file.len_bytes() - end)?;
    }
    seen.dump_missing(out)?;
    Ok(seen.damage)
}

/// What was seen of all chunks.
#[derive(Default)]
struct Seen {
    /// Places that are damaged.
    damage: usize,
    /// For each chunk in use its generation and how far it is filled.
    ends: HashMap<u32, (u32, u32)>,
    /// How far other chunks say that they were durable.
    promised: Vec<Previous>,
}

impl Seen {
    fn dump_chunk(&mut self, chunk: &Chunk, out: &mut impl Write) -> Result<(), Error> {
        if let Some(part) = chunk.part() {
            return self.dump_part(chunk, part, out);
        }
        let (number, offset) = (chunk.number(), chunk.offset());
        let header = match chunk.header() {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(writeln!(out, "chunk {number} at {offset}: free")?),
            Err(DamagedHeader) => {
                self.damage += 1;
                return Ok(writeln!(out, "chunk {number} at {offset}: DAMAGED, its header does not verify")?);
            }
        };
        writeln!(out, "chunk {number} at {offset}: {}", header_text(&header))?;
        let mut blocks = chunk.blocks().peekable();
        let mut end = HEADER_BYTES;
        while let Some((at, found)) = blocks.next() {
            end = at + found.len_bytes();
            let at = offset + at as u64;
            match found {
                Found::Block(block) => {
                    dump_block(at, &block, out)?;
                    let is_last = blocks.peek().is_none();
                    match (block.is_intact(), is_last) {
                        (true, _) => {}
                        (false, true) => {
                            writeln!(out, "  {at}: not whole, it was being written or is damaged")?
                        }
                        (false, false) => {
                            self.damage += 1;
                            writeln!(out, "  {at}: DAMAGED, the bytes of its objects do not verify")?;
                        }
                    }
                }
                Found::Damage(bytes) => {
                    self.damage += 1;
                    writeln!(out, "  {at}: DAMAGED, {bytes} bytes before the next block do not verify")?;
                }
            }
        }
        self.ends.insert(number, (header.generation, end as u32));
        self.promised.extend(header.previous);
        Ok(writeln!(out, "  filled up to {}", offset + end as u64)?)
    }

    fn dump_part(
        &mut self,
        chunk: &Chunk,
        part: Result<PartHeader, DamagedPart>,
        out: &mut impl Write,
    ) -> Result<(), Error> {
        let (number, offset) = (chunk.number(), chunk.offset());
        let Ok(PartHeader { index, is_last, end, opened, number: checkpoint, .. }) = part else {
            self.damage += 1;
            let why = "DAMAGED, the part of a checkpoint that is there does not verify";
            return Ok(writeln!(out, "chunk {number} at {offset}: {why}")?);
        };
        let last = if is_last { ", the last one" } else { "" };
        writeln!(
            out,
            "chunk {number} at {offset}: part {index}{last} of checkpoint {checkpoint}, of version {opened}"
        )?;
        for record in chunk.records() {
            match record {
                Ok(Record::Clock(version)) => writeln!(out, "  chunks have nothing newer than {version}")?,
                Ok(Record::Chunk { number, generation, end }) => {
                    writeln!(
                        out,
                        "  chunk {number} of generation {generation}, filled up to its byte {end}"
                    )?;
                }
                Ok(Record::Partition { number, version, extents }) => {
                    let count = extents.iter().count();
                    writeln!(out, "  partition {number}, version {version}, {count} extents")?;
                }
                Err(DamagedPart) => {
                    self.damage += 1;
                    writeln!(out, "  DAMAGED, a record makes no sense")?;
                }
            }
        }
        Ok(writeln!(out, "  filled up to {}", offset + u64::from(end))?)
    }

    /// Tells which chunks have less than was durable in them.
    fn dump_missing(&mut self, out: &mut impl Write) -> Result<(), Error> {
        for promised in &self.promised {
            match self.ends.get(&promised.number) {
                Some(&(generation, end)) if generation == promised.generation && end < promised.end => {
                    self.damage += 1;
                    let missing = promised.end - end;
                    writeln!(
                        out,
                        "DAMAGED: the last {missing} bytes of chunk {} do not verify",
                        promised.number
                    )?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn header_text(header: &ChunkHeader) -> String {
    let ChunkHeader { generation, opened, previous } = header;
    let before = previous.map_or_else(
        || "none before it".into(),
        |previous| {
            let (number, generation, end) = (previous.number, previous.generation, previous.end);
            format!("before it chunk {number} of generation {generation}, durable up to its byte {end}")
        },
    );
    format!("generation {generation}, opened at version {opened}, {before}")
}

fn dump_block(at: u64, block: &Block<'_>, out: &mut impl Write) -> Result<(), Error> {
    let role = match block.role() {
        Role::Whole if block.entries().next().is_none() => "the end of the chunk",
        Role::Whole => "a transaction",
        Role::Part => "part of a transaction",
        Role::Last => "last part of a transaction",
    };
    writeln!(out, "  {at}: version {}, {role}, {} bytes", block.version(), block.len_bytes())?;
    block.entries().try_for_each(|entry| dump_entry(at, &entry, out))
}

fn dump_entry(block: u64, entry: &Entry, out: &mut impl Write) -> Result<(), Error> {
    let (home, grains) = (entry.home.0, entry.grains);
    let what = match entry.kind {
        Kind::Bytes => format!("bytes, at {}", block + entry.payload as u64),
        Kind::Zeros => "zeros".into(),
        Kind::Hole => "freed".into(),
        Kind::Commit => return Ok(writeln!(out, "    the transaction of version {home} has committed")?),
    };
    Ok(writeln!(out, "    home {home:#012x}, grains {grains}: {what}")?)
}
