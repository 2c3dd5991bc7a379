//! How many free chunks there are for what.

/// What a chunk is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A transaction that adds bytes to those that are needed.
    Write,
    /// A transaction that writes over others, as one does that takes something out of a structure.
    Change,
    /// A transaction that frees more than it writes.
    Free,
    /// The cleaner.
    Clean,
    /// A checkpoint.
    Checkpoint,
}

impl Purpose {
    /// Free chunks that it leaves to others, so that what makes room does not want for it; `for_passes` of them are the cleaner's.
    pub(super) const fn reserve(self, for_passes: usize) -> usize {
        match self {
            Self::Checkpoint => for_passes + 5,
            Self::Write => for_passes + 4,
            Self::Change => for_passes + 2,
            Self::Free => for_passes + 1,
            Self::Clean => 0,
        }
    }
}

/// Passes of the cleaner at a time, and what each copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passes {
    /// How many.
    pub(crate) count: usize,
    /// Chunks of bytes that each copies at most, with what describes them; it may begin to fill one more.
    pub(crate) chunks: usize,
}

impl Passes {
    /// The least that there is room for in every heap.
    pub(super) const LEAST: Self = Self { count: 1, chunks: 1 };

    /// Those of a file of `chunks`, each of `chunk_bytes`: all of them copy a small part of it at a time, because there must be room for
    /// it. Small files have one pass, of one chunk.
    pub(super) fn of(chunks: u32, chunk_bytes: u32, processors: usize) -> Self {
        let copied = chunks as usize / COPIED;
        // Two also on one processor: a thread that waits for a chunk can as well clean.
        let count = (copied / 2).clamp(1, processors.clamp(2, PASSES_MAX));
        let most = (PASS_BYTES_MAX / chunk_bytes).max(1) as usize;
        Self { count, chunks: (copied / count).clamp(1, most) }
    }

    /// Chunks that one pass fills at most.
    pub(crate) const fn filled_by_one(self) -> usize {
        self.chunks + 1
    }

    /// Chunks that all of them fill at most.
    pub(super) const fn filled(self) -> usize {
        self.count * self.filled_by_one()
    }

    /// Free chunks that are made before they are needed: as many as are written while a pass makes others.
    pub(super) fn ahead(self) -> usize {
        AHEAD_MIN.max(self.chunks * 3 / 2)
    }
}

/// The passes at a time copy one chunk in this many of the file's.
const COPIED: usize = 64;
/// Passes at a time at most.
const PASSES_MAX: usize = 4;
/// A pass copies no more, which it has in RAM meanwhile.
const PASS_BYTES_MAX: u32 = 32 << 20;
/// Free chunks that are made before they are needed, at least.
const AHEAD_MIN: usize = 3;
