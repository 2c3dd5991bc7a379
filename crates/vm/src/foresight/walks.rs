//! Faults in order. Pages behind one that is touched are mapped along, if they are at hand; whole pages are read ahead of a walk that keeps its
//! stride.
//!
//! Several walks may go through one leaf at a time: a merge of two runs, a few rows of a matrix. A fault belongs to the walk of its leaf that was to
//! come there, else to one that is at the next page, else it begins one.

use std::sync::atomic::Ordering;

use aquifer_base::limits::LEAF_PAGES;
use aquifer_base::{LeafId, PageId};
use aquifer_map::LeafTable;
use aquifer_sys::SpinLock;

use super::Request;

/// Leaves that are told apart; two that share a place may forget each other's walks.
const LEAVES: usize = 64;
/// Walks in each.
const WALKS: usize = 4;
/// Pages in order before some are mapped along.
const IN_ORDER: u8 = 2;
/// Most pages that are mapped along with one.
const ALONG_MAX: u8 = 64;
/// Faults in a row with the same stride before anything is read ahead.
const STEADY: u8 = 3;
/// Pages that are read ahead of a new walk. Twice as many each time that half of them were used: a walk that ends has had
/// about as many pages read in vain as it has used.
const WINDOW_MIN: i64 = 8;
/// Most pages that are read ahead of a walk that lasts, unless another number is asked for.
pub const WINDOW_MAX_DEFAULT: u32 = 128;
/// Longest stride, in pages.
const STRIDE_MAX: i64 = LEAF_PAGES as i64;

/// How walks through a leaf are expected: a view of the leaf table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    /// To be found out.
    Unknown = 0,
    Sequential = 1,
    Random = 2,
}

impl Order {
    pub(super) fn of(table: &LeafTable, leaf: LeafId) -> Self {
        match table.row(leaf).order.load(Ordering::Relaxed) {
            1 => Self::Sequential,
            2 => Self::Random,
            _ => Self::Unknown,
        }
    }

    pub(super) fn set(self, table: &LeafTable, leaf: LeafId) {
        table.row(leaf).order.store(self as u8, Ordering::Relaxed);
    }
}

/// A walk through pages.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// The page that was touched last, or mapped along.
    last: i64,
    stride: i64,
    /// The last page that was asked for.
    asked: i64,
    /// How many pages ahead were asked for last, if any.
    window: i64,
    /// Faults with this stride; 0 is no walk.
    faults: u8,
    /// Pages in order up to the last.
    in_order: u8,
    /// Room was wanted since its last fault; the next time it is forgotten.
    is_spared: bool,
}

impl Walk {
    /// The walk goes to `page`.
    fn step(&mut self, page: i64) {
        let stride = page - self.last;
        let in_order = if stride == 1 { self.in_order.saturating_add(1) } else { 1 };
        if stride == self.stride {
            self.faults = self.faults.saturating_add(1);
        } else {
            *self = Self { stride, asked: page, window: 0, faults: 1, ..*self };
        }
        *self = Self { last: page, in_order, is_spared: false, ..*self };
    }

    /// What should be read, at most `window_max` pages.
    fn read_ahead(&mut self, order: Order, window_max: i64) -> Option<Request> {
        let is_told = order == Order::Sequential && self.stride.abs() == 1;
        let is_steady = is_told || self.faults >= STEADY;
        if order == Order::Random || !is_steady || self.stride == 0 || self.stride.abs() > STRIDE_MAX {
            return None;
        }
        // How far the walk is from the end of what was asked for.
        let left = (self.asked - self.last) / self.stride;
        if self.window > 0 && left > self.window / 2 {
            return None;
        }
        self.window = if is_told { window_max } else { (self.window * 2).clamp(WINDOW_MIN, window_max) };
        let first = if left > 0 { self.asked } else { self.last } + self.stride;
        let count = self.window - left.max(0);
        self.asked = first + (count - 1) * self.stride;
        Some(Request { first, stride: self.stride, count })
    }

    /// How many of the pages behind the last to map along.
    fn along(&self) -> usize {
        let left_in_leaf = LEAF_PAGES - 1 - self.last as usize % LEAF_PAGES;
        // The last itself is one of those in order.
        let before = self.in_order.saturating_sub(1);
        if before < IN_ORDER { 0 } else { usize::from(before.min(ALONG_MAX)).min(left_in_leaf) }
    }

    fn is_worth_keeping(&self) -> bool {
        self.faults >= STEADY || self.in_order >= IN_ORDER
    }
}

/// The walks of one leaf.
#[derive(Clone, Copy, Default)]
struct OfLeaf {
    walks: [Walk; WALKS],
    /// That of the last fault.
    recent: usize,
    turn: usize,
}

impl OfLeaf {
    /// The walk that a fault at `page` belongs to, which has gone there.
    fn note(&mut self, page: i64) -> &mut Walk {
        let expected = self.find(|walk| walk.stride != 0 && walk.last + walk.stride == page);
        if let Some(n) = expected.or_else(|| self.find(|walk| (page - walk.last).abs() <= 1)) {
            self.recent = n;
            if self.walks[n].last != page {
                self.walks[n].step(page);
            }
        } else {
            let before = self.walks[self.recent];
            let stride = if before.faults > 0 { page - before.last } else { 0 };
            let n = self.make_room();
            self.walks[n] =
                Walk { last: page, stride, asked: page, window: 0, faults: 1, in_order: 1, is_spared: false };
            self.recent = n;
        }
        &mut self.walks[self.recent]
    }

    fn find(&self, is_one: impl Fn(&Walk) -> bool) -> Option<usize> {
        self.walks.iter().position(|walk| walk.faults > 0 && is_one(walk))
    }

    /// Returns the place for a new walk. A walk that goes on is spared once.
    fn make_room(&mut self) -> usize {
        loop {
            let n = self.turn;
            self.turn = (n + 1) % WALKS;
            let walk = &mut self.walks[n];
            if !walk.is_worth_keeping() || walk.is_spared {
                return n;
            }
            walk.is_spared = true;
        }
    }

    /// A walk comes from another leaf.
    fn enter(&mut self, walk: Walk) {
        let same = self.find(|other| other.last == walk.last);
        let n = same.unwrap_or_else(|| self.make_room());
        self.walks[n] = walk;
    }
}

/// Walks through the leaves of one heap.
pub(super) struct Walks {
    /// Most pages that are read ahead of a walk.
    window_max: i64,
    leaves: Box<[SpinLock<OfLeaf>]>,
}

impl Walks {
    /// Walks of which up to `window_max` pages are read ahead, or as many as of a new walk.
    pub(super) fn new(window_max: u32) -> Self {
        Self {
            window_max: i64::from(window_max).max(WINDOW_MIN),
            leaves: (0..LEAVES).map(|_| SpinLock::new(OfLeaf::default())).collect(),
        }
    }

    fn of_leaf(&self, page: i64) -> &SpinLock<OfLeaf> {
        &self.leaves[(page as usize / LEAF_PAGES) % LEAVES]
    }

    /// Notes a fault at `page`: how many of the pages behind it to map along, and, where an order says how pages may be read, what to read ahead.
    pub(super) fn note_in_fault(&self, page: PageId, order: Option<Order>) -> (usize, Option<Request>) {
        let mut leaf = self.of_leaf(page.0 as i64).lock();
        let walk = leaf.note(page.0 as i64);
        let along = walk.along();
        let request = order.and_then(|order| walk.read_ahead(order, self.window_max));
        let state = *walk;
        drop(leaf);
        self.take_along(page, state);
        (along, request)
    }

    /// Notes that `along` pages behind `page`, which was noted last, have been mapped: the next fault is behind those.
    pub(super) fn note_along_in_fault(&self, page: PageId, along: usize) {
        let mut leaf = self.of_leaf(page.0 as i64).lock();
        let walk = leaf.walks.iter_mut().find(|walk| walk.last == page.0 as i64 && walk.stride == 1);
        let Some(walk) = walk else { return };
        walk.last += along as i64;
        walk.in_order = walk.in_order.saturating_add(along.min(255) as u8);
        let state = *walk;
        drop(leaf);
        self.take_along(page, state);
    }

    /// A walk takes what is known of it along into the next leaf.
    fn take_along(&self, page: PageId, walk: Walk) {
        let next = walk.last + walk.stride;
        if walk.is_worth_keeping() && next >= 0 && next as usize / LEAF_PAGES != page.0 as usize / LEAF_PAGES
        {
            self.of_leaf(next).lock().enter(walk);
        }
    }
}

#[cfg(test)]
mod tests;
