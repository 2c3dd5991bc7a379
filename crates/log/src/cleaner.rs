//! Copies what is still needed out of a segment and frees it.

use aquifer_base::LogAddress;
use aquifer_device::AlignedBuffer;
use thiserror::Error;

use crate::error::AppendError;
use crate::geometry::SegmentId;
use crate::head::Head;
use crate::log::Log;
use crate::record::{HEADER_BYTES, Header, Kind, MARKER_BYTES, RecordId, parse_marker};
use crate::segment::State;
use crate::whole;

/// A record found in a victim. Its checksum matches.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Whose version it is.
    pub id: RecordId,
    /// Where it stands.
    pub address: LogAddress,
    /// Its payload.
    pub payload: &'a [u8],
}

/// The owner of records, which knows which of them are live: the translation table.
pub trait Owner {
    /// Appends those of `records` that are still current to `head`, points their owner to the copies and
    /// releases the originals. `records` stand in log order in one block.
    ///
    /// # Errors
    /// [`AppendError`]: the rest stays where it is.
    fn relocate(&mut self, records: &[Found<'_>], head: &mut Head) -> Result<(), AppendError>;
}

/// Why a segment was not freed.
#[derive(Clone, Copy, Debug, Error)]
pub enum CleanError {
    /// The survivors could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Part of the segment could not be read, or live bytes were left over; it is retired and keeps them.
    #[error("segment {0:?} is damaged and was retired")]
    Damaged(SegmentId),
}

/// Intact records of a block in order, and whether the whole block made sense.
pub fn parse_block<'a>(bytes: &'a [u8], start: LogAddress, seed: u32, out: &mut Vec<Found<'a>>) -> bool {
    let (mut at, mut owner) = (0, None);
    while at + HEADER_BYTES <= bytes.len() {
        if let Some(marked) = parse_marker(&bytes[at..]) {
            owner = Some(marked);
            at += MARKER_BYTES;
            continue;
        }
        let Some(header) = Header::parse(&bytes[at..]) else {
            return bytes[at..at + HEADER_BYTES].iter().all(|&b| b == 0);
        };
        let Some(owner) = owner.filter(|&owner| header.verify(seed, owner, &bytes[at..])) else {
            return false;
        };
        let payload = &bytes[at + HEADER_BYTES..at + HEADER_BYTES + header.payload_bytes];
        out.push(Found { id: header.id(owner), address: start.plus_bytes(at), payload });
        at += header.record_bytes();
    }
    true
}

/// Cleans `victim`: reads it block by block into `buffer`, has `owner` move what is live to `head`, and
/// frees the segment.
///
/// # Errors
/// [`CleanError`]; nothing that was live is lost from the table's view, damaged records stay addressable
/// and their readers get an error.
pub fn clean(
    log: &Log,
    victim: SegmentId,
    owner: &mut dyn Owner,
    head: &mut Head,
    buffer: &mut AlignedBuffer,
) -> Result<(), CleanError> {
    let geometry = *log.geometry();
    let (seed, kind) = (log.segments().seed(victim), log.segments().kind(victim));
    let mut offset = geometry.segment_offset(victim);
    let end = offset + geometry.segment_bytes as u64;
    while offset < end && log.segments().live_bytes(victim) > 0 {
        let block = &mut buffer[..geometry.block_bytes];
        if log.device().read_at(offset, block).is_err() {
            log.count_io_error();
        } else {
            let mut records = Vec::new();
            let parse = if kind == Kind::Whole { whole::parse_block } else { parse_block };
            parse(block, LogAddress::from_offset(offset), seed, &mut records);
            owner.relocate(&records, head)?;
        }
        offset += geometry.block_bytes as u64;
    }
    // Whatever could not be read or did not verify was not relocated and is still counted as live.
    if log.segments().live_bytes(victim) > 0 {
        log.segments().set_state(victim, State::Retired);
        return Err(CleanError::Damaged(victim));
    }
    log.free_segment(victim);
    Ok(())
}
