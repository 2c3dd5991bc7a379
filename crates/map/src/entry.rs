//! The 64-bit word that says where a page in RAM is.
//!
//! ```text
//! 63..62  state     0 vacant, 1 moving, 2 cached, 3 mapped
//! 61      dirty     the bytes in the slot are newer than those in the log
//! 60      writable  the mapped page may be newer than its slot; of a cached page: with `pinned` it is used more than once, without
//!                   it is compressed
//! 59      pinned    the page must stay mapped; of a cached page: it is used in its slot
//! 58      second    the word stands in the second of the page's two buckets
//! 57..32  tag       the part of the page id that the bucket does not imply
//! 31..0   slot      of the object cache
//! ```

/// Where a page in RAM is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// In flight: being filled or evicted by one thread. Others wait.
    Moving,
    /// In a slot of the object cache only.
    Cached,
    /// At its own address, and in a slot.
    Mapped,
}

/// One word of the table, not vacant. All changes go through [`State::Moving`], except that a thread
/// may take an entry that it does not hold only by exchanging the word it saw for its moving form.
///
/// Legal transitions: vacant -> Moving (a fault takes a page that is not in RAM), Moving -> Cached,
/// Moving -> Mapped, Moving -> vacant, Cached -> Moving, Mapped -> Moving; and Cached -> Cached, when only its pinned
/// and dirty flags change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry(u64);

const STATE_SHIFT: u32 = 62;
const DIRTY: u64 = 1 << 61;
const WRITABLE: u64 = 1 << 60;
const PINNED: u64 = 1 << 59;
const SECOND: u64 = 1 << 58;
const TAG_SHIFT: u32 = 32;
/// Bits of the tag.
pub const TAG_BITS: u32 = 26;
const TAG_MASK: u64 = ((1 << TAG_BITS) - 1) << TAG_SHIFT;
const KEY_MASK: u64 = SECOND | TAG_MASK;
const NO_SLOT: u32 = u32::MAX;

impl Entry {
    /// The key bits of a word for a page with this tag, in its first or second bucket.
    pub(crate) const fn key(tag: u64, second: bool) -> u64 {
        (tag << TAG_SHIFT) | if second { SECOND } else { 0 }
    }

    /// A moving entry without a slot.
    pub(crate) const fn moving_new(key: u64) -> Self {
        Self(key | 1 << STATE_SHIFT | NO_SLOT as u64)
    }

    /// The entry in `word`; `None` if it is vacant.
    pub(crate) const fn from_word(word: u64) -> Option<Self> {
        if word >> STATE_SHIFT == 0 { None } else { Some(Self(word)) }
    }

    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn has_key(self, key: u64) -> bool {
        Self::has_key_in(self.0, key)
    }

    /// Whether these are the key bits of `word`, which may be vacant.
    pub(crate) const fn has_key_in(word: u64, key: u64) -> bool {
        word & KEY_MASK == key
    }

    pub(crate) const fn tag(self) -> u64 {
        (self.0 & TAG_MASK) >> TAG_SHIFT
    }

    pub(crate) const fn is_second(self) -> bool {
        self.0 & SECOND != 0
    }

    /// Where the page is.
    pub const fn state(self) -> State {
        match self.0 >> STATE_SHIFT {
            1 => State::Moving,
            2 => State::Cached,
            _ => State::Mapped,
        }
    }

    /// The slot that holds the page's bytes, if one was assigned.
    pub const fn slot(self) -> Option<u32> {
        let slot = self.0 as u32;
        if slot == NO_SLOT { None } else { Some(slot) }
    }

    /// Whether the bytes in the slot are newer than those in the log.
    pub const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether the mapped page may be newer than its slot.
    pub const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// Whether the page must stay mapped.
    pub const fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    /// Whether a cached page is used more than once in its slot; how often stands elsewhere.
    pub const fn is_shared(self) -> bool {
        self.0 & (WRITABLE | PINNED) == WRITABLE | PINNED
    }

    /// Whether the page's bytes are compressed in its slot, where nobody can use them.
    pub const fn is_compressed(self) -> bool {
        matches!(self.state(), State::Cached) && self.0 & (WRITABLE | PINNED) == WRITABLE
    }

    /// With the shared flag of a cached page set or cleared.
    pub const fn with_shared(self, shared: bool) -> Self {
        Self(if shared { self.0 | WRITABLE } else { self.0 & !WRITABLE })
    }

    const fn with_state(self, code: u64) -> Self {
        Self(self.0 & !(3 << STATE_SHIFT) | code << STATE_SHIFT)
    }

    pub(crate) const fn moving(self) -> Self {
        self.with_state(1)
    }

    /// In its slot only.
    pub const fn cached(self, slot: u32) -> Self {
        let flags = self.0 & !(u32::MAX as u64 | WRITABLE | PINNED);
        Self(flags | slot as u64).with_state(2)
    }

    /// In its slot only, compressed.
    pub const fn compressed(self, slot: u32) -> Self {
        Self(self.cached(slot).0 | WRITABLE)
    }

    /// At its address and in `slot`. Whether a writable page was written shows when it leaves.
    pub const fn mapped(self, slot: u32, writable: bool) -> Self {
        let word = self.0 & !(u32::MAX as u64 | WRITABLE) | slot as u64;
        Self(if writable { word | WRITABLE } else { word }).with_state(3)
    }

    /// With the dirty flag set or cleared.
    pub const fn with_dirty(self, dirty: bool) -> Self {
        Self(if dirty { self.0 | DIRTY } else { self.0 & !DIRTY })
    }

    /// With the pinned flag set or cleared.
    pub const fn with_pinned(self, pinned: bool) -> Self {
        Self(if pinned { self.0 | PINNED } else { self.0 & !PINNED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let key = Entry::key((1 << TAG_BITS) - 1, true);
        let entry = Entry::moving_new(key);
        assert_eq!((entry.state(), entry.slot(), entry.is_dirty()), (State::Moving, None, false));
        let mapped = entry.mapped(7, true).with_pinned(true).with_dirty(true);
        assert_eq!((mapped.state(), mapped.slot()), (State::Mapped, Some(7)));
        assert!(mapped.is_dirty() && mapped.is_writable() && mapped.is_pinned() && mapped.has_key(key));
        let cached = mapped.moving().cached(7);
        assert_eq!((cached.state(), cached.slot()), (State::Cached, Some(7)));
        assert!(cached.is_dirty() && !cached.is_writable() && !cached.is_pinned() && cached.has_key(key));
        assert!(!cached.with_dirty(false).is_dirty());
        let compressed = cached.moving().compressed(9);
        assert_eq!((compressed.state(), compressed.slot()), (State::Cached, Some(9)));
        assert!(compressed.is_compressed() && compressed.is_dirty() && !compressed.is_pinned());
        assert!(!cached.is_compressed() && !mapped.is_compressed() && !compressed.moving().is_compressed());
        let used = cached.with_pinned(true);
        assert!(
            !used.with_shared(true).is_compressed()
                && used.with_shared(true).is_shared()
                && !compressed.is_shared()
        );
    }

    #[test]
    fn an_untouched_word_is_vacant() {
        assert_eq!(Entry::from_word(0), None);
    }
}
