//! Slots for pages.

mod balance;
mod whole;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aquifer_base::PageId;
use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_map::{EntryTable, State};
use aquifer_sys::Errno;

use balance::Wanted;
pub use whole::Lack;

use crate::class::{Class, SIZES};
use crate::policy::{Clock, Lru, Offer, Policy, Position, S3Fifo, Sieve, Slots, TwoHanded};
use crate::returns::{Distances, Returns};
use crate::slabs::{Slabs, SlotId};

/// Which policy evicts objects. Measured in `docs/explanation/policies.md`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PolicyKind {
    /// Second chance over slots in place, with patience for those in use.
    #[default]
    Clock,
    /// Least recently used.
    Lru,
    /// Three FIFO queues.
    S3Fifo,
    /// One queue and a hand.
    Sieve,
}

impl PolicyKind {
    fn build(self, slots_max: usize) -> Box<dyn Policy> {
        match self {
            Self::Clock => Box::new(Clock::new()),
            Self::Lru => Box::new(Lru::new()),
            Self::S3Fifo => Box::new(S3Fifo::new(slots_max)),
            Self::Sieve => Box::new(Sieve::new()),
        }
    }
}

/// Victims that are looked at before a fault asks the writer for help.
const OFFERS: usize = 64;
/// Evictions of a class between two looks at the balance of slabs.
const BALANCE_PERIOD: u64 = 512;
/// The same while the class waits for a slab.
const RETRY_PERIOD: u64 = 16;

/// Distances of pages that come back are measured up to this multiple of the whole pages that the cache could hold, and of compressed ones.
const RETURNS_FROM: usize = 16;
const COMPRESSED_RETURNS_FROM: usize = 2;

struct ClassState {
    policy: Box<dyn Policy>,
    evictions: AtomicU64,
    wanted: Wanted,
}

/// The RAM object cache of one heap.
///
/// # Context
/// All methods may run in fault handlers. Other callers block signals.
pub struct ObjectCache {
    slabs: Slabs,
    classes: Box<[ClassState]>,
    /// The policy of whole pages.
    whole: TwoHanded,
    /// The slab that is to be free.
    wanted_free: Wanted,
    /// Whether a whole page found no free slot yet.
    is_full: AtomicBool,
    /// Mark of objects for whose policy a further use changes nothing; above all marks if there is none.
    last_mark: u8,
    objects: AtomicU64,
    evicted: AtomicU64,
    returns: Returns,
    /// How many more whole pages are plain no longer when one is wanted that was compressed.
    compressed_returns: Returns,
    /// Whole pages that were compressed, or evicted as they were.
    plain_left: AtomicU64,
    spares_used: AtomicBool,
    /// Whole pages that were compressed.
    compressions: AtomicU64,
}

/// The slots of one class as a policy sees them.
struct View<'a> {
    slabs: &'a Slabs,
    class: Class,
    spares_used: bool,
}

impl View<'_> {
    fn slot(&self, at: Position) -> Option<SlotId> {
        self.slabs.slot_at(self.class, at.0)
    }
}

impl Slots for View<'_> {
    fn end(&self) -> u32 {
        self.slabs.positions(self.class)
    }

    fn is_occupied(&self, at: Position) -> bool {
        self.slot(at).is_some_and(|slot| self.slabs.owner(self.class, slot).is_some())
    }

    fn mark(&self, at: Position) -> u8 {
        self.slot(at).map_or(0, |slot| self.slabs.mark(self.class, slot))
    }

    fn set_mark(&self, at: Position, mark: u8) {
        if let Some(slot) = self.slot(at) {
            self.slabs.set_mark(self.class, slot, mark);
        }
    }

    fn links(&self, at: Position) -> (u32, u32) {
        self.slot(at).map_or((u32::MAX, u32::MAX), |slot| self.slabs.links(self.class, slot))
    }

    fn set_links(&self, at: Position, links: (u32, u32)) {
        if let Some(slot) = self.slot(at) {
            self.slabs.set_links(self.class, slot, links);
        }
    }

    fn key_hash(&self, at: Position) -> u32 {
        let page = self.slot(at).and_then(|slot| self.slabs.owner(self.class, slot));
        page.map_or(0, |page| (page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32)
    }

    fn spares_used(&self) -> bool {
        self.spares_used
    }
}

impl ObjectCache {
    /// A cache of at most `bytes`, slot headers included.
    ///
    /// # Errors
    /// The kernel refused the address space.
    pub fn new(bytes: usize, kind: PolicyKind) -> Result<Self, Errno> {
        let policy = kind.build(0);
        let (links, last_mark) = (policy.needs_links(), policy.last_mark().unwrap_or(u8::MAX));
        let classes = SIZES.iter().map(|size| {
            let ghosts = (bytes / size).min(1 << 16);
            ClassState { policy: kind.build(ghosts), evictions: AtomicU64::new(0), wanted: Wanted::new() }
        });
        Ok(Self {
            slabs: Slabs::new(bytes, links)?,
            classes: classes.collect(),
            whole: TwoHanded::new(),
            wanted_free: Wanted::new(),
            is_full: AtomicBool::new(false),
            last_mark,
            objects: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            returns: Returns::new(bytes / OS_PAGE_BYTES * RETURNS_FROM),
            compressed_returns: Returns::new(bytes / OS_PAGE_BYTES * COMPRESSED_RETURNS_FROM),
            plain_left: AtomicU64::new(0),
            spares_used: AtomicBool::new(true),
            compressions: AtomicU64::new(0),
        })
    }

    /// Name of the policy.
    pub fn policy_name(&self) -> &'static str {
        self.classes[0].policy.name()
    }

    /// RAM in use: whole slabs and their bookkeeping.
    pub fn ram_bytes(&self) -> usize {
        self.slabs.ram_bytes()
    }

    /// Part of [`ObjectCache::ram_bytes`] that is not object bytes.
    pub fn metadata_bytes(&self) -> usize {
        self.slabs.metadata_bytes()
    }

    /// Slots in use.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Lets policies keep used objects longer at the expense of new ones, as they do at first, or not. New objects that
    /// must be written gain by time in the cache, however little they are used: they meet neighbours to be
    /// written with.
    pub fn set_spares_used(&self, spares: bool) {
        self.spares_used.store(spares, Ordering::Relaxed);
    }

    fn note_evicted(&self, page: PageId) {
        let evicted = self.evicted.fetch_add(1, Ordering::Relaxed) + 1;
        self.returns.note_left(page, evicted);
    }

    /// Notes that a page is wanted which is not in RAM, but on flash.
    pub fn note_back(&self, page: PageId) {
        self.returns.note_back(page, self.evicted());
    }

    /// How far pages had gone that came back, of a sample.
    pub fn distances(&self) -> Distances {
        self.returns.distances()
    }

    /// Objects evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn view(&self, class: Class) -> View<'_> {
        View { slabs: &self.slabs, class, spares_used: self.spares_used.load(Ordering::Relaxed) }
    }

    fn policy(&self, class: Class) -> &dyn Policy {
        if class == Class::WHOLE { &self.whole } else { &*self.classes[class.index()].policy }
    }

    /// First byte of a slot. Only who holds the entry of the page that owns it may use the bytes.
    #[inline]
    pub fn pointer(&self, slot: SlotId) -> *mut u8 {
        self.slabs.pointer(slot)
    }

    /// The page that owns the slot, if it is used.
    pub fn owner(&self, slot: SlotId) -> Option<PageId> {
        self.slabs.owner(self.slabs.class_of(slot), slot)
    }

    /// The object in `slot` was used; whether it is a whole page that was read ahead, and this is its first use.
    #[inline]
    pub fn touch(&self, slot: SlotId) -> bool {
        let class = self.slabs.class_of(slot);
        if class == Class::WHOLE {
            return self.came_back(slot);
        }
        if self.slabs.mark(class, slot) >= self.last_mark {
            return false;
        }
        self.policy(class).touch(&self.view(class), Position(self.slabs.position_of(class, slot)));
        false
    }

    /// Whether the policy has seen at most one use of the object since it was inserted or given its last chance.
    /// Of whole pages, whether it did not come back from its last trial.
    pub fn is_cold(&self, slot: SlotId) -> bool {
        let mark = self.slabs.mark_of_any(slot);
        if self.slabs.class_of(slot) == Class::WHOLE { !whole::has_standing(mark) } else { mark <= 1 }
    }

    /// A slot of `class` for `page`, whose entry the caller holds; evicts a clean page if need be. `None`
    /// if every candidate was dirty or in use: have the writer write some back, then try again.
    pub fn allocate(&self, class: Class, page: PageId, entries: &EntryTable) -> Option<SlotId> {
        let slot = match self.slabs.allocate(class, page) {
            Some(slot) => {
                self.objects.fetch_add(1, Ordering::Relaxed);
                slot
            }
            None => {
                if class == Class::WHOLE {
                    self.is_full.store(true, Ordering::Relaxed);
                }
                self.evict_for(class, page, entries)?
            }
        };
        let at = Position(self.slabs.position_of(class, slot));
        self.policy(class).insert(&self.view(class), at);
        Some(slot)
    }

    fn evict_for(&self, class: Class, page: PageId, entries: &EntryTable) -> Option<SlotId> {
        let evictions = self.classes[class.index()].evictions.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_time_for_balance(class, evictions)
            && let Some(slot) = self.allocate_from_other_class(class, page, entries)
        {
            return Some(slot);
        }
        let view = self.view(class);
        let mut offer = |at: Position| match view.slot(at) {
            Some(slot) if self.try_empty(class, slot, entries) => Offer::Taken,
            _ => Offer::Refused,
        };
        let sweep = self.slabs.sweep();
        let taken = self.policy(class).evict(&view, OFFERS, &mut offer);
        drop(sweep);
        if let Some(at) = taken {
            let slot = view.slot(at).expect("a slot that was just emptied is in a slab");
            self.slabs.set_owner(class, slot, page);
            self.set_has_memory(slot, true);
            return Some(slot);
        }
        self.allocate_from_other_class(class, page, entries)
    }

    /// Takes `slot` from its page if that is clean and only cached.
    fn try_empty(&self, class: Class, slot: SlotId, entries: &EntryTable) -> bool {
        let Some(owner) = self.slabs.owner(class, slot) else { return false };
        let may_leave = |entry: aquifer_map::Entry| {
            entry.state() == State::Cached
                && !entry.is_dirty()
                && !entry.is_pinned()
                && entry.slot() == Some(slot.0)
        };
        let Some(locked) = entries.try_lock_if(owner, may_leave) else { return false };
        self.slabs.clear_owner(class, slot);
        locked.remove();
        self.note_evicted(owner);
        if class == Class::WHOLE {
            self.plain_left.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Gives back a slot whose page leaves RAM; the caller holds the page's entry.
    pub fn free(&self, slot: SlotId) {
        let class = self.slabs.class_of(slot);
        let at = Position(self.slabs.position_of(class, slot));
        self.policy(class).remove(&self.view(class), at);
        self.slabs.clear_owner(class, slot);
        self.slabs.free(class, slot);
        self.objects.fetch_sub(1, Ordering::Relaxed);
    }

    /// Evicts `page` from RAM if it is clean and only cached; returns whether it left.
    pub fn evict_page(&self, page: PageId, entries: &EntryTable) -> bool {
        let may_leave = |entry: aquifer_map::Entry| {
            entry.state() == State::Cached && !entry.is_dirty() && !entry.is_pinned()
        };
        let Some(locked) = entries.try_lock_if(page, may_leave) else { return false };
        if let Some(slot) = locked.before().and_then(aquifer_map::Entry::slot) {
            self.free(SlotId(slot));
        }
        locked.remove();
        self.note_evicted(page);
        true
    }

    /// Calls `visit` for up to `count` pages that `class` would evict next. `visit` neither allocates nor
    /// frees a slot.
    pub fn upcoming(&self, class: Class, count: usize, visit: &mut dyn FnMut(SlotId, PageId)) {
        let view = self.view(class);
        let _sweep = self.slabs.sweep();
        self.policy(class).upcoming(&view, count, &mut |at| {
            if let Some(slot) = view.slot(at)
                && let Some(page) = self.slabs.owner(class, slot)
            {
                visit(slot, page);
            }
        });
    }

    /// Slots that the class has in all.
    pub fn slots(&self, class: Class) -> usize {
        self.slabs.slabs_of(class) as usize * self.slabs.slots_per_slab(class) as usize
    }

    /// Slots that the class can have without taking any from others.
    pub fn slots_to_be_had(&self, class: Class) -> usize {
        self.slots(class) + self.slabs.unused() * self.slabs.slots_per_slab(class) as usize
    }

    /// Calls `visit` for every slot in use.
    pub fn for_each(&self, visit: &mut dyn FnMut(SlotId, PageId)) {
        for class in Class::all() {
            for rank in 0..self.slabs.rank_end(class) {
                let Some(slab) = self.slabs.slab_at(class, rank) else { continue };
                for slot in self.slabs.slots_in(class, slab) {
                    if let Some(page) = self.slabs.owner(class, slot) {
                        visit(slot, page);
                    }
                }
            }
        }
    }
}
