//! Readers of the log as it was at an earlier time, such as a forked process.
//!
//! A segment that is freed while a reader may still read it is kept until the reader is gone. A segment that
//! was opened after the reader came holds nothing of the reader's.

use crate::geometry::SegmentId;

/// Says whether a reader is gone.
pub type IsGone = Box<dyn Fn() -> bool + Send>;

struct Reader {
    number: u64,
    is_gone: IsGone,
}

/// Readers, and the segments that are kept for them.
#[derive(Default)]
pub(crate) struct Readers {
    present: Vec<Reader>,
    /// With the newest reader that there was when the segment was freed.
    kept: Vec<(u64, SegmentId)>,
    last: u64,
}

impl Readers {
    /// From now on freed segments are kept until the reader is gone.
    pub(crate) fn add(&mut self, is_gone: IsGone) {
        self.last += 1;
        self.present.push(Reader { number: self.last, is_gone });
    }

    /// The number of the reader who came last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Keeps a segment that was freed and opened when reader number `opened` was the last; false if nobody reads it.
    pub(crate) fn keep(&mut self, segment: SegmentId, opened: u64) -> bool {
        let newest = self.present.last().map(|reader| reader.number).filter(|&number| number > opened);
        self.kept.extend(newest.map(|number| (number, segment)));
        newest.is_some()
    }

    /// How many segments are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Takes the segments that nobody reads any more.
    pub(crate) fn take_unread(&mut self) -> Vec<SegmentId> {
        self.present.retain(|reader| !(reader.is_gone)());
        let oldest = self.present.first().map_or(u64::MAX, |reader| reader.number);
        let unread = self.kept.extract_if(.., |(number, _)| *number < oldest);
        unread.map(|(_, segment)| segment).collect()
    }

    /// Forgets all readers: they find other bytes in the segments that are taken here.
    pub(crate) fn take_all(&mut self) -> Vec<SegmentId> {
        self.present.clear();
        self.kept.drain(..).map(|(_, segment)| segment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn reader(readers: &mut Readers) -> Arc<AtomicBool> {
        let gone = Arc::new(AtomicBool::new(false));
        let seen = gone.clone();
        readers.add(Box::new(move || seen.load(Ordering::Relaxed)));
        gone
    }

    #[test]
    fn segments_wait_for_the_readers_of_their_time() {
        let mut readers = Readers::default();
        assert!(!readers.keep(SegmentId(0), 0), "nobody reads");
        let first = reader(&mut readers);
        assert!(readers.keep(SegmentId(1), 0));
        assert!(!readers.keep(SegmentId(9), 1), "opened later");
        let second = reader(&mut readers);
        assert!(readers.keep(SegmentId(2), 1));
        assert_eq!(readers.take_unread(), []);
        second.store(true, Ordering::Relaxed);
        assert_eq!(readers.take_unread(), [], "the first may read both");
        let third = reader(&mut readers);
        first.store(true, Ordering::Relaxed);
        assert_eq!(readers.take_unread(), [SegmentId(1), SegmentId(2)], "the third came later");
        assert!(readers.keep(SegmentId(3), 2));
        assert_eq!(readers.take_all(), [SegmentId(3)]);
        assert!(!third.load(Ordering::Relaxed) && readers.kept() == 0 && !readers.keep(SegmentId(4), 0));
    }
}
