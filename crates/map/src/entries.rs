//! The table of entries: pages that are in RAM.
//!
//! A hash table of buckets of eight words, one cache line each. A page may stand in one of two buckets
//! (Azar et al., "Balanced Allocations", 1994), which lets the table fill to four fifths without moving
//! anything; where both are full none the less, the caller evicts one of the pages in them. Neighbours are
//! kept together: the buckets of a leaf's 512 pages are 256 consecutive ones from the leaf's hash, so that
//! the writer finds a leaf's other dirty pages by one short walk.
//!
//! Lookups take no lock and write nothing. An entry is held by its moving form. Only insertion takes a
//! lock, striped by page, so that a page never gets two entries.

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_sys::memory::prefer_huge_pages;

use crate::entry::{Entry, State};
use crate::sync::{AtomicU64, Backoff, Ordering};

const PAGES_PER_BUCKET: usize = 2;
#[cfg(not(loom))]
const BUCKET_ENTRIES: usize = 8;
#[cfg(not(loom))]
const STRIPES: usize = 1024;
/// Small, so that every interleaving can be tried; two stripes, so that inserts of two pages can meet.
#[cfg(loom)]
const BUCKET_ENTRIES: usize = 2;
#[cfg(loom)]
const STRIPES: usize = 2;

#[repr(align(64))]
struct Bucket([AtomicU64; BUCKET_ENTRIES]);

/// The entries of one heap.
pub struct EntryTable {
    buckets: Box<[Bucket]>,
    mask: usize,
    inserting: Box<[AtomicU64]>,
}

/// An entry that this thread holds in its moving form.
///
/// It must be given back by one of the methods that consume it; dropping it would leave others waiting.
#[must_use]
pub struct Locked<'a> {
    word: &'a AtomicU64,
    before: Option<Entry>,
    held: Entry,
}

impl Locked<'_> {
    /// The entry as it was when it was taken; `None` if the page was not in RAM.
    pub fn before(&self) -> Option<Entry> {
        self.before
    }

    /// The moving form, from which the next form is made.
    pub fn entry(&self) -> Entry {
        self.held
    }

    /// Gives the entry back as `entry`.
    pub fn release(self, entry: Entry) {
        debug_assert!(entry.state() != State::Moving);
        self.word.store(entry.word(), Ordering::Release);
    }

    /// Gives the entry back as it was before.
    pub fn restore(self) {
        self.word.store(self.before.map_or(0, Entry::word), Ordering::Release);
    }

    /// Ends the page's stay in RAM.
    pub fn remove(self) {
        self.word.store(0, Ordering::Release);
    }
}

/// Both buckets of a page are full: evict one of the pages that [`EntryTable::for_each_rival`] names.
#[derive(Debug, PartialEq, Eq)]
pub struct TableFull;

/// One of the two places where a page may stand.
struct Probe {
    bucket: usize,
    key: u64,
}

#[inline]
fn leaf_hash(leaf: LeafId, seed: u64) -> usize {
    let mut x = (u64::from(leaf.0) ^ seed).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x ^= x >> 32;
    x = x.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (x ^ x >> 29) as usize
}

impl EntryTable {
    /// A table for up to `entries` pages at a time.
    pub fn new(entries: usize) -> Self {
        let buckets = (entries * 5 / 4).div_ceil(BUCKET_ENTRIES).max(LEAF_PAGES / PAGES_PER_BUCKET);
        Self::with_buckets(buckets)
    }

    fn with_buckets(count: usize) -> Self {
        let mut buckets: Vec<Bucket> = Vec::with_capacity(count);
        prefer_huge_pages(buckets.spare_capacity_mut());
        buckets.extend((0..count).map(|_| Bucket(std::array::from_fn(|_| AtomicU64::new(0)))));
        Self {
            buckets: buckets.into(),
            mask: count,
            inserting: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// RAM that the table takes.
    pub fn ram_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + STRIPES * 8
    }

    /// How many entries it is made for.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * BUCKET_ENTRIES / 5 * 4
    }

    #[inline]
    fn window(&self, leaf: LeafId, second: bool) -> usize {
        let seed = if second { 0x9E37_79B9_7F4A_7C15 } else { 0 };
        ((leaf_hash(leaf, seed) as u32 as u64 * self.mask as u64) >> 32) as usize
    }

    #[inline]
    fn bucket_in(&self, window: usize, index: usize) -> usize {
        let at = window + index / PAGES_PER_BUCKET;
        if at >= self.mask { at % self.mask } else { at }
    }

    fn tag(leaf: LeafId, index: usize) -> u64 {
        u64::from(leaf.0) << 1 | (index % PAGES_PER_BUCKET) as u64
    }

    #[inline]
    fn probe(&self, page: PageId, second: bool) -> Probe {
        let (leaf, index) = (page.leaf(), page.index());
        let bucket = self.bucket_in(self.window(leaf, second), index);
        Probe { bucket, key: Entry::key(Self::tag(leaf, index), second) }
    }

    /// Most pages stand in their first place, so the second is not worked out before it is looked at.
    #[inline]
    fn find_word(&self, page: PageId) -> Option<(&AtomicU64, Entry)> {
        self.find_at(self.probe(page, false)).or_else(|| self.find_at(self.probe(page, true)))
    }

    #[inline]
    fn find_at(&self, Probe { bucket, key }: Probe) -> Option<(&AtomicU64, Entry)> {
        // Almost every word that does not match has another key, so that is looked at first.
        self.buckets[bucket].0.iter().find_map(|word| {
            let found = word.load(Ordering::Acquire);
            if Entry::has_key_in(found, key) {
                Entry::from_word(found).map(|entry| (word, entry))
            } else {
                None
            }
        })
    }

    /// The page's entry at this moment; `None` if the page is not in RAM. Lock-free.
    pub fn find(&self, page: PageId) -> Option<Entry> {
        self.find_word(page).map(|(_, entry)| entry)
    }

    /// Whether the page has an entry now, asking the processor to fetch its cache lines.
    pub fn is_resident(&self, page: PageId) -> bool {
        self.find(page).is_some()
    }

    /// Takes the page's entry if it is exactly `expected`.
    pub fn try_lock_if(&self, page: PageId, expected: impl Fn(Entry) -> bool) -> Option<Locked<'_>> {
        let (word, entry) = self.find_word(page)?;
        if entry.state() == State::Moving || !expected(entry) {
            return None;
        }
        Self::take(word, entry)
    }

    /// Exchanges the page's entry for what `next` makes of it, without holding it in between; returns both. `None` if the
    /// page has none that may be exchanged now, or if another thread was first.
    pub fn exchange(&self, page: PageId, next: impl Fn(Entry) -> Option<Entry>) -> Option<(Entry, Entry)> {
        let (word, entry) = self.find_word(page)?;
        let next = next(entry)?;
        debug_assert!(entry.state() == State::Cached && next.state() == State::Cached);
        word.compare_exchange(entry.word(), next.word(), Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| (entry, next))
    }

    fn take(word: &AtomicU64, entry: Entry) -> Option<Locked<'_>> {
        let held = entry.moving();
        word.compare_exchange(entry.word(), held.word(), Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| Locked { word, before: Some(entry), held })
    }

    /// Takes the page's entry, and makes one if the page is not in RAM; `None` if another thread holds it.
    ///
    /// # Errors
    /// [`TableFull`]: evict something and try again.
    pub fn try_lock(&self, page: PageId) -> Result<Option<Locked<'_>>, TableFull> {
        match self.find_word(page) {
            Some((_, entry)) if entry.state() == State::Moving => Ok(None),
            Some((word, entry)) => Ok(Self::take(word, entry)),
            None => self.insert(page),
        }
    }

    /// Takes the page's entry, and waits while another thread holds it; makes one if the page is not in RAM.
    ///
    /// # Errors
    /// [`TableFull`]: evict something and try again.
    pub fn lock(&self, page: PageId) -> Result<Locked<'_>, TableFull> {
        self.lock_inner(page, true).map(|locked| locked.expect("an entry was made"))
    }

    /// Takes the page's entry if it has one, and waits while another thread holds it.
    pub fn lock_resident(&self, page: PageId) -> Option<Locked<'_>> {
        self.lock_inner(page, false).ok().flatten()
    }

    /// Makes an entry for a page that is not in RAM; `None` if it is, or if there is no room.
    pub fn try_insert(&self, page: PageId) -> Option<Locked<'_>> {
        if self.find_word(page).is_some() { None } else { self.insert(page).ok().flatten() }
    }

    fn lock_inner(&self, page: PageId, make: bool) -> Result<Option<Locked<'_>>, TableFull> {
        let mut backoff = Backoff::new();
        loop {
            match self.find_word(page) {
                Some((_, entry)) if entry.state() == State::Moving => {}
                Some((word, entry)) => {
                    if let Some(locked) = Self::take(word, entry) {
                        return Ok(Some(locked));
                    }
                }
                None if !make => return Ok(None),
                None => {
                    if let Some(locked) = self.insert(page)? {
                        return Ok(Some(locked));
                    }
                }
            }
            backoff.wait();
        }
    }

    /// Makes an entry; `Ok(None)` if another thread was first.
    fn insert(&self, page: PageId) -> Result<Option<Locked<'_>>, TableFull> {
        let stripe = &self.inserting[(page.0 as usize).wrapping_mul(0x9E37_79B1) % STRIPES];
        let mut backoff = Backoff::new();
        while stripe.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            backoff.wait();
        }
        let made = if self.find_word(page).is_some() { Ok(None) } else { self.occupy(page).map(Some) };
        stripe.store(0, Ordering::Release);
        made
    }

    fn occupy(&self, page: PageId) -> Result<Locked<'_>, TableFull> {
        let vacancies =
            |bucket: usize| self.buckets[bucket].0.iter().filter(|w| w.load(Ordering::Relaxed) == 0).count();
        let mut probes = [false, true].map(|second| self.probe(page, second));
        if vacancies(probes[1].bucket) > vacancies(probes[0].bucket) {
            probes.swap(0, 1);
        }
        for Probe { bucket, key } in probes {
            let held = Entry::moving_new(key);
            for word in &self.buckets[bucket].0 {
                if word.load(Ordering::Relaxed) == 0
                    && word.compare_exchange(0, held.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    return Ok(Locked { word, before: None, held });
                }
            }
        }
        Err(TableFull)
    }

    /// Calls `visit` for every resident page of `leaf`, in no particular order.
    pub fn for_each_of_leaf(&self, leaf: LeafId, visit: &mut dyn FnMut(PageId, Entry)) {
        for second in [false, true] {
            let window = self.window(leaf, second);
            for step in 0..LEAF_PAGES / PAGES_PER_BUCKET {
                let first_index = step * PAGES_PER_BUCKET;
                for word in &self.buckets[self.bucket_in(window, first_index)].0 {
                    let Some(entry) = Entry::from_word(word.load(Ordering::Acquire)) else { continue };
                    for index in first_index..first_index + PAGES_PER_BUCKET {
                        if entry.has_key(Entry::key(Self::tag(leaf, index), second)) {
                            visit(leaf.page(index), entry);
                        }
                    }
                }
            }
        }
    }

    /// Calls `visit` for every page that stands in one of the two buckets of `page`.
    pub fn for_each_rival(&self, page: PageId, visit: &mut dyn FnMut(PageId, Entry)) {
        for bucket in [false, true].map(|second| self.probe(page, second).bucket) {
            for word in &self.buckets[bucket].0 {
                let Some(entry) = Entry::from_word(word.load(Ordering::Acquire)) else { continue };
                visit(self.page_of(bucket, entry), entry);
            }
        }
    }

    /// The page whose entry stands in `bucket`: the bucket implies what the tag leaves out.
    fn page_of(&self, bucket: usize, entry: Entry) -> PageId {
        let leaf = LeafId((entry.tag() >> 1) as u32);
        let window = self.window(leaf, entry.is_second());
        let step = (bucket + self.mask - window) % self.mask;
        leaf.page(step * PAGES_PER_BUCKET + (entry.tag() & 1) as usize)
    }

    /// Calls `visit` for every entry, in no particular order.
    pub fn for_each(&self, visit: &mut dyn FnMut(PageId, Entry)) {
        for (bucket, words) in self.buckets.iter().enumerate() {
            for word in &words.0 {
                if let Some(entry) = Entry::from_word(word.load(Ordering::Acquire)) {
                    visit(self.page_of(bucket, entry), entry);
                }
            }
        }
    }

    /// Words in use, by looking at all of them.
    pub fn count(&self) -> usize {
        self.buckets.iter().flat_map(|b| &b.0).filter(|w| w.load(Ordering::Relaxed) != 0).count()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
