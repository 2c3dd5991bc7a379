//! Filling a map that nobody else uses from the newest to the oldest: what is told first of a grain stays.

use std::sync::atomic::Ordering;

use aquifer_base::PartitionId;

use super::blocks::{self, Block};
use super::extents::Extents;
use super::source::{FIRST_GRAIN, GRAINS, HOLE, Source, plus};
use super::{Partitions, pack, unpack};

/// The word of a grain that is known to be a hole. No source has it.
const FREED: u64 = FIRST_GRAIN - 1;

/// Grains that are looked at together.
const PART: usize = 32;
/// With more extents or more to tell, each grain is looked at.
const SPARSE_EXTENTS: usize = 96;
const SPARSE_TOLD: usize = 8;

/// Bits of a grain of a partition.
const GRAIN_BITS: u32 = GRAINS.ilog2();

/// What is told of some grains of a partition, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The partition.
    pub id: PartitionId,
    low: u32,
    /// The first grain, the last one, and the high bits of the word.
    rest: u32,
}

impl Told {
    /// The grains from `start` to `end` of a partition are at `source`, unless something else is told of them first.
    #[inline]
    pub fn new(id: PartitionId, (start, end): (usize, usize), source: Source) -> Self {
        debug_assert!(start < end && end <= GRAINS && source != Source::Log(FREED));
        let word = if source == Source::Hole { FREED } else { source.word() };
        let rest = start as u32 | (end as u32 - 1) << GRAIN_BITS | ((word >> 32) as u32) << (2 * GRAIN_BITS);
        Self { id, low: word as u32, rest }
    }

    fn start(&self) -> usize {
        self.rest as usize % GRAINS
    }

    fn end(&self) -> usize {
        (self.rest >> GRAIN_BITS) as usize % GRAINS + 1
    }

    fn word(&self) -> u64 {
        u64::from(self.low) | u64::from(self.rest >> (2 * GRAIN_BITS)) << 32
    }
}

/// Fills a map that nobody else uses. Several fill different partitions of it at the same time.
pub struct Filler<'m> {
    map: &'m Partitions,
    /// The word of each grain of a partition.
    words: Box<[u64; GRAINS]>,
    /// Its extents.
    list: Vec<(u16, u64)>,
    spare: Vec<(u16, u64)>,
}

impl<'m> Filler<'m> {
    /// One of them.
    pub fn new(map: &'m Partitions) -> Self {
        let (list, spare) = (Vec::with_capacity(GRAINS), Vec::with_capacity(GRAINS));
        Self { map, words: Box::new([HOLE; GRAINS]), list, spare }
    }

    /// Gives the grains of one partition that nothing was told of what is told of them, of which the first counts. `filled` is told from which grain of
    /// the log on bytes are used, and how many grains.
    pub fn fill(&mut self, told: &[Told], mut filled: impl FnMut(u64, usize)) {
        let Some(id) = told.first().map(|told| told.id) else { return };
        let known = self.map.extents(id);
        if told.iter().all(|told| is_known(&known, told)) {
            return;
        }
        if known.len() == 0 && (told[0].start(), told[0].end()) == (0, GRAINS) {
            let word = told[0].word();
            self.list.clear();
            self.list.push((0, word));
            report(word, GRAINS, &mut filled);
            return self.store(id);
        }
        if known.len() <= SPARSE_EXTENTS && told.len() <= SPARSE_TOLD {
            self.list.clear();
            self.list.extend((0..known.len()).map(|index| (known.start(index) as u16, known.word(index))));
            told.iter().for_each(|told| self.splice(told, &mut filled));
        } else {
            self.expand(id, |word| word);
            told.iter().for_each(|told| self.apply(told, &mut filled));
            self.compress();
        }
        self.store(id);
    }

    /// Fills the holes between the extents.
    fn splice(&mut self, told: &Told, filled: &mut impl FnMut(u64, usize)) {
        let (first, end) = (told.start(), told.end());
        let (list, out) = (&self.list, &mut self.spare);
        out.clear();
        let (mut at, mut word) = (0, HOLE);
        for index in 0..=list.len() {
            let (until, next) = list.get(index).map_or((GRAINS, HOLE), |&(start, word)| (start.into(), word));
            let (from, to) = (first.clamp(at, until), end.clamp(at, until));
            if word == HOLE && from < to {
                let told = step(told.word(), from - first);
                push(out, at, from, HOLE);
                push(out, from, to, told);
                push(out, to, until, HOLE);
                report(told, to - from, filled);
            } else {
                push(out, at, until, word);
            }
            (at, word) = (until, next);
        }
        std::mem::swap(&mut self.list, &mut self.spare);
    }

    /// Ends the filling of a partition of which something was told, which has this version from now on; of others nothing happens.
    pub fn finish(&mut self, id: PartitionId, version: u64) {
        let known = self.map.extents(id);
        if known.len() == 0 {
            return;
        }
        if (0..known.len()).any(|index| known.word(index) == FREED) {
            self.expand(id, |word| if word == FREED { HOLE } else { word });
            self.compress();
            self.store(id);
        }
        self.map.try_lock(id).expect("nobody else uses the map");
        self.map.unlock(id, version);
    }

    fn expand(&mut self, id: PartitionId, change: impl Fn(u64) -> u64) {
        let known = self.map.extents(id);
        let first = if known.len() == 0 { GRAINS } else { known.start(0) };
        self.words[..first].fill(HOLE);
        for index in 0..known.len() {
            let end = if index + 1 < known.len() { known.start(index + 1) } else { GRAINS };
            let (word, grains) = (change(known.word(index)), &mut self.words[known.start(index)..end]);
            match word {
                HOLE | 1 | FREED => grains.fill(word),
                _ => grains.iter_mut().zip(word..).for_each(|(grain, word)| *grain = word),
            }
        }
    }

    fn apply(&mut self, told: &Told, filled: &mut impl FnMut(u64, usize)) {
        let grains = &mut self.words[told.start()..told.end()];
        let mut at = 0;
        while at < grains.len() {
            let free = grains[at..].iter().take_while(|&&word| word == HOLE).count();
            let word = step(told.word(), at);
            for (n, grain) in grains[at..at + free].iter_mut().enumerate() {
                *grain = step(word, n);
            }
            if free > 0 {
                report(word, free, filled);
            }
            at += free;
            at += grains[at..].iter().take_while(|&&word| word != HOLE).count();
        }
    }

    /// Makes the extents of the words.
    fn compress(&mut self) {
        self.list.clear();
        let mut last = HOLE;
        for (part, words) in self.words.as_chunks::<PART>().0.iter().enumerate() {
            // In a loop without branches, which several grains share.
            let mut begins = [false; PART];
            begins[0] = words[0] != step(last, 1);
            for at in 1..PART {
                let before = words[at - 1];
                let more = u64::from(before >= FIRST_GRAIN);
                begins[at] = words[at] != before.wrapping_add(more);
            }
            last = words[PART - 1];
            if begins != [false; PART] {
                let begun = (0..PART).filter(|&at| begins[at]);
                self.list.extend(begun.map(|at| ((part * PART + at) as u16, words[at])));
            }
        }
    }

    /// Gives a partition the extents that were made.
    fn store(&self, id: PartitionId) {
        let (map, list) = (self.map, &self.list[..]);
        let (old, len) = unpack(map.at(id).handle.load(Ordering::Relaxed));
        let has_own = len > 0 && !blocks::is_shared(old);
        let is_kept = has_own && !list.is_empty() && blocks::class_for(list.len()) == old.class;
        let block = match list {
            [] => Block { unit: 0, class: 0 },
            [(0, 1)] => blocks::ZEROS,
            _ if is_kept => old,
            _ => map.blocks.allocate(list.len()),
        };
        if !list.is_empty() && !blocks::is_shared(block) {
            let extents = map.blocks.extents(block, list.len());
            list.iter().enumerate().for_each(|(n, &extent)| extents.set(n, extent));
        }
        map.at(id).handle.store(pack(block, list.len()), Ordering::Release);
        if has_own && block != old {
            map.blocks.free(old);
        }
    }
}

/// Adds the grains from `start` to `end` to extents that end there, if there are any.
#[inline]
fn push(list: &mut Vec<(u16, u64)>, start: usize, end: usize, word: u64) {
    let before = list.last().map_or(HOLE, |&(at, before)| step(before, start - usize::from(at)));
    if start < end && before != word {
        list.push((start as u16, word));
    }
}

/// The word `grains` further on.
#[inline]
fn step(word: u64, grains: usize) -> u64 {
    if word == FREED { FREED } else { plus(word, grains) }
}

fn report(word: u64, grains: usize, filled: &mut impl FnMut(u64, usize)) {
    if word >= FIRST_GRAIN {
        filled(word, grains);
    }
}

/// Whether something was told of all of these grains.
fn is_known(known: &Extents<'_>, told: &Told) -> bool {
    let mut next = known.count_up_to(told.start(), &mut super::Hint::NONE.clone());
    loop {
        if next == 0 || known.word(next - 1) == HOLE {
            return false;
        }
        if next == known.len() || known.start(next) >= told.end() {
            return true;
        }
        next += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partitions::Hint;

    fn source() -> impl Strategy<Value = Source> {
        prop_oneof![Just(Source::Hole), Just(Source::Zeros), (FIRST_GRAIN..1 << 31).prop_map(Source::Log)]
    }

    fn any_told() -> impl Strategy<Value = (usize, usize, Source)> {
        let range = prop_oneof![
            3 => (0..GRAINS, 1..40usize).prop_map(|(start, len)| (start, (start + len).min(GRAINS))),
            1 => (0..GRAINS, 1..GRAINS).prop_map(|(start, len)| (start, (start + len).min(GRAINS))),
            1 => Just((0, GRAINS)),
        ];
        (range, source()).prop_map(|((start, end), source)| (start, end, source))
    }

    proptest! {
        /// From the newest on, in groups of any size: the same map as from the oldest on, one by one.
        #[test]
        fn is_the_map_that_transactions_make(
            all in prop::collection::vec(any_told(), 0..60),
            cuts in prop::collection::vec(1..9usize, 60),
            is_long: bool,
        ) {
            let id = PartitionId(5);
            let map = || Partitions::new(if is_long { 1 << 42 } else { 1 << 34 }).expect("address space");
            let (one, other) = (map(), map());
            let far = |source| if is_long { Source::plus(source, 255 << 32) } else { source };
            let all: Vec<_> = all.into_iter().map(|(start, end, source)| (start, end, far(source))).collect();
            one.try_lock(id);
            let mut live = 0;
            for &(start, end, source) in &all {
                one.replace(id, (start, end), source, &mut Hint::default(), |_, grains| live -= grains as i64);
                live += if matches!(source, Source::Log(_)) { (end - start) as i64 } else { 0 };
            }
            let told: Vec<_> =
                all.iter().rev().map(|&(start, end, source)| Told::new(id, (start, end), source)).collect();
            let (mut filler, mut rest, mut cuts) = (Filler::new(&other), &told[..], cuts.into_iter());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                filler.fill(now, |_, grains| live -= grains as i64);
                rest = later;
            }
            filler.finish(id, 9);
            let list = |map: &Partitions| {
                let mut list = Vec::new();
                map.for_each_extent(id, |start, source| list.push((start, source)));
                list
            };
            prop_assert_eq!(list(&one), list(&other));
            prop_assert_eq!(live, 0);
            prop_assert_eq!(other.word(id).version(), if all.is_empty() { 0 } else { 9 });
        }
    }

    #[test]
    fn partitions_of_zeros_have_no_memory_of_their_own() {
        let map = Partitions::new(1 << 30).expect("address space");
        let before = map.ram_bytes();
        let mut filler = Filler::new(&map);
        for number in 0..100_000 {
            filler.fill(&[Told::new(PartitionId(number), (0, GRAINS), Source::Zeros)], |_, _| {});
        }
        assert_eq!(map.ram_bytes(), before);
        // What is written to one is not seen in another.
        let one = PartitionId(7);
        map.try_lock(one);
        map.replace(one, (0, GRAINS), Source::Log(77), &mut Hint::default(), |_, _| {});
        map.replace(one, (3, 4), Source::Zeros, &mut Hint::default(), |_, _| {});
        let found = |id: PartitionId| map.find(id, 0, &mut Hint::default()).source;
        assert_eq!((found(one), found(PartitionId(8))), (Source::Log(77), Source::Zeros));
        map.replace(one, (0, GRAINS), Source::Zeros, &mut Hint::default(), |_, _| {});
        map.replace(one, (0, GRAINS), Source::Hole, &mut Hint::default(), |_, _| {});
        assert_eq!((found(one), found(PartitionId(8))), (Source::Hole, Source::Zeros));
    }
}
