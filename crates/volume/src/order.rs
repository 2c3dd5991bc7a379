//! The order in which pages leave RAM.
//!
//! Two queues and a memory of what went, after S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023): pages come to the recent queue, which is
//! short, so that what is used once soon goes; those that are used again move to the proven one, and so do those that come back soon after they went.
//!
//! A load from a mapped page leaves no trace. So the proven queue ends with pages on trial: they are in RAM, but programs are made to ask for them
//! again. Those of the recent queue are not: what goes from there unjustly comes back once, and is proven then.

mod ghosts;

use std::collections::VecDeque;
use std::sync::Arc;

use ghosts::Ghosts;

use crate::frame::Frame;
use crate::key::PageKey;

/// Part of RAM that pages have which nobody used again.
pub const RECENT_PART: usize = 8;
/// Part of the proven queue that is on trial.
const TRIAL_PART: usize = 3;
/// Most pages that go on trial at once.
const TRIED_AT_ONCE: usize = 128;

/// Where a page was when its turn came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Among those that nobody used again.
    Recent,
    /// Among those that somebody did.
    Proven,
}

/// All pages that may go, in order.
pub struct Order {
    recent: VecDeque<Arc<Frame>>,
    /// Proven pages that programs need not ask for.
    proven: VecDeque<Arc<Frame>>,
    /// Proven pages that they have to ask for; these go first.
    on_trial: VecDeque<Arc<Frame>>,
    ghosts: Ghosts,
    recent_max: usize,
}

/// One search for pages that may go.
pub struct Search {
    recent_left: usize,
}

impl Order {
    /// For about `frames_max` pages.
    #[must_use]
    pub fn new(frames_max: usize) -> Self {
        Order {
            recent: VecDeque::new(),
            proven: VecDeque::new(),
            on_trial: VecDeque::new(),
            ghosts: Ghosts::new(frames_max),
            recent_max: frames_max / RECENT_PART,
        }
    }

    /// Pages, with those that went in another way and have not had their turn yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.proven_len()
    }

    fn proven_len(&self) -> usize {
        self.proven.len() + self.on_trial.len()
    }

    /// Adds a page that came.
    pub fn add(&mut self, frame: Arc<Frame>) {
        let queue = if self.ghosts.take(frame.key()) { &mut self.proven } else { &mut self.recent };
        queue.push_back(frame);
    }

    /// Adds a page that somebody used again.
    pub fn prove(&mut self, frame: Arc<Frame>) {
        self.proven.push_back(frame);
    }

    /// Puts a page back that cannot go now.
    pub fn keep(&mut self, standing: Standing, frame: Arc<Frame>) {
        match standing {
            Standing::Recent => self.recent.push_back(frame),
            Standing::Proven => self.proven.push_back(frame),
        }
    }

    /// Notes that a page goes.
    pub fn note_gone(&mut self, standing: Standing, key: PageKey) {
        if standing == Standing::Recent {
            self.ghosts.note(key);
        }
    }

    /// Begins to look for pages that may go.
    #[must_use]
    pub fn search(&self) -> Search {
        Search { recent_left: self.recent.len() }
    }

    /// Takes out the page whose turn it is.
    pub fn next(&mut self, search: &mut Search) -> Option<(Arc<Frame>, Standing)> {
        let is_recent = self.recent.len() > self.recent_max && search.recent_left > 0;
        if is_recent || self.proven_len() == 0 {
            search.recent_left = search.recent_left.saturating_sub(1);
            return Some((self.recent.pop_front()?, Standing::Recent));
        }
        let frame = self.on_trial.pop_front().or_else(|| self.proven.pop_front())?;
        Some((frame, Standing::Proven))
    }

    /// Puts pages on trial until enough are: a page on trial is hidden, and its next use faults.
    pub fn try_more(&mut self) -> Vec<Arc<Frame>> {
        let wanted = self.proven_len() / TRIAL_PART;
        let count = wanted.saturating_sub(self.on_trial.len()).min(TRIED_AT_ONCE).min(self.proven.len());
        let tried: Vec<_> = self.proven.drain(..count).collect();
        self.on_trial.extend(tried.iter().cloned());
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Ino;

    const FRAMES: usize = 64;

    fn frame(index: u32) -> Arc<Frame> {
        Arc::new(Frame::loading(PageKey::data(Ino::FIRST_FREE, index)))
    }

    /// A cache of [`FRAMES`] pages over which programs go in a given order; says which uses found their page.
    fn hits(uses: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let mut order = Order::new(FRAMES);
        let mut present: Vec<Arc<Frame>> = Vec::new();
        let mut use_one = |index: u32| {
            if let Some(known) = present.iter().find(|known| known.key().index() == index) {
                known.touch();
                return true;
            }
            while present.len() >= FRAMES {
                let mut search = order.search();
                let (victim, standing) = order.next(&mut search).expect("a page");
                if victim.take_used() {
                    order.prove(victim);
                    continue;
                }
                order.note_gone(standing, victim.key());
                present.retain(|known| known.key() != victim.key());
                order.try_more();
            }
            present.push(frame(index));
            order.add(Arc::clone(present.last().expect("just pushed")));
            false
        };
        uses.into_iter().map(&mut use_one).collect()
    }

    #[test]
    fn a_scan_leaves_what_is_used_again() {
        let hot = || 0..32u32;
        let warm_up = hot().chain(hot()).chain(1000..1100).chain(hot());
        let count = warm_up.clone().count();
        let scan = 2000..4000u32;
        let mixed = scan.zip(hot().cycle()).flat_map(|(cold, hot)| [cold, hot]);
        let hits = hits(warm_up.chain(mixed));
        let hot_hits = hits[count..].iter().skip(1).step_by(2).filter(|hit| **hit).count();
        assert!(hot_hits > 1950, "{hot_hits} of 2000");
    }

    #[test]
    fn what_comes_back_soon_stays_longer() {
        // Twice each, farther apart than the recent queue is long, so that only the memory of what went tells.
        let rounds = (0..200u32).flat_map(|round| (0..48).chain(1000 + round * 32..1032 + round * 32));
        let hits = hits(rounds);
        let last: &[bool] = &hits[hits.len() - 800..];
        let found = last.iter().filter(|hit| **hit).count();
        assert!(found > 350, "{found} of at most 480");
    }

    #[test]
    fn pages_that_cannot_go_do_not_hide_those_that_can() {
        let mut order = Order::new(8);
        for index in 0..6 {
            order.add(frame(index));
        }
        order.prove(frame(6));
        let mut search = order.search();
        let mut seen = Vec::new();
        for _ in 0..7 {
            let (frame, standing) = order.next(&mut search).expect("a page");
            seen.push(frame.key().index());
            order.keep(standing, frame);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
    }
}
