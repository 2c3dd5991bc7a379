//! Whole pages that are to be read ahead, and the thread that does it, so that the program goes on.

use aquifer_base::PageId;
use aquifer_sys::SpinLock;

use crate::bell::Bell;

/// Requests that wait.
const REQUESTS: usize = 64;

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

struct Waiting {
    requests: Box<[Request]>,
    first: usize,
    len: usize,
}

/// Requests in order. A request without room is dropped.
pub(super) struct Requests {
    waiting: SpinLock<Waiting>,
    /// The thread's.
    bell: Bell,
}

impl Requests {
    pub(super) fn new() -> Self {
        let waiting = Waiting { requests: vec![Request::default(); REQUESTS].into(), first: 0, len: 0 };
        Self { waiting: SpinLock::new(waiting), bell: Bell::new() }
    }

    /// Has pages read.
    pub(super) fn ask_in_fault(&self, request: Request) {
        let mut waiting = self.waiting.lock();
        if waiting.len == REQUESTS {
            return;
        }
        let at = (waiting.first + waiting.len) % REQUESTS;
        waiting.requests[at] = request;
        waiting.len += 1;
        drop(waiting);
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
        let mut waiting = self.waiting.lock();
        waiting.len = waiting.len.checked_sub(1)?;
        let request = waiting.requests[waiting.first];
        waiting.first = (waiting.first + 1) % REQUESTS;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_order_and_those_without_room_are_dropped() {
        let requests = Requests::new();
        let request = |first| Request { first, stride: 2, count: 3 };
        (0..REQUESTS as i64 + 5).for_each(|n| requests.ask_in_fault(request(n)));
        let taken: Vec<_> = std::iter::from_fn(|| requests.take()).map(|request| request.first).collect();
        assert_eq!(taken, (0..REQUESTS as i64).collect::<Vec<_>>());
        assert_eq!(requests.next(|| true), None);
    }

    #[test]
    fn there_are_no_pages_before_the_first() {
        let pages: Vec<_> = Request { first: 3, stride: -2, count: 4 }.pages().collect();
        assert_eq!(pages, [PageId(3), PageId(1)]);
    }
}
