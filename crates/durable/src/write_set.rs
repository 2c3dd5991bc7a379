//! What a transaction wants to write: pieces of home space in order, which do not overlap (group update).

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;

use crate::block::bytes_max;

const GRAIN: u64 = LOG_GRAIN_BYTES as u64;
/// Home space that shares a bit of the filter.
const LINE_BYTES: u64 = 64;
/// Runs of more lines have all bits.
const LINES_MAX: u64 = 64;
/// A write set of fewer bytes keeps those that were written over.
const TIDY_BYTES: usize = 64 << 20;
/// As many as pieces can tell apart.
pub(crate) const BYTES_MAX: usize = u32::MAX as usize * LOG_GRAIN_BYTES;

/// What a piece will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Bytes: the grain of the write set with which they begin.
    Bytes(u32),
    /// Allocated, all zeros.
    Zeros,
    /// Not allocated any more.
    Hole,
}

impl Content {
    fn plus(self, grains: u64) -> Self {
        match self {
            Self::Bytes(first) => Self::Bytes(first + grains as u32),
            other => other,
        }
    }
}

/// A run of grains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Its first grain of home space.
    pub(crate) start: u64,
    /// How many.
    pub(crate) grains: u32,
    /// What it will be.
    pub(crate) content: Content,
    /// Whether this transaction has allocated it, so that the map knows nothing of it.
    pub(crate) is_fresh: bool,
}

impl Piece {
    /// The grain behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.grains)
    }

    /// Whether another one, which begins where it ends, is like the rest of it.
    fn is_continued_by(&self, next: &Self) -> bool {
        self.content.plus(u64::from(self.grains)) == next.content && self.is_fresh == next.is_fresh
    }

    /// The part of it from `start` to `end`, which are within it.
    fn part(&self, start: u64, end: u64) -> Self {
        let content = self.content.plus(start - self.start);
        Self { start, grains: (end - start) as u32, content, is_fresh: self.is_fresh }
    }
}

/// The pieces and their bytes.
#[derive(Default)]
pub(crate) struct WriteSet {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
    /// A bit for each hash of a line that has a piece.
    filter: u64,
    spare: Vec<Piece>,
    /// When bytes that were written over are dropped, if that is later than at [`TIDY_BYTES`].
    tidied_at: usize,
    /// Whether neighbours stay apart in the log and in changes of the map.
    keeps_apart: bool,
}

/// The bits of the lines of some bytes.
#[inline]
fn bits(first: u64, last: u64) -> u64 {
    let (mut line, last) = (first / LINE_BYTES, last / LINE_BYTES);
    if last - line >= LINES_MAX {
        return u64::MAX;
    }
    let mut bits = 0;
    while line <= last {
        bits |= 1 << (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
        line += 1;
    }
    bits
}

impl WriteSet {
    /// An empty one, whose neighbours are written as one if it merges them.
    pub(crate) fn new(merges: bool) -> Self {
        Self { keeps_apart: !merges, ..Self::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
        self.filter = 0;
        if self.bytes.capacity() > TIDY_BYTES {
            self.bytes.shrink_to(TIDY_BYTES);
            self.tidied_at = 0;
        }
    }

    /// Gives back its memory, with what is in it.
    #[cold]
    pub(crate) fn shrink(&mut self) {
        *self = Self::new(!self.keeps_apart);
    }

    /// RAM that it has.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.bytes.capacity() + (self.pieces.capacity() + self.spare.capacity()) * size_of::<Piece>()
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether neighbours stay apart in the log and in changes of the map.
    pub(crate) fn keeps_apart(&self) -> bool {
        self.keeps_apart
    }

    /// Makes neighbours one that were written one after the other, or have no bytes, unless they are kept apart.
    #[inline]
    pub(crate) fn merge(&mut self) {
        if self.keeps_apart {
            return;
        }
        self.pieces.dedup_by(|next, last| {
            let is_one = last.end() == next.start && last.is_continued_by(next);
            let grains = last.grains.checked_add(next.grains).filter(|_| is_one);
            last.grains = grains.unwrap_or(last.grains);
            grains.is_some()
        });
    }

    /// Grains with bytes: at least as many as the pieces have.
    pub(crate) fn grains_max(&self) -> u64 {
        self.bytes.len() as u64 / GRAIN
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces in lists that each fit a block of `bytes`.
    pub(crate) fn parts(&self, bytes: u64) -> Vec<Vec<Piece>> {
        let (mut parts, mut part, mut grains) = (Vec::new(), Vec::new(), 0);
        for piece in &self.pieces {
            let mut start = piece.start;
            while start < piece.end() {
                let used = bytes_max(part.len() + 1, grains);
                let room = bytes.saturating_sub(used) / GRAIN;
                if room == 0 {
                    parts.push(std::mem::take(&mut part));
                    grains = 0;
                    continue;
                }
                let has_bytes = matches!(piece.content, Content::Bytes(_));
                let end = if has_bytes { piece.end().min(start + room) } else { piece.end() };
                grains += if has_bytes { end - start } else { 0 };
                part.push(piece.part(start, end));
                start = end;
            }
        }
        parts.push(part);
        parts
    }

    /// The bytes of a piece with some.
    #[inline]
    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        match piece.content {
            Content::Bytes(first) => {
                &self.bytes[first as usize * LOG_GRAIN_BYTES..][..piece.grains as usize * LOG_GRAIN_BYTES]
            }
            Content::Zeros | Content::Hole => &[],
        }
    }

    /// Whether there may be a piece in the `len` bytes from `home` on, of which there are some.
    #[inline]
    pub(crate) fn may_have(&self, home: HomeAddress, len: usize) -> bool {
        self.filter != 0 && self.filter & bits(home.0, home.0 + len as u64 - 1) != 0
    }

    /// Adds whole grains. False if a part of them was freed.
    #[inline]
    pub(crate) fn write(&mut self, home: HomeAddress, bytes: &[u8]) -> bool {
        debug_assert!(home.0.is_multiple_of(GRAIN) && bytes.len().is_multiple_of(LOG_GRAIN_BYTES));
        let (start, content) = (home.0 / GRAIN, self.next());
        self.bytes.extend_from_slice(bytes);
        let grains = (bytes.len() / LOG_GRAIN_BYTES) as u32;
        self.insert(Piece { start, grains, content, is_fresh: false })
    }

    /// What begins with the next byte.
    fn next(&self) -> Content {
        Content::Bytes((self.bytes.len() / LOG_GRAIN_BYTES) as u32)
    }

    /// Whether `len` more bytes can be written.
    #[inline]
    pub(crate) fn has_room_for(&mut self, len: usize) -> bool {
        self.bytes.len() + len <= TIDY_BYTES || self.has_room_tidied(len)
    }

    #[cold]
    fn has_room_tidied(&mut self, len: usize) -> bool {
        if self.bytes.len() + len > self.tidied_at.max(TIDY_BYTES) {
            self.tidy();
            self.tidied_at = 2 * (self.bytes.len() + len);
        }
        self.bytes.len() + len <= BYTES_MAX
    }

    /// Drops bytes that were written over or freed.
    fn tidy(&mut self) {
        let mut kept = Vec::new();
        for n in 0..self.pieces.len() {
            let piece = self.pieces[n];
            if let Content::Bytes(_) = piece.content {
                self.pieces[n].content = Content::Bytes((kept.len() / LOG_GRAIN_BYTES) as u32);
                kept.extend_from_slice(self.bytes(&piece));
            }
        }
        self.bytes = kept;
    }

    /// Adds whole grains, of which nothing was freed.
    #[inline]
    pub(crate) fn append(&mut self, home: HomeAddress, bytes: &[u8]) {
        let has_added = self.write(home, bytes);
        debug_assert!(has_added, "a part of {home:?} was freed");
    }

    /// Adds an allocation. It reads as zeros until it is written.
    pub(crate) fn allocate(&mut self, home: HomeAddress, grains: u32) {
        let piece = Piece { start: home.0 / GRAIN, grains, content: Content::Zeros, is_fresh: true };
        // What was freed before in the same transaction is not given out again.
        self.insert(piece);
    }

    /// Adds a free. What this transaction wrote there does not matter any more.
    pub(crate) fn free(&mut self, home: HomeAddress, grains: u32) {
        let piece = Piece { start: home.0 / GRAIN, grains, content: Content::Hole, is_fresh: false };
        self.insert(piece);
    }

    #[inline]
    fn insert(&mut self, piece: Piece) -> bool {
        self.filter |= bits(piece.start * GRAIN, piece.end() * GRAIN - 1);
        if self.pieces.last().is_none_or(|last| last.end() <= piece.start) {
            self.pieces.push(piece);
            return true;
        }
        self.insert_between(piece)
    }

    fn insert_between(&mut self, mut piece: Piece) -> bool {
        let (start, end) = (piece.start, piece.end());
        let from = self.pieces.partition_point(|p| p.end() <= start);
        let count = self.pieces[from..].iter().take_while(|p| p.start < end).count();
        let over = &self.pieces[from..from + count];
        if over.iter().any(|p| p.content == Content::Hole) && piece.content != Content::Hole {
            return false;
        }
        let covered: u64 =
            over.iter().filter(|p| p.is_fresh).map(|p| p.end().min(end) - p.start.max(start)).sum();
        piece.is_fresh = piece.is_fresh || (covered == end - start && piece.content != Content::Hole);
        self.spare.clear();
        if let Some(first) = over.first().filter(|p| p.start < start) {
            self.spare.push(first.part(first.start, start));
        }
        self.spare.push(piece);
        if let Some(last) = over.last().filter(|p| p.end() > end) {
            self.spare.push(last.part(end, last.end()));
        }
        self.pieces.splice(from..from + count, self.spare.drain(..));
        true
    }

    /// What this transaction does to the grain at `home`, if it does something, and where that ends.
    pub(crate) fn piece_at(&self, home: HomeAddress) -> Option<Piece> {
        let grain = home.0 / GRAIN;
        let at = self.pieces.partition_point(|p| p.end() <= grain);
        self.pieces.get(at).filter(|p| p.start <= grain).copied()
    }

    /// Where pieces begin that are of objects of its own, from `home` on.
    pub(crate) fn fresh_from(&self, home: HomeAddress) -> impl Iterator<Item = HomeAddress> {
        let from = self.pieces.partition_point(|p| p.start * GRAIN < home.0);
        let fresh = self.pieces[from..].iter().filter(|p| p.is_fresh && p.content != Content::Hole);
        fresh.map(|p| HomeAddress(p.start * GRAIN))
    }

    /// Puts what this transaction wrote over `out`, the bytes from `home` on, and returns how much of it that was.
    /// `None` if a part was freed.
    pub(crate) fn overlay(&self, home: HomeAddress, out: &mut [u8]) -> Option<Overlay> {
        let (start, end) = (home.0, home.0 + out.len() as u64);
        let from = self.pieces.partition_point(|p| p.end() * GRAIN <= start);
        let mut over = Overlay::default();
        for piece in self.pieces[from..].iter().take_while(|p| p.start * GRAIN < end) {
            let (low, high) = ((piece.start * GRAIN).max(start), (piece.end() * GRAIN).min(end));
            let target = &mut out[(low - start) as usize..(high - start) as usize];
            over.bytes += target.len();
            over.fresh += if piece.is_fresh { target.len() } else { 0 };
            match piece.content {
                Content::Hole => return None,
                Content::Zeros => target.fill(0),
                Content::Bytes(first) => {
                    let from = first as usize * LOG_GRAIN_BYTES + (low - piece.start * GRAIN) as usize;
                    target.copy_from_slice(&self.bytes[from..from + target.len()]);
                }
            }
        }
        Some(over)
    }
}

/// How much of some bytes a transaction has written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Overlay {
    pub(crate) bytes: usize,
    /// Of these, bytes that it has allocated itself.
    pub(crate) fresh: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u32>),
        Allocate(u64, u32),
        Free(u64, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..200, prop::collection::vec(any::<u32>(), 1..20)).prop_map(|(at, words)| Step::Write(at, words)),
            1 => (0u64..200, 1u32..20).prop_map(|(at, grains)| Step::Allocate(at, grains)),
            1 => (0u64..200, 1u32..20).prop_map(|(at, grains)| Step::Free(at, grains)),
        ]
    }

    proptest! {
        #[test]
        fn is_as_the_model(steps in prop::collection::vec(step(), 1..60)) {
            let mut set = WriteSet::default();
            // Bytes, or `None` where freed; nothing where untouched.
            let mut model = std::collections::BTreeMap::<u64, Option<u32>>::new();
            for step in steps {
                match step {
                    Step::Write(at, words) => {
                        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                        let range = at..at + words.len() as u64;
                        let is_free = range.clone().any(|n| model.get(&n) == Some(&None));
                        prop_assert_eq!(set.write(HomeAddress(at * 4), &bytes), !is_free);
                        if !is_free {
                            model.extend(range.zip(words.into_iter().map(Some)));
                        }
                    }
                    Step::Allocate(at, grains) => {
                        let range = at..at + u64::from(grains);
                        if !range.clone().any(|n| model.contains_key(&n)) {
                            set.allocate(HomeAddress(at * 4), grains);
                            model.extend(range.map(|n| (n, Some(0))));
                        }
                    }
                    Step::Free(at, grains) => {
                        set.free(HomeAddress(at * 4), grains);
                        model.extend((at..at + u64::from(grains)).map(|n| (n, None)));
                    }
                }
                prop_assert!(set.pieces().windows(2).all(|pair| pair[0].end() <= pair[1].start));
            }
            for at in 0..240u64 {
                let mut out = [9; 4];
                let covered = set.overlay(HomeAddress(at * 4), &mut out).map(|over| over.bytes);
                match model.get(&at) {
                    None => prop_assert_eq!((covered, out), (Some(0), [9; 4])),
                    Some(None) => prop_assert_eq!(covered, None),
                    Some(Some(word)) => prop_assert_eq!((covered, out), (Some(4), word.to_ne_bytes())),
                }
                prop_assert!(covered == Some(0) || set.may_have(HomeAddress(at * 4), 4));
            }
        }
    }

    #[test]
    fn what_is_written_of_an_allocation_is_fresh() {
        let mut set = WriteSet::default();
        set.allocate(HomeAddress(400), 10);
        assert!(set.write(HomeAddress(404), &[1; 8]));
        let pieces: Vec<_> = set.pieces().iter().map(|p| (p.start, p.grains, p.is_fresh)).collect();
        assert_eq!(pieces, [(100, 1, true), (101, 2, true), (103, 7, true)]);
    }

    #[test]
    fn neighbours_become_one_unless_they_are_kept_apart() {
        for (merges, expected) in
            [(true, [(10, 3), (13, 1), (14, 2)].as_slice()), (false, &[(10, 2), (12, 1), (13, 1), (14, 2)])]
        {
            let mut set = WriteSet::new(merges);
            assert!(set.write(HomeAddress(56), &[4; 8]));
            assert!(set.write(HomeAddress(40), &[1; 8]));
            assert!(set.write(HomeAddress(48), &[2; 4]));
            set.allocate(HomeAddress(52), 1);
            set.merge();
            let pieces: Vec<_> = set.pieces().iter().map(|p| (p.start, p.grains)).collect();
            assert_eq!(pieces, expected);
            let mut out = [9; 24];
            assert_eq!(set.overlay(HomeAddress(40), &mut out).map(|over| over.bytes), Some(24));
            assert_eq!(out[..], [[1; 4], [1; 4], [2; 4], [0; 4], [4; 4], [4; 4]].concat());
        }
    }
}
