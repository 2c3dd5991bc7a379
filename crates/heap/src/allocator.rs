//! malloc, free and the rest.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_base::limits::{LEAF_PAGES, LEAF_RANGE_BYTES, OBJECT_BYTES_MAX, OS_PAGE_BYTES};
use aquifer_base::{AllocationClass, LeafId, PageId};
use aquifer_vm::Engine;

use crate::backlog::{Backlog, Batch};
use crate::class::current_class;
use crate::error::HeapError;
use crate::paged::Paged;
use crate::pool::Freed;
use crate::pools::{Kind, Pools};
use crate::promises::Promises;
use crate::shape::{Shape, element_page_bytes, flash_bytes};
use crate::spans::Spans;

/// Freed objects have one part in `BACKLOG_PART` of flash at most.
const BACKLOG_PART: u64 = 64;

/// What a leaf is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    /// Objects of this shape and of the leaf's class.
    Pool(Shape),
    /// Part of an object or array with leaves of its own.
    Span,
    /// Part of the space of blocks.
    Paged,
}

/// An object or array with leaves of its own.
#[derive(Clone, Copy)]
struct Span {
    leaves: u32,
    pages: u64,
    page_bytes: u16,
    is_array: bool,
}

pub(crate) struct State {
    uses: Vec<Use>,
    spans: Spans,
    owned: BTreeMap<u32, Span>,
    pools: Pools,
    /// First pages of objects whose free is under way.
    freeing: HashSet<u64>,
    /// Objects that are freed, and whose places are not.
    backlog: Backlog,
    pub(crate) promises: Promises,
    usage: Usage,
}

/// What is allocated.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Objects; an array counts as its elements.
    pub objects: u64,
    /// Their bytes, rounded up to their shape.
    pub object_bytes: u64,
    /// Bytes promised to them on flash.
    pub promised_bytes: u64,
    /// Bytes that can be promised in all while no object has larger pages than those that there are.
    pub promised_bytes_max: u64,
    /// Leaves that were ever given out.
    pub leaves: u32,
}

/// What a pointer refers to.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    first: PageId,
    pub(crate) pages: u64,
    page_bytes: usize,
    /// Elements of an array, else 1.
    pub(crate) count: u64,
    place: Option<(Kind, usize)>,
}

/// The objects of one heap.
pub struct Allocator {
    pub(crate) engine: Arc<Engine>,
    /// Bytes that freed objects may have on flash at most.
    backlog_bytes_max: u64,
    state: Mutex<State>,
    pub(crate) paged: OnceLock<Paged>,
}

impl State {
    fn note_freed(&mut self, object: Object) {
        self.usage.objects -= object.count;
        self.usage.object_bytes -= object.pages * object.page_bytes as u64;
    }
}

impl Allocator {
    /// An allocator over the whole region of `engine`.
    pub fn new(engine: Arc<Engine>) -> Self {
        let leaves = (engine.region_bytes() / LEAF_RANGE_BYTES) as u32;
        let state = State {
            uses: Vec::new(),
            spans: Spans::new(leaves),
            owned: BTreeMap::new(),
            pools: Pools::default(),
            freeing: HashSet::new(),
            backlog: Backlog::default(),
            promises: Promises::default(),
            usage: Usage::default(),
        };
        let backlog_bytes_max = engine.log().usable_bytes(OS_PAGE_BYTES) / BACKLOG_PART;
        Self { engine, backlog_bytes_max, state: Mutex::new(state), paged: OnceLock::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is allocated now.
    pub fn usage(&self) -> Usage {
        // Before the state is locked: an allocation of a block locks them in this order.
        let (blocks, block_bytes) = self.paged.get().map_or((0, 0), Paged::usage);
        let state = self.state();
        Usage {
            objects: state.usage.objects + blocks,
            object_bytes: state.usage.object_bytes + block_bytes,
            promised_bytes: state.promises.bytes() - state.backlog.flash_bytes(),
            promised_bytes_max: self.engine.log().usable_bytes(state.promises.largest_page_bytes()),
            ..state.usage
        }
    }

    /// RAM of the bookkeeping.
    pub fn ram_bytes(&self) -> usize {
        let paged = self.paged.get().map_or(0, Paged::ram_bytes);
        let state = self.state();
        state.uses.capacity() * size_of::<Use>()
            + paged
            + state.owned.len() * 2 * size_of::<Span>()
            + state.pools.ram_bytes()
            + state.backlog.ram_bytes()
    }

    /// The first byte of a new object of `bytes` and of this thread's class, which reads as zeros. 0 bytes count as 1.
    ///
    /// # Errors
    /// [`HeapError::TooLarge`], [`HeapError::Full`], [`HeapError::NoAddressSpace`].
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, HeapError> {
        if bytes as u64 > OBJECT_BYTES_MAX {
            return Err(HeapError::TooLarge { bytes: bytes as u64, limit: OBJECT_BYTES_MAX });
        }
        self.with_backlog(|| match Shape::for_bytes(bytes.max(1)) {
            Some(shape) => self.allocate_pooled(Kind { shape, class: current_class() }),
            None => {
                let pages = bytes.div_ceil(OS_PAGE_BYTES) as u64;
                self.allocate_span(pages, OS_PAGE_BYTES, false)
            }
        })
    }

    /// `count` zeroed objects of `bytes` each, one on every page from the address returned.
    ///
    /// # Errors
    /// [`HeapError::Invalid`] for 0 objects or bytes beyond 1 to 4096; else as [`Allocator::allocate`].
    pub fn allocate_array(&self, count: usize, bytes: usize) -> Result<*mut u8, HeapError> {
        if count == 0 {
            return Err(HeapError::Invalid("an array needs at least one element"));
        }
        if bytes == 0 || bytes > OS_PAGE_BYTES {
            return Err(HeapError::Invalid("elements of an array have 1 to 4096 bytes"));
        }
        self.with_backlog(|| self.allocate_span(count as u64, element_page_bytes(bytes), true))
    }

    pub(crate) fn take_leaves(
        &self,
        state: &mut State,
        count: u64,
        usage: Use,
        page_bytes: usize,
        class: AllocationClass,
    ) -> Result<LeafId, HeapError> {
        let none = HeapError::NoAddressSpace { leaves: count };
        let count = u32::try_from(count).map_err(|_| none)?;
        let first = state.spans.allocate(count).ok_or(none)?;
        state.usage.leaves = state.spans.high_water();
        let end = (first.0 + count) as usize;
        if state.uses.len() < end {
            state.uses.resize(end, Use::Free);
        }
        for leaf in first.0..first.0 + count {
            state.uses[leaf as usize] = usage;
            self.engine.give_out_leaf(LeafId(leaf), page_bytes, class);
        }
        Ok(first)
    }

    fn give_leaves(&self, state: &mut State, first: LeafId, count: u32) {
        for leaf in first.0..first.0 + count {
            state.uses[leaf as usize] = Use::Free;
            // A leaf that cannot be emptied is never used again.
            if self.engine.take_back_leaf(LeafId(leaf)).is_ok() {
                state.spans.free(LeafId(leaf), 1);
            }
        }
    }

    fn allocate_pooled(&self, kind: Kind) -> Result<*mut u8, HeapError> {
        let mut state = self.state();
        while !state.pools.has_room(kind)
            && state.backlog.of_kind(kind) > state.pools.spare_places(kind)
            && let Some(batch) = state.backlog.begin_some(Some(kind))
        {
            drop(state);
            // Places of a leaf that cannot be read stay taken; others are looked at.
            let _ = self.give_back(batch);
            state = self.state();
        }
        let state = &mut *state;
        let Kind { shape, class } = kind;
        let page_bytes = usize::from(shape.page_bytes);
        state.promises.make(self.engine.log(), page_bytes, shape.flash_bytes())?;
        let (leaf, number) = match state.pools.take(kind) {
            Some(place) => place,
            None => {
                let leaf = self.take_leaves(state, 1, Use::Pool(shape), page_bytes, class);
                let leaf = leaf.inspect_err(|_| state.promises.take_back(page_bytes, shape.flash_bytes()))?;
                state.pools.add(kind, leaf);
                state.pools.take(kind).expect("an empty leaf has room")
            }
        };
        state.usage.objects += 1;
        state.usage.object_bytes += shape.object_bytes() as u64;
        Ok(self.engine.address_of(leaf.page(number * usize::from(shape.pages))))
    }

    fn allocate_span(&self, pages: u64, page_bytes: usize, is_array: bool) -> Result<*mut u8, HeapError> {
        let leaves = pages.div_ceil(LEAF_PAGES as u64);
        let mut state = self.state();
        let promised = flash_bytes(page_bytes, pages);
        state.promises.make(self.engine.log(), page_bytes, promised)?;
        let first = self.take_leaves(&mut state, leaves, Use::Span, page_bytes, current_class());
        let first = first.inspect_err(|_| state.promises.take_back(page_bytes, promised))?;
        let span = Span { leaves: leaves as u32, pages, page_bytes: page_bytes as u16, is_array };
        state.owned.insert(first.0, span);
        state.usage.objects += if is_array { pages } else { 1 };
        state.usage.object_bytes += pages * page_bytes as u64;
        Ok(self.engine.address_of(first.page(0)))
    }

    /// What starts at `address`.
    pub(crate) fn object_at(&self, state: &State, address: usize) -> Result<Object, HeapError> {
        let page = self.engine.page_at(address).ok_or(HeapError::Foreign(address))?;
        if !address.is_multiple_of(OS_PAGE_BYTES) {
            return Err(HeapError::Foreign(address));
        }
        let leaf = page.leaf();
        match state.uses.get(leaf.0 as usize).copied().unwrap_or(Use::Free) {
            Use::Free => Err(HeapError::DoubleFree(address)),
            Use::Paged => Err(HeapError::Foreign(address)),
            Use::Pool(shape) => {
                let pages = usize::from(shape.pages);
                let number = page.index() / pages;
                if !page.index().is_multiple_of(pages) {
                    return Err(HeapError::Foreign(address));
                }
                let kind = Kind { shape, class: self.engine.class_of(leaf) };
                if !state.pools.is_taken(kind, leaf, number)
                    || state.freeing.contains(&page.0)
                    || state.backlog.contains(leaf, number)
                {
                    return Err(HeapError::DoubleFree(address));
                }
                let page_bytes = usize::from(shape.page_bytes);
                Ok(Object {
                    first: page,
                    pages: pages as u64,
                    page_bytes,
                    count: 1,
                    place: Some((kind, number)),
                })
            }
            Use::Span => {
                let span = state.owned.get(&leaf.0).filter(|_| page.index() == 0);
                let span = span.ok_or(HeapError::Foreign(address))?;
                if state.freeing.contains(&page.0) {
                    return Err(HeapError::DoubleFree(address));
                }
                let count = if span.is_array { span.pages } else { 1 };
                let page_bytes = usize::from(span.page_bytes);
                Ok(Object { first: page, pages: span.pages, page_bytes, count, place: None })
            }
        }
    }

    /// The class of the object at `address`; the default for blocks.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`].
    pub fn class_of(&self, address: usize) -> Result<AllocationClass, HeapError> {
        if let Some(paged) = self.paged_at(address) {
            return paged.usable_bytes(address).map(|_| AllocationClass::DEFAULT);
        }
        let state = self.state();
        let object = self.object_at(&state, address)?;
        Ok(self.engine.class_of(object.first.leaf()))
    }

    /// Whether the page is an element of an array.
    pub(crate) fn is_array_element(&self, page: PageId) -> bool {
        let (state, leaf) = (self.state(), page.leaf());
        let span = state.owned.range(..=leaf.0).next_back();
        span.is_some_and(|(&first, span)| span.is_array && leaf.0 < first + span.leaves)
    }

    /// Bytes that may be used at `address`; of an array, those of its first element.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`].
    pub fn usable_bytes(&self, address: usize) -> Result<usize, HeapError> {
        if let Some(paged) = self.paged_at(address) {
            return paged.usable_bytes(address);
        }
        let object = self.object_at(&self.state(), address)?;
        Ok(if object.count > 1 { object.page_bytes } else { object.page_bytes * object.pages as usize })
    }

    /// Frees the object, array or block at `address`, at once in RAM. On flash it is garbage at once if it has many pages, else soon, together
    /// with others.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::DoubleFree`], [`HeapError::Pinned`]; [`HeapError::Fault`] if a leaf cannot be read: a block or what
    /// is larger than a mebibyte stays allocated; a smaller object is freed, and its place and those of others that were freed before stay taken.
    pub fn free(&self, address: usize) -> Result<(), HeapError> {
        if let Some(paged) = self.paged_at(address) {
            return self.free_block(paged, address);
        }
        let state = self.state();
        let object = self.object_at(&state, address)?;
        if self.engine.is_pinned(object.first, object.pages) {
            return Err(HeapError::Pinned(address));
        }
        match object.place {
            Some((kind, number)) => self.free_pooled(state, object, kind, number),
            None => self.free_span(state, object),
        }
    }

    fn free_pooled<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        object: Object,
        kind: Kind,
        number: usize,
    ) -> Result<(), HeapError> {
        if self.engine.may_be_in_ram(object.first, object.pages) {
            state.freeing.insert(object.first.0);
            drop(state);
            let forgotten = self.engine.forget_in_ram(object.first, object.pages);
            state = self.state();
            state.freeing.remove(&object.first.0);
            forgotten?;
        }
        state.note_freed(object);
        let leaf = object.first.leaf();
        state.backlog.add(leaf, kind, number);
        let taken = state.pools.taken(kind, leaf);
        let batch = state.backlog.begin_due(leaf, taken).or_else(|| {
            (state.backlog.flash_bytes() > self.backlog_bytes_max).then(|| state.backlog.begin_some(None))?
        });
        drop(state);
        batch.map_or(Ok(()), |batch| self.give_back(batch))
    }

    /// Gives places back, and what comes meanwhile if it is due, without the lock: this may wait for flash.
    fn give_back(&self, batch: Batch) -> Result<(), HeapError> {
        let mut next = Some(batch);
        while let Some(batch) = next.take() {
            let released = self.engine.release_in_leaf(batch.leaf, &batch.pages());
            let mut state = self.state();
            let state = &mut *state;
            state.backlog.end(&batch, released.is_ok());
            released?;
            let shape = batch.kind.shape;
            for number in batch.places.iter() {
                state.promises.take_back(usize::from(shape.page_bytes), shape.flash_bytes());
                if state.pools.free(batch.kind, batch.leaf, number) == Freed::GroupEmpty {
                    self.give_leaves(state, batch.leaf, 1);
                    return Ok(());
                }
            }
            let taken = state.pools.taken(batch.kind, batch.leaf);
            next = state.backlog.begin_due(batch.leaf, taken);
        }
        Ok(())
    }

    /// Gives the places of all freed objects back; whether there were any.
    fn give_all_back(&self) -> bool {
        let mut any = false;
        loop {
            let batch = self.state().backlog.begin_some(None);
            let Some(batch) = batch else { return any };
            // A leaf that cannot be read is not tried again.
            any |= self.give_back(batch).is_ok();
        }
    }

    /// Does what may lack room, once more if there is some of freed objects.
    pub(crate) fn with_backlog<T>(
        &self,
        mut take: impl FnMut() -> Result<T, HeapError>,
    ) -> Result<T, HeapError> {
        match take() {
            Err(HeapError::Full { .. } | HeapError::NoAddressSpace { .. }) if self.give_all_back() => take(),
            taken => taken,
        }
    }

    fn free_span(&self, mut state: MutexGuard<'_, State>, object: Object) -> Result<(), HeapError> {
        state.freeing.insert(object.first.0);
        drop(state);
        // Without the lock: this may wait for flash.
        let released = self.engine.release(object.first, object.pages);
        let mut state = self.state();
        let state = &mut *state;
        state.freeing.remove(&object.first.0);
        released?;
        state.note_freed(object);
        state.promises.take_back(object.page_bytes, flash_bytes(object.page_bytes, object.pages));
        let leaf = object.first.leaf();
        let span = state.owned.remove(&leaf.0).expect("looked up above");
        self.give_leaves(state, leaf, span.leaves);
        Ok(())
    }

    /// The pages of `[address, address + bytes)`.
    pub(crate) fn pages_of(&self, address: usize, bytes: usize) -> Result<(PageId, u64), HeapError> {
        let first = self.engine.page_at(address).ok_or(HeapError::Foreign(address))?;
        let last = address.checked_add(bytes.max(1) - 1).and_then(|last| self.engine.page_at(last));
        let last = last.ok_or(HeapError::Foreign(address))?;
        Ok((first, last.0 - first.0 + 1))
    }

    /// Keeps the pages of `[address, address + bytes)` mapped and writable until unpinned.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::Pin`].
    pub fn pin(&self, address: usize, bytes: usize) -> Result<(), HeapError> {
        let (first, count) = self.pages_of(address, bytes)?;
        Ok(self.engine.pin(first, count)?)
    }

    /// Ends one pin of each of these pages.
    ///
    /// # Errors
    /// [`HeapError::Foreign`], [`HeapError::Pin`].
    pub fn unpin(&self, address: usize, bytes: usize) -> Result<(), HeapError> {
        let (first, count) = self.pages_of(address, bytes)?;
        Ok(self.engine.unpin(first, count)?)
    }

    /// Proves that the heap's parts agree.
    ///
    /// # Errors
    /// A sentence that names the disagreement.
    pub fn check(&self) -> Result<(), String> {
        let leaves = self.usage().leaves;
        self.engine.check(leaves)
    }
}
