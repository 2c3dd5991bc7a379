//! What becomes of slabs and donors, as those who look at a device are told.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::home::DonorId;
use crate::events::Events;
use crate::words::Words;

/// What happened to a slab or a donor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A donor can be borrowed from.
    DonorConnected,
    /// A donor was tried in vain, for the first time or for another reason than before.
    DonorNotReached,
    /// A donor's connection has ended, and all slabs there are lost.
    DonorGone,
    /// A donor lends a slab to a part of the device.
    SlabLent,
    /// The slab has all pages of its part.
    SlabFilled,
    /// The donor wants the slab back.
    SlabAskedBack,
    /// The slab goes back to its donor.
    SlabLeft,
    /// The slab is of no use any more, before it was given back.
    SlabLost,
}

/// Something that happened to a slab or a donor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlabEvent {
    /// What.
    pub what: What,
    /// Which donor.
    pub donor: DonorId,
    /// Which part of the device, counted from 0, if it is about a slab.
    pub part: Option<usize>,
    /// Why, if something went wrong.
    pub why: Option<Words>,
}

/// The last events of a device and its donors.
pub type SlabEvents = Events<SlabEvent>;

/// Tells what becomes of one slab, each thing once.
pub struct Story {
    donor: DonorId,
    begun: OnceLock<(Arc<SlabEvents>, usize)>,
    /// A bit for each [`What`].
    told: AtomicU8,
}

impl Story {
    /// Of a slab that nobody has yet.
    pub fn new(donor: DonorId) -> Story {
        Story { donor, begun: OnceLock::new(), told: AtomicU8::new(0) }
    }

    /// The slab is for a part of the device.
    pub fn begin(&self, events: &Arc<SlabEvents>, part: usize) {
        let is_new = self.begun.set((Arc::clone(events), part)).is_ok();
        debug_assert!(is_new, "a slab is for one part");
        self.tell(What::SlabLent, None);
    }

    /// Tells it, unless it was told before or the slab was never for a part of the device.
    pub fn tell(&self, what: What, why: Option<Words>) {
        let Some((events, part)) = self.begun.get() else { return };
        let bit = 1 << what as u8;
        if self.told.fetch_or(bit, Relaxed) & bit == 0 {
            events.note(SlabEvent { what, donor: self.donor, part: Some(*part), why });
        }
    }

    /// Tells how it ends: lost, for this reason, or given back.
    pub fn end(&self, lost: Option<Words>) {
        if self.told.load(Relaxed) & 1 << What::SlabLost as u8 == 0 {
            let what = if lost.is_some() { What::SlabLost } else { What::SlabLeft };
            self.tell(what, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &SlabEvents) -> Vec<What> {
        events.since(0).iter().map(|entry| entry.event.what).collect()
    }

    #[test]
    fn each_thing_is_told_once() {
        let (events, story) = (Arc::default(), Story::new(DonorId(3)));
        story.tell(What::SlabAskedBack, None);
        assert_eq!(told(&events), [], "nobody has it");
        story.begin(&events, 7);
        for _ in 0..2 {
            story.tell(What::SlabFilled, None);
            story.tell(What::SlabAskedBack, None);
        }
        story.end(None);
        assert_eq!(told(&events), [What::SlabLent, What::SlabFilled, What::SlabAskedBack, What::SlabLeft]);
        assert!(
            events
                .since(0)
                .iter()
                .all(|entry| (entry.event.donor, entry.event.part) == (DonorId(3), Some(7)))
        );
    }

    #[test]
    fn what_is_lost_does_not_go_back() {
        let (events, story) = (Arc::default(), Story::new(DonorId(3)));
        story.begin(&events, 0);
        story.end(Some(Words::of("wrong bytes")));
        story.end(Some(Words::of("the connection was closed")));
        story.end(None);
        assert_eq!(told(&events), [What::SlabLent, What::SlabLost]);
        assert_eq!(events.since(1)[0].event.why, Some(Words::of("wrong bytes")));
    }
}
