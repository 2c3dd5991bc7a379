//! 512 words of the table, in RAM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::key::PageKey;
use crate::patch::Ranges;
use crate::word::{PageBytes, Word};

/// Words of a node.
pub const NODE_WORDS: usize = 512;

/// A leaf of the table, a node above leaves, or a page of roots. Readers load words at any time; only the writer stores.
pub struct Node {
    key: PageKey,
    words: Box<[AtomicU64; NODE_WORDS]>,
    /// Which words differ from the page that a patch of this node would be made for.
    changed: [AtomicU64; NODE_WORDS / 64],
    is_dirty: AtomicBool,
    /// Dirty nodes of the table.
    dirty_nodes: Arc<AtomicUsize>,
    /// Looks for a node to drop that it outlives.
    lives: AtomicU8,
}

/// Looks that a node outlives unused. A look comes to each node about as often as to each page, but a node finds as many pages as it has words; with
/// one life, half of them go between two uses where pages are used once in a while and evenly.
const LIVES: u8 = 4;

impl Node {
    /// Notes a use.
    pub(crate) fn touch(&self) {
        if self.lives.load(Ordering::Relaxed) != LIVES {
            self.lives.store(LIVES, Ordering::Relaxed);
        }
    }

    /// Notes that somebody looks for a node to drop; says whether it is not to be this one.
    pub(crate) fn outlives_a_look(&self) -> bool {
        let lives = self.lives.load(Ordering::Relaxed);
        self.lives.store(lives.saturating_sub(1), Ordering::Relaxed);
        lives > 0
    }

    /// Bytes of RAM that a node takes: words, counts, and its entries in the map that finds nodes, which is at least half full, and in the order
    /// in which they go.
    pub const RAM_BYTES: usize = NODE_WORDS * size_of::<u64>()
        + size_of::<Node>()
        + 2 * size_of::<usize>()
        + 2 * (size_of::<PageKey>() + size_of::<usize>() + 1)
        + size_of::<PageKey>();

    /// A node of zeros, of a table that counts its dirty nodes.
    #[must_use]
    pub fn new(key: PageKey, dirty_nodes: &Arc<AtomicUsize>) -> Self {
        let words = vec![0u64; NODE_WORDS].into_iter().map(AtomicU64::new).collect::<Box<[_]>>();
        Node {
            key,
            words: words.try_into().unwrap_or_else(|_| unreachable!("as many as were collected")),
            changed: Default::default(),
            is_dirty: AtomicBool::new(false),
            dirty_nodes: Arc::clone(dirty_nodes),
            lives: AtomicU8::new(LIVES),
        }
    }

    /// A node as it was read; `patched` is what a patch changed in it.
    #[must_use]
    pub fn from_page(
        key: PageKey,
        bytes: &PageBytes,
        patched: Option<&Ranges>,
        dirty_nodes: &Arc<AtomicUsize>,
    ) -> Self {
        let node = Node::new(key, dirty_nodes);
        for (word, bytes) in node.words.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
        for word in patched.into_iter().flat_map(Ranges::words) {
            node.note_changed(word);
        }
        node
    }

    /// Which node it is.
    #[must_use]
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// The word at a place.
    #[must_use]
    pub fn word(&self, slot: usize) -> Word {
        Word::from_bits(self.words[slot].load(Ordering::Acquire))
    }

    /// Changes a word, and returns what it was.
    pub fn set(&self, slot: usize, word: Word) -> Word {
        let old = self.words[slot].swap(word.bits(), Ordering::AcqRel);
        self.note_changed(slot);
        self.note_dirty();
        Word::from_bits(old)
    }

    fn note_dirty(&self) {
        if !self.is_dirty.swap(true, Ordering::AcqRel) {
            self.dirty_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Says that flash has nothing of it.
    pub fn note_changed_whole(&self) {
        for changed in &self.changed {
            changed.store(u64::MAX, Ordering::Relaxed);
        }
        self.note_dirty();
    }

    fn note_changed(&self, slot: usize) {
        self.changed[slot / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    /// Whether flash has an older one.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Whether all words are zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Its bytes, and what differs from the page that a patch would be made for.
    #[must_use]
    pub fn to_page(&self, bytes: &mut PageBytes) -> Ranges {
        for (word, bytes) in self.words.iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let is_changed =
            |slot: &usize| self.changed[slot / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 != 0;
        Ranges::of_words((0..NODE_WORDS).filter(is_changed))
    }

    /// Says that flash has it now: as a patch, or `as_page` whole.
    pub fn note_written(&self, as_page: bool) {
        if self.is_dirty.swap(false, Ordering::AcqRel) {
            self.dirty_nodes.fetch_sub(1, Ordering::Relaxed);
        }
        if as_page {
            for changed in &self.changed {
                changed.store(0, Ordering::Relaxed);
            }
        }
    }

    /// All words.
    pub fn words(&self) -> impl Iterator<Item = Word> + '_ {
        self.words.iter().map(|word| Word::from_bits(word.load(Ordering::Acquire)))
    }
}
