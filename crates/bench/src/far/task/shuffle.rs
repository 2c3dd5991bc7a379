//! Group by key as GraphX and its like shuffle: records are partitioned by a hash of their key, which writes to many places at once; then each
//! partition is sorted and its groups are summed, which reads one place after the other. The next round begins with what this one left.

use std::time::{Duration, Instant};

use super::super::answer::Answer;
use super::super::slots::Slots;
use super::Extent;
use crate::error::{Error, Result};
use crate::process::Memory;
use crate::rng::{Rng, mix};

/// Places that are written to at once.
const PARTITIONS: usize = 1 << PARTITION_BITS;
const PARTITION_BITS: u32 = 10;
/// Records of a group, on average.
const GROUP_RECORDS: u64 = 8;
const RECORDS_MIN: u64 = 1000;
const SEED: u64 = 1;

/// A record of 32 bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Record {
    key: u64,
    value: u64,
    _payload: [u64; 2],
}

/// What a round found, the same in each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Groups {
    records: u64,
    sum: u64,
    groups: u64,
    digest: u64,
}

/// Makes records in one half of the data, and groups them into the other half and back.
///
/// # Errors
/// [`Error::Input`] if there is no room; [`Error::WrongData`] if a round finds something else than was made.
pub fn run(extent: Extent, rounds: Option<u64>) -> Result<Answer> {
    let setup = Instant::now();
    let count = extent.data_bytes / 2 / size_of::<Record>() as u64;
    if count < RECORDS_MIN {
        return Err(Error::Input("--data leaves no room for records".to_owned()));
    }
    let mut from = records(count);
    let made = from.iter().fold(0u64, |sum, record| sum.wrapping_add(record.value));
    let mut to = vec![Record::default(); from.len()];
    to.fill(Record { key: u64::MAX, ..Record::default() });
    let (setup_s, start) = (setup.elapsed().as_secs_f64(), Instant::now());
    let (mut done, mut first) = (0, None);
    while rounds.map_or(done == 0 || start.elapsed() < extent.length, |rounds| done < rounds) {
        let begins = partition(&from, &mut to, done);
        let found = group(&mut to, &begins);
        let expected = *first.get_or_insert(found);
        if found != expected || (found.records, found.sum) != (count, made) {
            let what = format!(
                "{found:?} after round {done}, expected {expected:?} of {count} records and sum {made}"
            );
            return Err(Error::WrongData { peer: "shuffle".to_owned(), what });
        }
        std::mem::swap(&mut from, &mut to);
        done += 1;
    }
    let seconds = start.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
    // Before the records are freed.
    let slots = Slots::now()?;
    Ok(Answer {
        // Of no use to others: every round finds the same, so that each run does what it has time for.
        rounds: None,
        ops: done * count,
        seconds,
        setup_s,
        digest: first.map(|found| found.digest),
        memory: Memory::default(),
        slots,
    })
}

fn records(count: u64) -> Vec<Record> {
    let mut rng = Rng::new(SEED);
    let keys = count.div_ceil(GROUP_RECORDS);
    let record =
        |_| Record { key: mix(rng.below(keys)), value: rng.next(), _payload: [rng.next(), rng.next()] };
    (0..count).map(record).collect()
}

/// The partition of a key, another one in each round.
fn partition_of(key: u64, round: u64) -> usize {
    (mix(key ^ round) >> (64 - PARTITION_BITS)) as usize
}

/// Puts every record into its partition; says where each begins, and the last one ends.
fn partition(from: &[Record], to: &mut [Record], round: u64) -> Vec<usize> {
    let mut begins = vec![0; PARTITIONS + 1];
    from.iter().for_each(|record| begins[partition_of(record.key, round) + 1] += 1);
    (0..PARTITIONS).for_each(|place| begins[place + 1] += begins[place]);
    let mut next = begins.clone();
    for record in from {
        let place = &mut next[partition_of(record.key, round)];
        to[*place] = *record;
        *place += 1;
    }
    begins
}

/// Sorts each partition and sums its groups.
fn group(records: &mut [Record], begins: &[usize]) -> Groups {
    let mut found = Groups::default();
    for bounds in begins.windows(2) {
        let partition = &mut records[bounds[0]..bounds[1]];
        partition.sort_unstable_by_key(|record| record.key);
        for group in partition.chunk_by(|one, other| one.key == other.key) {
            let sum = group.iter().fold(0u64, |sum, record| sum.wrapping_add(record.value));
            found.records += group.len() as u64;
            found.sum = found.sum.wrapping_add(sum);
            found.groups += 1;
            // A sum, because groups come in another order in each round.
            found.digest = found.digest.wrapping_add(mix(group[0].key ^ mix(sum ^ group.len() as u64)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn groups_are_those_of_a_map_in_every_round() {
        let mut from = records(5000);
        let mut groups: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for record in &from {
            let group = groups.entry(record.key).or_default();
            *group = (group.0 + 1, group.1.wrapping_add(record.value));
        }
        let digest = groups.iter().map(|(key, (count, sum))| mix(key ^ mix(sum ^ count)));
        let digest = digest.fold(0, u64::wrapping_add);
        for round in 0..3 {
            let mut to = vec![Record::default(); from.len()];
            let begins = partition(&from, &mut to, round);
            let found = group(&mut to, &begins);
            assert_eq!((found.records, found.groups, found.digest), (5000, groups.len() as u64, digest));
            from = to;
        }
    }

    #[test]
    fn the_rounds_that_are_asked_for_are_done() {
        let extent = Extent { data_bytes: 1 << 20, warmup: Duration::ZERO, length: Duration::ZERO };
        let one = run(extent, None).expect("right");
        let three = run(extent, Some(3)).expect("right");
        assert_eq!((one.ops, three.ops), ((1 << 20) / 64, 3 * (1 << 20) / 64));
        assert_eq!(one.digest, three.digest);
    }
}
