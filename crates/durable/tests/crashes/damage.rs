//! Damage to what a cut has left: bad blocks, lost writes and misdirected writes.

use std::ops::Range;
use std::sync::Arc;

use crate::durable::{CHUNK_BYTES, SUPERBLOCK_BYTES, image};
use crate::hits::Kind;
use crate::machine::{Machine, mix};
use crate::memory::{Memory, PAGE_BYTES, Write};

const SECTOR_BYTES: u64 = 512;
/// Writes that are looked at for one whose loss makes a difference.
const TRIES: u64 = 30;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A bit is flipped.
    Bit,
    /// Sectors have zeros.
    Zeros,
    /// Sectors have other bytes.
    Garbage,
    /// A write that was acknowledged has not happened.
    Lost(Kind),
    /// A write that was acknowledged has happened elsewhere.
    Misdirected(Kind),
}

/// A memory with damage.
pub struct Damaged {
    pub machine: Arc<Machine>,
    pub damage: Damage,
    /// The bytes that are not as they were.
    pub ranges: Vec<Range<u64>>,
}

impl Damaged {
    /// Damages a copy of `machine`'s memory, as `seed` says; none if the damage changes nothing.
    pub fn new(machine: &Machine, seed: u64) -> Option<Self> {
        let damaged = image(machine, false);
        if damaged.with_memory(0, |copy| copy.len) == 0 {
            return None;
        }
        let damage = machine.with_memory(0, |memory| {
            damaged.with_memory(0, |copy| match mix(seed) % 8 {
                0 => Some(flip(memory, copy, seed)),
                1 | 2 => Some(overwrite(copy, seed, Damage::Zeros)),
                3 => Some(overwrite(copy, seed, Damage::Garbage)),
                4..6 => lose(memory, copy, seed, false),
                _ => lose(memory, copy, seed, true),
            })
        })?;
        let ranges = machine
            .with_memory(0, |memory| damaged.with_memory(0, |copy| differences(memory.file(), copy.file())));
        (!ranges.is_empty()).then_some(Self { machine: damaged, damage, ranges })
    }
}

/// Where two files of one length differ.
fn differences(one: &[u8], other: &[u8]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let page = PAGE_BYTES as usize;
    let pages = one.chunks(page).zip(other.chunks(page)).enumerate().filter(|(_, (one, other))| one != other);
    for (n, (one, other)) in pages {
        for at in (0..one.len()).filter(|&at| one[at] != other[at]).map(|at| (n * page + at) as u64) {
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => ranges.push(at..at + 1),
            }
        }
    }
    ranges
}

/// A place of the file, often one that describes others.
fn place(len: u64, seed: u64) -> u64 {
    let chunks = (len.saturating_sub(SUPERBLOCK_BYTES) / CHUNK_BYTES).max(1);
    let chunk = SUPERBLOCK_BYTES + mix(seed ^ 2) % chunks * CHUNK_BYTES;
    let at = match mix(seed ^ 1) % 8 {
        0 => mix(seed ^ 3) % SUPERBLOCK_BYTES,
        1 => chunk,
        // Chunks are full from the front on.
        2..5 => chunk + mix(seed ^ 3) % (CHUNK_BYTES / 8),
        _ => mix(seed ^ 3) % len,
    };
    at.min(len - 1)
}

fn flip(memory: &Memory, copy: &mut Memory, seed: u64) -> Damage {
    let mut at = place(copy.len, seed);
    let writes = memory.writes().len() as u64;
    if mix(seed ^ 4).is_multiple_of(2) && writes > 0 {
        let write = memory.writes().nth((mix(seed ^ 5) % writes) as usize).expect("so many");
        at = write.offset + mix(seed ^ 6) % write.after.len() as u64;
    }
    copy.bytes[at as usize] ^= 1 << (mix(seed ^ 7) % 8);
    Damage::Bit
}

fn overwrite(copy: &mut Memory, seed: u64, damage: Damage) -> Damage {
    let start = place(copy.len, seed) / SECTOR_BYTES * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES * (1 + mix(seed ^ 4) % 8)).min(copy.len);
    for at in start..end {
        let byte = if damage == Damage::Zeros { 0 } else { mix(seed ^ at << 8) as u8 };
        copy.bytes[at as usize] = byte;
    }
    damage
}

/// Undoes a write, and does it elsewhere if it is misdirected. What was written later, there or elsewhere, stays.
fn lose(memory: &Memory, copy: &mut Memory, seed: u64, is_misdirected: bool) -> Option<Damage> {
    let writes: Vec<&Write> = memory.writes().collect();
    if writes.is_empty() {
        return None;
    }
    for seed in (0..TRIES).map(|n| mix(seed ^ n << 32)) {
        // Often one of the newest, behind which nothing may be.
        let newest = if mix(seed ^ 8).is_multiple_of(4) { writes.len().min(8) } else { writes.len() };
        let number = writes.len() - 1 - mix(seed ^ 1) as usize % newest;
        let write = writes[number];
        // Most are commits.
        if !write.is_acknowledged || write.kind == Kind::Commit && mix(seed ^ 2).is_multiple_of(2) {
            continue;
        }
        let later = &writes[number + 1..];
        let undone = put(copy, later, write.offset, &write.before);
        if !is_misdirected {
            if undone {
                return Some(Damage::Lost(write.kind));
            }
            continue;
        }
        let target = elsewhere(&writes, write, seed);
        let own = write.offset..write.end();
        let is_free = target.end <= copy.len && (target.end <= own.start || own.end <= target.start);
        if is_free && put(copy, later, target.start, &write.after) {
            return Some(Damage::Misdirected(write.kind));
        }
        // It is not undone either.
        put(copy, later, write.offset, &write.after);
    }
    None
}

/// Where a write could have gone that has gone astray.
fn elsewhere(writes: &[&Write], write: &Write, seed: u64) -> Range<u64> {
    let len = write.after.len() as u64;
    let far = [SECTOR_BYTES, PAGE_BYTES, CHUNK_BYTES][mix(seed ^ 3) as usize % 3] << (mix(seed ^ 4) % 3);
    let chunk = |offset: u64| offset.checked_sub(SUPERBLOCK_BYTES).map(|offset| offset / CHUNK_BYTES);
    let is_alike = |other: &&&Write| {
        chunk(other.offset) == chunk(write.offset)
            && other.after.len() == write.after.len()
            && other.offset != write.offset
    };
    let start = match mix(seed ^ 5) % 4 {
        // Where something else was written, of the same length in the same chunk if there is any.
        0 => writes.iter().rev().find(is_alike).map_or(write.offset + far, |other| other.offset),
        1 => writes[mix(seed ^ 6) as usize % writes.len()].offset,
        2 => write.offset + far,
        _ => write.offset.saturating_sub(far),
    };
    start..start + len
}

/// Puts bytes where nothing was written later; whether that changes anything.
fn put(copy: &mut Memory, later: &[&Write], offset: u64, bytes: &[u8]) -> bool {
    let end = offset + bytes.len() as u64;
    let over = later.iter().filter(|write| write.offset < end && offset < write.end());
    let over: Vec<_> = over.map(|write| write.offset..write.end()).collect();
    let mut has_changed = false;
    for (at, &byte) in (offset..end).zip(bytes) {
        if at < copy.len && copy.bytes[at as usize] != byte && !over.iter().any(|range| range.contains(&at)) {
            copy.bytes[at as usize] = byte;
            has_changed = true;
        }
    }
    has_changed
}
