//! Read-ahead of whole pages: only where faults keep a stride, and by a thread of its own, so that the program goes on.

use aquifer_base::PageId;
use aquifer_base::limits::LEAF_PAGES;
use aquifer_sys::SpinLock;

use super::Order;
use crate::bell::Bell;

/// Walks that are told apart, by leaf.
const WALKS: usize = 64;
/// Faults in a row with the same stride before anything is read ahead.
const STEADY: u8 = 3;
/// As many faults a walk counts as having had that the program has announced.
const TOLD: u8 = 7;
/// Pages that are read ahead of a new walk.
const WINDOW_MIN: i64 = 8;
/// Most pages that are read ahead of a walk that lasts, unless another number is asked for.
pub const WINDOW_MAX_DEFAULT: u32 = 128;
/// Longest stride, in pages.
const STRIDE_MAX: i64 = LEAF_PAGES as i64;
/// Requests that wait.
const REQUESTS: usize = 64;

/// A walk through pages.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// The page that was touched last, or mapped along.
    last: i64,
    stride: i64,
    /// The last page that was asked for.
    asked: i64,
    faults: u8,
}

/// Pages to bring into RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Request {
    pub(super) first: i64,
    pub(super) stride: i64,
    pub(super) count: i64,
}

impl Request {
    /// The pages, as far as there are such.
    pub(crate) fn pages(self) -> impl Iterator<Item = PageId> {
        (0..self.count)
            .map(move |n| self.first + n * self.stride)
            .filter(|&page| page >= 0)
            .map(|page| PageId(page as u64))
    }
}

struct Requests {
    waiting: [Request; REQUESTS],
    first: usize,
    len: usize,
}

/// Walks, and what they need next.
pub(super) struct Ahead {
    /// Most pages that are read ahead of a walk.
    window_max: i64,
    walks: [SpinLock<Walk>; WALKS],
    requests: SpinLock<Requests>,
    /// The thread's.
    bell: Bell,
}

impl Walk {
    /// Notes that `along` pages behind `page`, which was noted last, have been mapped: the next fault is behind those.
    fn note_along(&mut self, page: i64, along: i64) {
        if self.last == page && self.stride == 1 {
            self.last += along;
        }
    }

    /// Notes a fault at `page`; returns what should be read, at most `window_max` pages.
    fn note(&mut self, page: i64, order: Order, window_max: i64) -> Option<Request> {
        let stride = page - self.last;
        if stride == self.stride && stride != 0 {
            self.faults = self.faults.saturating_add(1);
        } else {
            *self = Walk { last: page, stride, asked: page, faults: 1 };
        }
        self.last = page;
        let is_told = order == Order::Sequential && self.stride.abs() == 1;
        if is_told {
            self.faults = self.faults.max(TOLD);
        }
        if order == Order::Random
            || self.faults < STEADY
            || self.stride.abs() > STRIDE_MAX
            || self.stride == 0
        {
            return None;
        }
        let window = (WINDOW_MIN << (self.faults - STEADY).min(8)).min(window_max);
        // How far the walk is from the end of what was asked for.
        let left = (self.asked - self.last) / self.stride;
        if left > window / 2 {
            return None;
        }
        let first = if left > 0 { self.asked } else { self.last } + self.stride;
        let count = window - left.max(0);
        self.asked = first + (count - 1) * self.stride;
        Some(Request { first, stride: self.stride, count })
    }
}

impl Ahead {
    /// Walks of which up to `window_max` pages are read ahead, or as many as of a new walk.
    pub(super) fn new(window_max: u32) -> Self {
        let requests = Requests { waiting: [Request::default(); REQUESTS], first: 0, len: 0 };
        Self {
            window_max: i64::from(window_max).max(WINDOW_MIN),
            walks: std::array::from_fn(|_| SpinLock::new(Walk::default())),
            requests: SpinLock::new(requests),
            bell: Bell::new(),
        }
    }

    fn of_leaf(&self, page: i64) -> &SpinLock<Walk> {
        &self.walks[(page as usize / LEAF_PAGES) % WALKS]
    }

    /// Notes that `along` pages behind `page`, which was noted last, have been mapped.
    pub(super) fn note_along_in_fault(&self, page: PageId, along: usize) {
        let mut walk = self.of_leaf(page.0 as i64).lock();
        walk.note_along(page.0 as i64, along as i64);
        let state = *walk;
        drop(walk);
        self.take_along(page, state);
    }

    /// Notes a fault at `page`, and has read what comes next.
    pub(super) fn note_in_fault(&self, page: PageId, order: Order) {
        let number = page.0 as i64;
        let mut walk = self.of_leaf(number).lock();
        let request = walk.note(number, order, self.window_max);
        let state = *walk;
        drop(walk);
        self.take_along(page, state);
        if let Some(request) = request {
            self.ask_in_fault(request);
        }
    }

    /// A walk takes what is known of it along into the next leaf.
    fn take_along(&self, page: PageId, walk: Walk) {
        let next = walk.last + walk.stride;
        if walk.faults >= STEADY && next >= 0 && next as usize / LEAF_PAGES != page.0 as usize / LEAF_PAGES {
            *self.of_leaf(next).lock() = walk;
        }
    }

    /// Has pages read.
    pub(super) fn ask_in_fault(&self, request: Request) {
        let mut requests = self.requests.lock();
        if requests.len == REQUESTS {
            return;
        }
        let at = (requests.first + requests.len) % REQUESTS;
        requests.waiting[at] = request;
        requests.len += 1;
        drop(requests);
        self.wake();
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        self.bell.ring();
    }

    /// Waits for a request; `None` when `is_over`.
    pub(super) fn next(&self, is_over: impl Fn() -> bool) -> Option<Request> {
        while !is_over() {
            if let Some(request) = self.take() {
                return Some(request);
            }
            self.bell.wait(&is_over);
        }
        None
    }

    fn take(&self) -> Option<Request> {
        let mut requests = self.requests.lock();
        requests.len = requests.len.checked_sub(1)?;
        let request = requests.waiting[requests.first];
        requests.first = (requests.first + 1) % REQUESTS;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(pages: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let requests = requests(pages, WINDOW_MAX_DEFAULT.into());
        requests.into_iter().flat_map(Request::pages).map(|page| page.0 as i64).collect()
    }

    fn requests(pages: impl IntoIterator<Item = i64>, window_max: i64) -> Vec<Request> {
        let mut walk = Walk { last: -1000, ..Walk::default() };
        pages.into_iter().filter_map(|page| walk.note(page, Order::Unknown, window_max)).collect()
    }

    #[test]
    fn no_more_is_read_ahead_than_the_window() {
        for window in [8, 64, 256] {
            let requests = requests(50_000..51_000, window);
            assert!(requests.iter().all(|request| request.count <= window));
            // What is asked for when half of it is used up is the other half at least.
            let settled = &requests[requests.len() / 2..];
            assert!(settled.iter().all(|request| request.count >= window / 2), "{settled:?}");
        }
    }

    #[test]
    fn steady_walks_ask_for_each_page_ahead_once() {
        for stride in [1, 3, -2, 100] {
            let asked = walk((0..200).map(|n| 50_000 + n * stride));
            let expected: Vec<_> = (0..asked.len() as i64).map(|n| asked[0] + n * stride).collect();
            assert_eq!(asked, expected, "stride {stride}");
            assert!(asked.len() > 200 && asked[0] == 50_000 + (i64::from(STEADY) + 1) * stride);
        }
    }

    #[test]
    fn pages_that_were_mapped_along_are_part_of_the_walk() {
        let mut walk = Walk { last: -1000, ..Walk::default() };
        let mut page = 50_000;
        let mut asked = Vec::new();
        for along in [0, 0, 2, 5, 0, 16, 16, 0] {
            let request = walk.note(page, Order::Unknown, WINDOW_MAX_DEFAULT.into());
            asked.extend(request.into_iter().flat_map(Request::pages).map(|page| page.0 as i64));
            walk.note_along(page, along);
            page += 1 + along;
        }
        let expected: Vec<_> = (asked[0]..asked[0] + asked.len() as i64).collect();
        assert!(asked == expected && asked.len() > 50, "{asked:?}");
    }

    #[test]
    fn random_faults_ask_for_nothing() {
        assert_eq!(walk([5, 900, 17, 2000, 2001, 40, 41, 7]), []);
        assert_eq!(walk([5; 20]), [], "the same page again and again");
    }

    #[test]
    fn a_walk_goes_on_in_the_next_leaf() {
        let ahead = Ahead::new(WINDOW_MAX_DEFAULT);
        (500..520).for_each(|page| ahead.note_in_fault(PageId(page), Order::Unknown));
        let asked: Vec<_> =
            std::iter::from_fn(|| ahead.take()).flat_map(Request::pages).map(|p| p.0).collect();
        let expected: Vec<_> = (asked[0]..asked[0] + asked.len() as u64).collect();
        assert_eq!(asked, expected);
    }
}
