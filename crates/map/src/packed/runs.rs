//! Pages that lie one record after the other.

use aquifer_base::LogAddress;
use aquifer_base::limits::{LEAF_PAGES, LOG_ADDRESS_BITS};
use aquifer_log::record::record_bytes;

use super::{HEADER_BYTES, Malformed, PACKED_BYTES_MAX, RUNS, read_address, write_address};
use crate::image::{Image, Place};

pub(super) const RUN_BYTES: usize = 7;

fn run_start(run: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([run[0], run[1]]))
}

fn place_in_run(run: &[u8], index: usize, page_bytes: usize) -> Result<Place, Malformed> {
    let ahead = index.checked_sub(run_start(run)).ok_or(Malformed)?;
    let start = LogAddress(read_address(&run[2..]));
    if start.0 == 0 {
        return Ok(Place::ZERO);
    }
    let address = start.plus_bytes(ahead * record_bytes(page_bytes));
    if address.0 >> LOG_ADDRESS_BITS == 0 { Ok(Place::exact(address)) } else { Err(Malformed) }
}

pub(super) fn place_in_runs(runs: &[u8], index: usize, page_bytes: usize) -> Result<Place, Malformed> {
    let run_at = |n: usize| &runs[n * RUN_BYTES..(n + 1) * RUN_BYTES];
    let (mut low, mut high) = (0, runs.len() / RUN_BYTES);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if run_start(run_at(middle)) <= index { low = middle } else { high = middle }
    }
    place_in_run(run_at(low), index, page_bytes)
}

pub(super) fn decode_runs(runs: &[u8], page_bytes: usize, image: &mut Image) -> Result<(), Malformed> {
    let mut runs = runs.chunks_exact(RUN_BYTES).peekable();
    if !runs.clone().is_sorted_by(|a, b| run_start(a) < run_start(b)) {
        return Err(Malformed);
    }
    let mut run = runs.next().ok_or(Malformed)?;
    for index in 0..LEAF_PAGES {
        if let Some(next) = runs.next_if(|next| run_start(next) <= index) {
            run = next;
        }
        image.replace(index, place_in_run(run, index, page_bytes)?);
    }
    Ok(())
}

/// Whether `place` goes on the run that `before` belongs to.
fn continues(before: Place, place: Place, page_bytes: usize) -> bool {
    match (before.address(), place.address()) {
        (None, None) => true,
        (Some(a), Some(b)) => a.plus_bytes(record_bytes(page_bytes)) == b,
        _ => false,
    }
}

/// How many runs the image has; `None` if some page's exact address is not known.
pub(super) fn count_runs(image: &Image, page_bytes: usize) -> Option<usize> {
    let places = image.places();
    if places.iter().any(|place| place.records() > 1) {
        return None;
    }
    Some(1 + places.windows(2).filter(|pair| !continues(pair[0], pair[1], page_bytes)).count())
}

pub(super) fn encode_runs(
    image: &Image,
    page_bytes: usize,
    count: usize,
    out: &mut [u8; PACKED_BYTES_MAX],
) -> usize {
    out[0] = RUNS;
    out[1..3].copy_from_slice(&(count as u16).to_le_bytes());
    let mut at = HEADER_BYTES;
    for (index, &place) in image.places().iter().enumerate() {
        if index > 0 && continues(image.place(index - 1), place, page_bytes) {
            continue;
        }
        out[at..at + 2].copy_from_slice(&(index as u16).to_le_bytes());
        write_address(&mut out[at + 2..], place.address().map_or(0, |a| a.0));
        at += RUN_BYTES;
    }
    at
}
