//! The hot-node cache: where in the extents of a partition a place was found last (Hu et al., ATC 2017, section on the address map).
//!
//! Of one session, so that nobody else writes to it. Neighbours share a hint on purpose: they are most often in the same extent, or
//! written by the same transaction.

use aquifer_map::partitions::Hint;

/// Hints of a session.
const HINTS: usize = 512;
/// Grains that share one: 64 bytes.
const SHARED_SHIFT: u32 = 4;

/// A table of hints.
pub(crate) struct Hints {
    slots: Box<[Hint; HINTS]>,
}

impl Default for Hints {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Hints {
    /// Empty hints; if `is_on` is false, they never remember anything.
    pub(crate) fn new(is_on: bool) -> Self {
        let hint = if is_on { Hint::default() } else { Hint::NONE };
        Self { slots: Box::new([hint; HINTS]) }
    }

    /// The hint for a grain of home space.
    #[inline]
    pub(crate) fn of(&mut self, grain: u64) -> &mut Hint {
        &mut self.slots[(grain >> SHARED_SHIFT) as usize % HINTS]
    }
}
