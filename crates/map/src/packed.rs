//! A leaf as stored in RAM and in the log.
//!
//! Three forms; [`encode`] takes the smallest. Numbers are little-endian, addresses take 5 bytes.
//!
//! ```text
//! runs      0x01 | count u16 | count x (first index u16, address)
//!           A run lasts until the next one begins; its pages lie one record after the other.
//!           Address 0: the pages of the run are zero.
//! lines     0x03 | count u16 | count x (first index u16, address) | patch
//!           As runs, but some pages are elsewhere: those that the patch names (`patch`).
//! clusters  0x02 | count u16 | count x (address, records u8) | 512 x index of `width` bits
//!           Index 0 is zero, index n is cluster n - 1; width holds `count`.
//! ```
//! Pages that were loaded in order need one run for all 512, and a byte or two for each that is rewritten, until they are
//! too many. Pages rewritten at random need 6 to 9 bits
//! each and 6 bytes per cluster, because the writer writes a leaf's dirty pages together.

mod lines;
mod runs;

use aquifer_base::LogAddress;
use aquifer_base::limits::{LEAF_PAGES, LOG_GRAIN_BYTES};
use aquifer_log::record::record_bytes;

use crate::image::{Image, Place};
use crate::patch;
use runs::{RUN_BYTES, count_runs, decode_runs, encode_runs, place_in_runs};

/// Largest packed leaf.
pub const PACKED_BYTES_MAX: usize = HEADER_BYTES + LEAF_PAGES * CLUSTER_BYTES + LEAF_PAGES * 10 / 8;

const RUNS: u8 = 1;
const CLUSTERS: u8 = 2;
const LINES: u8 = 3;
const HEADER_BYTES: usize = 3;
const CLUSTER_BYTES: usize = 6;
/// A cluster is read whole, so it is kept near the size of one device page.
const CLUSTER_SPAN_BYTES: usize = 3584;
const CLUSTER_RECORDS: usize = 32;
/// No cluster form is smaller than this, so a run form that is needs no comparison.
const CLUSTERS_BYTES_MIN: usize =
    HEADER_BYTES + LEAF_PAGES / CLUSTER_RECORDS * CLUSTER_BYTES + LEAF_PAGES * 5 / 8;

/// A packed leaf that makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

pub(crate) fn read_address(bytes: &[u8]) -> u64 {
    bytes.iter().take(5).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

pub(crate) fn write_address(out: &mut [u8], address: u64) {
    out[..5].copy_from_slice(&address.to_le_bytes()[..5]);
}

fn width_for(count: usize) -> usize {
    (usize::BITS - count.leading_zeros()) as usize
}

fn read_bits(bytes: &[u8], at: usize, width: usize) -> usize {
    let mut word = 0u32;
    for (n, &byte) in bytes.iter().skip(at / 8).take(3).enumerate() {
        word |= u32::from(byte) << (8 * n);
    }
    (word >> (at % 8)) as usize & ((1 << width) - 1)
}

fn write_bits(bytes: &mut [u8], at: usize, width: usize, value: usize) {
    let shifted = (value as u32) << (at % 8);
    for n in 0..(at % 8 + width).div_ceil(8) {
        bytes[at / 8 + n] |= (shifted >> (8 * n)) as u8;
    }
}

/// The parts of a packed leaf after its sizes were checked.
enum Parts<'a> {
    Runs(&'a [u8]),
    Lines { runs: &'a [u8], patch: &'a [u8] },
    Clusters { table: &'a [u8], indices: &'a [u8], width: usize },
}

fn split(packed: &[u8]) -> Result<Parts<'_>, Malformed> {
    let (header, rest) = packed.split_at_checked(HEADER_BYTES).ok_or(Malformed)?;
    let count = usize::from(u16::from_le_bytes([header[1], header[2]]));
    match header[0] {
        RUNS if count >= 1 => rest.get(..count * RUN_BYTES).map(Parts::Runs).ok_or(Malformed),
        LINES if count >= 1 => {
            let (runs, patch) = rest.split_at_checked(count * RUN_BYTES).ok_or(Malformed)?;
            Ok(Parts::Lines { runs, patch })
        }
        CLUSTERS if count <= LEAF_PAGES => {
            let (table, indices) = rest.split_at_checked(count * CLUSTER_BYTES).ok_or(Malformed)?;
            let width = width_for(count);
            if indices.len() < LEAF_PAGES * width / 8 {
                return Err(Malformed);
            }
            Ok(Parts::Clusters { table, indices, width })
        }
        _ => Err(Malformed),
    }
}

/// Most records of a cluster, which is read whole into memory that is reserved for it.
fn cluster_records_max(page_bytes: usize) -> usize {
    (CLUSTER_SPAN_BYTES / record_bytes(page_bytes)).clamp(1, CLUSTER_RECORDS)
}

/// The place, if it can be read.
fn readable(place: Place, page_bytes: usize) -> Result<Place, Malformed> {
    let fits = usize::from(place.records()) <= cluster_records_max(page_bytes);
    if fits { Ok(place) } else { Err(Malformed) }
}

fn place_in_cluster(table: &[u8], number: usize, page_bytes: usize) -> Result<Place, Malformed> {
    if number == 0 {
        return Ok(Place::ZERO);
    }
    let cluster = table.chunks_exact(CLUSTER_BYTES).nth(number - 1).ok_or(Malformed)?;
    let (address, records) = (read_address(cluster), cluster[5]);
    let fits = (1..=cluster_records_max(page_bytes)).contains(&usize::from(records));
    if address > 0 && fits { Ok(Place::cluster(LogAddress(address), records)) } else { Err(Malformed) }
}

/// The place of one page, without unpacking the others.
///
/// # Errors
/// [`Malformed`] if the bytes are no packed leaf.
///
/// # Context
/// Runs in fault handlers.
pub fn place_of(packed: &[u8], index: usize, page_bytes: usize) -> Result<Place, Malformed> {
    match split(packed)? {
        Parts::Runs(runs) => place_in_runs(runs, index, page_bytes),
        Parts::Lines { runs, patch } => match patch::place_of(patch, index)? {
            Some(place) => readable(place, page_bytes),
            None => place_in_runs(runs, index, page_bytes),
        },
        Parts::Clusters { table, indices, width } => {
            place_in_cluster(table, read_bits(indices, index * width, width), page_bytes)
        }
    }
}

/// All places.
///
/// # Errors
/// [`Malformed`] if the bytes are no packed leaf.
pub fn decode(packed: &[u8], page_bytes: usize, image: &mut Image) -> Result<(), Malformed> {
    match split(packed)? {
        Parts::Runs(runs) => decode_runs(runs, page_bytes, image)?,
        Parts::Lines { runs, patch } => {
            decode_runs(runs, page_bytes, image)?;
            let (mut seen, mut intact) = ([false; LEAF_PAGES], true);
            patch::for_each(patch, &mut |index, place| {
                // A page named twice would be found at one place and unpacked to another.
                intact &= !std::mem::replace(&mut seen[index], true) && readable(place, page_bytes).is_ok();
                image.replace(index, place);
                true
            })?;
            return if intact { Ok(()) } else { Err(Malformed) };
        }
        Parts::Clusters { table, indices, width } => {
            for index in 0..LEAF_PAGES {
                let number = read_bits(indices, index * width, width);
                image.replace(index, place_in_cluster(table, number, page_bytes)?);
            }
        }
    }
    Ok(())
}

/// Packs `image` into `out` and returns the bytes used. `block_bytes` is the log's block, which no
/// cluster may cross.
pub fn encode(
    image: &Image,
    page_bytes: usize,
    block_bytes: usize,
    out: &mut [u8; PACKED_BYTES_MAX],
) -> usize {
    if let Some(bytes) = encode_small(image, page_bytes, block_bytes, CLUSTERS_BYTES_MIN, out) {
        return bytes;
    }
    let runs = count_runs(image, page_bytes);
    let run_bytes = runs.map(|count| HEADER_BYTES + count * RUN_BYTES);
    let mut clusters = [0u64; LEAF_PAGES];
    let count = collect_clusters(image, page_bytes, block_bytes, &mut clusters);
    let cluster_bytes = HEADER_BYTES + count * CLUSTER_BYTES + LEAF_PAGES * width_for(count) / 8;
    match (runs, run_bytes) {
        (Some(runs), Some(bytes)) if bytes <= cluster_bytes => encode_runs(image, page_bytes, runs, out),
        _ => encode_clusters(image, page_bytes, &clusters[..count], cluster_bytes, out),
    }
}

/// Packs `image` as runs or as lines, if that takes at most `limit` bytes.
pub fn encode_small(
    image: &Image,
    page_bytes: usize,
    block_bytes: usize,
    limit: usize,
    out: &mut [u8; PACKED_BYTES_MAX],
) -> Option<usize> {
    let runs = count_runs(image, page_bytes);
    let run_bytes = runs.map(|count| HEADER_BYTES + count * RUN_BYTES).filter(|&bytes| bytes <= limit);
    let limit = run_bytes.unwrap_or(limit + 1);
    encode_lines(image, page_bytes, block_bytes, limit, out)
        .or_else(|| run_bytes.and(runs).map(|count| encode_runs(image, page_bytes, count, out)))
}

/// Packs `image` as lines and a patch, if that takes less than `limit` bytes.
fn encode_lines(
    image: &Image,
    page_bytes: usize,
    block_bytes: usize,
    limit: usize,
    out: &mut [u8; PACKED_BYTES_MAX],
) -> Option<usize> {
    let lines = lines::find(image, page_bytes);
    let count = count_runs(&lines.base, page_bytes)?;
    let patch_start = HEADER_BYTES + count * RUN_BYTES;
    if lines.exceptions == 0 || patch_start + lines.exceptions >= limit {
        return None;
    }
    let patch = &mut out[patch_start..limit - 1];
    let patch_bytes = patch::encode(&lines.base, image, page_bytes, block_bytes, patch)?;
    encode_runs(&lines.base, page_bytes, count, out);
    out[0] = LINES;
    Some(patch_start + patch_bytes)
}

/// The distinct clusters of the image, sorted by address. Exact places whose records follow one another
/// become one cluster: their pages differ and no other record lies between, so identity tells them apart.
pub(crate) fn collect_clusters(
    image: &Image,
    page_bytes: usize,
    block_bytes: usize,
    out: &mut [u64; LEAF_PAGES],
) -> usize {
    let mut words = [0u64; LEAF_PAGES];
    let mut used = 0;
    for place in image.places().iter().filter(|&&place| place != Place::ZERO) {
        words[used] = place.address().map_or(0, |a| a.0) << 8 | u64::from(place.records());
        used += 1;
    }
    words[..used].sort_unstable();
    let record = record_bytes(page_bytes);
    let records_max = cluster_records_max(page_bytes) as u8;
    let block_of = |address: u64| address * LOG_GRAIN_BYTES as u64 / block_bytes as u64;
    let mut count = 0;
    let mut last: Option<(u64, u8, bool)> = None;
    for &word in &words[..used] {
        let (address, records) = (word >> 8, word as u8);
        match last {
            Some((start, n, exact)) if !exact && start == address && n == records => continue,
            Some((start, n, true))
                if records == 1
                    && n < records_max
                    && start + (usize::from(n) * record / LOG_GRAIN_BYTES) as u64 == address
                    && block_of(start) == block_of(address) =>
            {
                last = Some((start, n + 1, true));
                out[count - 1] = Place::cluster(LogAddress(start), n + 1).word();
                continue;
            }
            _ => {}
        }
        last = Some((address, records, records == 1));
        out[count] = Place::cluster(LogAddress(address), records).word();
        count += 1;
    }
    count
}

/// The number of the cluster among `clusters` that `place` is in, counted from 1; 0 for zero.
pub(crate) fn cluster_of(clusters: &[u64], place: Place) -> usize {
    let start_of = |word: u64| Place::from_word(word).address().map_or(0, |a| a.0);
    // The last cluster that begins at or before the address; one that ended earlier cannot follow it.
    place.address().map_or(0, |address| clusters.partition_point(|&word| start_of(word) <= address.0))
}

fn encode_clusters(
    image: &Image,
    page_bytes: usize,
    clusters: &[u64],
    total: usize,
    out: &mut [u8; PACKED_BYTES_MAX],
) -> usize {
    out[..total].fill(0);
    out[0] = CLUSTERS;
    out[1..3].copy_from_slice(&(clusters.len() as u16).to_le_bytes());
    for (slot, &word) in out[HEADER_BYTES..].chunks_exact_mut(CLUSTER_BYTES).zip(clusters) {
        let place = Place::from_word(word);
        write_address(slot, place.address().map_or(0, |a| a.0));
        slot[5] = place.records();
    }
    let width = width_for(clusters.len());
    let indices = &mut out[HEADER_BYTES + clusters.len() * CLUSTER_BYTES..total];
    for (index, &place) in image.places().iter().enumerate().filter(|(_, place)| **place != Place::ZERO) {
        let number = cluster_of(clusters, place);
        debug_assert!(place.address().is_some_and(|address| {
            number > 0 && Place::from_word(clusters[number - 1]).covers(address, page_bytes)
        }));
        write_bits(indices, index * width, width, number);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_base::limits::LOG_ADDRESS_BITS;
    use proptest::prelude::*;

    const BLOCK: usize = 256 << 10;
    /// Distance of the addresses of neighbouring records.
    const RECORD: u64 = (record_bytes(128) / LOG_GRAIN_BYTES) as u64;

    fn pack(image: &Image, page_bytes: usize) -> Vec<u8> {
        let mut out = [0u8; PACKED_BYTES_MAX];
        let len = encode(image, page_bytes, BLOCK, &mut out);
        out[..len].to_vec()
    }

    /// A leaf must lead every page to a span that contains its exact address and no other version of it.
    fn check(image: &Image, page_bytes: usize) -> Image {
        let packed = pack(image, page_bytes);
        let mut unpacked = Image::default();
        decode(&packed, page_bytes, &mut unpacked).unwrap();
        for index in 0..LEAF_PAGES {
            let place = place_of(&packed, index, page_bytes).unwrap();
            assert_eq!(place, unpacked.place(index));
            match image.place(index).address() {
                None => assert_eq!(place, Place::ZERO),
                Some(address) => assert!(place.covers(address, page_bytes)),
            }
        }
        unpacked
    }

    #[test]
    fn an_ordered_load_is_one_run() {
        let mut image = Image::default();
        for index in 0..LEAF_PAGES {
            image.replace(index, Place::exact(LogAddress(1000 + index as u64 * RECORD)));
        }
        assert_eq!(pack(&image, 128).len(), HEADER_BYTES + RUN_BYTES);
        assert_eq!(check(&image, 128), image);
    }

    #[test]
    fn a_loaded_leaf_with_rewritten_pages_is_lines_with_exceptions() {
        let mut image = Image::default();
        for index in 0..LEAF_PAGES {
            image.replace(index, Place::exact(LogAddress(1000 + index as u64 * RECORD)));
        }
        // Three groups of eight, each written side by side.
        for group in 0..3 {
            for rank in 0..8 {
                let address = LogAddress(900_000 + group * 7000 + rank * RECORD);
                image.replace((group * 31 + rank * 60) as usize, Place::exact(address));
            }
        }
        let packed = pack(&image, 128);
        assert_eq!(packed.len(), HEADER_BYTES + RUN_BYTES + 3 * (9 + 7), "one line, three groups");
        assert_eq!(packed[0], LINES);
        check(&check(&image, 128), 128);
    }

    #[test]
    fn lines_end_where_addresses_do() {
        let first = (1 << LOG_ADDRESS_BITS) - 400 * RECORD;
        for exceptions in [390..512, 0..122] {
            let start = if exceptions.start == 0 { 1 } else { first };
            let mut image = Image::default();
            for index in 0..LEAF_PAGES {
                let rank = index.wrapping_sub(if start == 1 { 122 } else { 0 }) as u64;
                let elsewhere = 5_000_000 + index as u64 * 7 * RECORD;
                let address = if exceptions.contains(&index) { elsewhere } else { start + rank * RECORD };
                image.replace(index, Place::exact(LogAddress(address)));
            }
            check(&image, 128);
        }
    }

    #[test]
    fn groups_of_twenty_take_under_two_bytes_a_page() {
        let mut image = Image::default();
        for index in 0..LEAF_PAGES {
            let (group, rank) = (index % 26, index / 26);
            image
                .replace(index, Place::exact(LogAddress(group as u64 * 70_000 + 100 + rank as u64 * RECORD)));
        }
        assert!(pack(&image, 128).len() < 500, "{}", pack(&image, 128).len());
        check(&check(&image, 128), 128);
    }

    proptest! {
        #[test]
        fn survives_any_history(loaded in any::<bool>(), updates in proptest::collection::vec((0usize..512, 1usize..40, 1usize..9), 1..60)) {
            // A model of the log: each update writes a group of pages one after the other.
            let mut exact = Image::default();
            let mut packed = Image::default();
            let mut next = 1000u64;
            for index in (0..LEAF_PAGES).filter(|_| loaded) {
                exact.replace(index, Place::exact(LogAddress(next)));
                packed.replace(index, Place::exact(LogAddress(next)));
                next += RECORD;
            }
            for (first, count, step) in updates {
                for n in 0..count {
                    let index = (first + n * step) % LEAF_PAGES;
                    exact.replace(index, Place::exact(LogAddress(next)));
                    packed.replace(index, Place::exact(LogAddress(next)));
                    next += RECORD;
                }
                next += RECORD * (step as u64 % 3);
                packed = check(&packed, 128);
                for index in 0..LEAF_PAGES {
                    if let Some(address) = exact.place(index).address() {
                        prop_assert!(packed.place(index).covers(address, 128));
                    }
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_understood(bytes in proptest::collection::vec(any::<u8>(), 0..4000), index in 0usize..512) {
            let mut image = Image::default();
            let _ = decode(&bytes, 128, &mut image);
            let _ = place_of(&bytes, index, 128);
        }
    }
}
