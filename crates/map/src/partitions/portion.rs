//! The part of a run of home space that lies in one partition.

use aquifer_base::PartitionId;

use super::source::GRAINS;

/// The part of a run of home space that lies in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    /// The partition.
    pub id: PartitionId,
    /// First grain of the partition.
    pub start: usize,
    /// The grain behind the last one.
    pub end: usize,
    /// How many grains of the run come before it.
    pub before: u32,
}

/// The portions of `grains` of home space from the grain `start` on.
#[inline]
pub fn portions(start: u64, grains: u32) -> impl Iterator<Item = Portion> {
    let mut before = 0;
    std::iter::from_fn(move || {
        if before == grains {
            return None;
        }
        let at = start + u64::from(before);
        let from = (at % GRAINS as u64) as usize;
        let end = GRAINS.min(from + (grains - before) as usize);
        let portion = Portion { id: PartitionId((at / GRAINS as u64) as u32), start: from, end, before };
        before += (end - from) as u32;
        Some(portion)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cover_the_run_in_order() {
        for (start, grains, count) in [(0, 1, 1), (5, 1019, 1), (5, 1020, 2), (1023, 2, 2), (1024, 4096, 4)] {
            let all: Vec<_> = portions(start, grains).collect();
            assert_eq!(all.len(), count, "{start} {grains}");
            let mut at = start;
            for portion in all {
                assert_eq!(u64::from(portion.id.0) * GRAINS as u64 + portion.start as u64, at);
                assert_eq!(u64::from(portion.before), at - start);
                at += (portion.end - portion.start) as u64;
            }
            assert_eq!(at, start + u64::from(grains));
        }
    }
}
