//! Names of pages.

use std::fmt;

/// One file, folder or symbolic link of a volume. At most [`Ino::BITS`] bits; a number is used again when its file is gone, with
/// another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u32);

impl Ino {
    /// Bits of a number: 268 million files.
    pub const BITS: u32 = 28;
    /// The table of roots, which has no inode: page `n` holds the roots of 256 files.
    pub const ROOTS: Ino = Ino(0);
    /// The table of inodes: page `n` holds 32 of them.
    pub const INODES: Ino = Ino(1);
    /// The folder that every path begins in.
    pub const ROOT_FOLDER: Ino = Ino(2);
    /// The first number that a user's file can have.
    pub const FIRST_FREE: Ino = Ino(3);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

/// One page of 4096 bytes of a volume: of a file (level 0), or a node of the table that translates 512 pages of the level below.
///
/// | bits | meaning |
/// |---|---|
/// | 0..32 | index among the file's pages of this level |
/// | 32..36 | level: 0 is data, 1 is a leaf of the table, 2 and more are nodes above leaves |
/// | 36..64 | file |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey(u64);

impl PageKey {
    /// Levels above the data that a file of 16 TiB needs.
    pub const LEVEL_MAX: u32 = 4;

    /// Page `index` of level `level` of `ino`.
    #[must_use]
    pub fn new(ino: Ino, level: u32, index: u32) -> Self {
        debug_assert!(ino.0 < 1 << Ino::BITS && level <= Self::LEVEL_MAX);
        PageKey(u64::from(ino.0) << 36 | u64::from(level) << 32 | u64::from(index))
    }

    /// Page `index` of a file's bytes.
    #[must_use]
    pub fn data(ino: Ino, index: u32) -> Self {
        Self::new(ino, 0, index)
    }

    /// As it stands on flash.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// From flash; `None` if there is no such page.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let key = PageKey(word);
        (key.level() <= Self::LEVEL_MAX && u64::from(key.index()) < pages_max(key.ino(), key.level()))
            .then_some(key)
    }

    /// Whose page.
    #[must_use]
    pub fn ino(self) -> Ino {
        Ino((self.0 >> 36) as u32)
    }

    /// 0 for data, 1 to [`PageKey::LEVEL_MAX`] for nodes.
    #[must_use]
    pub fn level(self) -> u32 {
        (self.0 >> 32) as u32 & 15
    }

    /// Which of the file's pages of this level.
    #[must_use]
    pub fn index(self) -> u32 {
        self.0 as u32
    }

    /// The node that translates this page, and the place of its word there.
    #[must_use]
    pub fn parent(self) -> (PageKey, usize) {
        (Self::new(self.ino(), self.level() + 1, self.index() / 512), self.index() as usize % 512)
    }

    /// The page whose word stands at `slot` of this node.
    #[must_use]
    pub fn child(self, slot: usize) -> PageKey {
        Self::new(self.ino(), self.level() - 1, self.index() * 512 + slot as u32)
    }

    /// Words of this node that can name a page: 512 but at the highest level. Of a page of roots all.
    #[must_use]
    pub fn children(self) -> usize {
        let below = self.level().checked_sub(1).map_or(u64::MAX, |level| pages_max(self.ino(), level));
        below.saturating_sub(u64::from(self.index()) * 512).min(512) as usize
    }

    /// Whether it belongs to the table, and so is written by checkpoints alone.
    #[must_use]
    pub fn is_node(self) -> bool {
        self.level() > 0 || self.ino() == Ino::ROOTS
    }
}

/// Pages that a file, or the table of roots, has of a level at most.
fn pages_max(ino: Ino, level: u32) -> u64 {
    let bits = if ino == Ino::ROOTS { Ino::BITS - 8 } else { u32::BITS };
    1 << bits.saturating_sub(9 * level)
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ino(), self.level()) {
            (ino, 0) => write!(f, "page {} of {ino}", self.index()),
            (ino, level) => write!(f, "node {} of level {level} of {ino}", self.index()),
        }
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_again() {
        let key = PageKey::new(Ino((1 << 28) - 1), 3, 31);
        assert_eq!((key.ino(), key.level(), key.index()), (Ino((1 << 28) - 1), 3, 31));
        assert_eq!(PageKey::from_word(key.word()), Some(key));
        assert_eq!(PageKey::from_word(5 << 32), None);
        let page = PageKey::data(Ino(7), 1025);
        let (leaf, slot) = page.parent();
        assert_eq!((leaf, slot), (PageKey::new(Ino(7), 1, 2), 1));
        assert_eq!(leaf.child(slot), page);
    }

    #[test]
    fn pages_that_no_file_has_are_none() {
        let of = |ino, level, index| PageKey::from_word(PageKey::new(ino, level, index).word());
        assert!(of(Ino(7), 0, u32::MAX).is_some() && of(Ino(7), 1, u32::MAX).is_none());
        assert!(of(Ino(7), 3, 31).is_some() && of(Ino(7), 3, 32).is_none());
        assert!(of(Ino(7), 4, 0).is_some() && of(Ino(7), 4, 1).is_none());
        assert!(of(Ino::ROOTS, 0, (1 << 20) - 1).is_some() && of(Ino::ROOTS, 0, 1 << 20).is_none());
        assert_eq!(PageKey::new(Ino(7), 4, 0).children(), 32);
        assert_eq!(PageKey::new(Ino(7), 1, (1 << 23) - 1).children(), 512);
        assert_eq!(PageKey::data(Ino::ROOTS, 5).children(), 512);
    }
}
