//! Slabs that hold a part of a device.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use super::slab_events::{SlabEvents, Story, What};
use super::usage::Usage;
use crate::transport::{Link, LinkError, Place, Read, Write, Writing};
use crate::words::Words;

/// Which donor a slab is of; the same for all slabs that are lost with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DonorId(pub u64);

/// Finds slabs for a device.
pub trait Slabs: Send + Sync {
    /// A slab for one part of a device, of none of these donors; `None` if no donor has one now.
    fn find(&self, slab_bytes: u64, avoid: &[DonorId]) -> Option<Arc<Home>>;

    /// Where the device notes what becomes of its slabs. The finder of slabs notes there what becomes of
    /// donors.
    fn events(&self) -> Arc<SlabEvents> {
        Arc::default()
    }
}

/// A slab that holds a part of a device.
pub struct Home {
    link: Arc<Link>,
    place: Place,
    donor: DonorId,
    usage: Usage,
    is_leaving: AtomicBool,
    is_lost: AtomicBool,
    story: Story,
    /// Dropped when nobody uses the slab any more.
    _lease: Box<dyn Any + Send + Sync>,
}

impl Home {
    /// A slab of a donor, which nobody else uses until the lease is dropped. What it holds means nothing.
    #[must_use]
    pub fn new(link: Arc<Link>, place: Place, donor: DonorId, lease: Box<dyn Any + Send + Sync>) -> Home {
        let (usage, story) = (Usage::new(), Story::new(donor));
        let (is_leaving, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        Home { link, place, donor, usage, is_leaving, is_lost, story, _lease: lease }
    }

    /// The donor wants it back: what it holds is moved, and then it is dropped.
    pub fn ask_to_leave(&self) {
        self.is_leaving.store(true, SeqCst);
        self.story.tell(What::SlabAskedBack, None);
    }

    /// It is for a part of the device from now on.
    pub(crate) fn begin(&self, events: &Arc<SlabEvents>, part: usize) {
        self.story.begin(events, part);
        // An earlier request to leave was noted without the part.
        if self.is_leaving.load(SeqCst) {
            self.story.tell(What::SlabAskedBack, None);
        }
    }

    /// It has all pages of its part.
    pub(crate) fn note_filled(&self) {
        self.story.tell(What::SlabFilled, None);
    }

    /// It is of no use any more: its donor is gone, or has other bytes than it was given. Says whether that is new.
    pub(crate) fn note_lost(&self) -> bool {
        let why = self.why_gone().unwrap_or_else(|| Words::of("the donor has other bytes than it was given"));
        self.story.end(Some(why));
        !self.is_lost.swap(true, SeqCst)
    }

    fn why_gone(&self) -> Option<Words> {
        self.link.end().map(|end| Words::said(&end))
    }

    /// Whether it holds what was written there, and goes on to.
    pub(crate) fn is_good(&self) -> bool {
        !self.is_leaving.load(Relaxed) && self.is_alive()
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.is_noted_lost() && self.link.end().is_none()
    }

    /// Whether [`Home::note_lost`] was told.
    pub(crate) fn is_noted_lost(&self) -> bool {
        self.is_lost.load(SeqCst)
    }

    pub(crate) fn donor(&self) -> DonorId {
        self.donor
    }

    /// Where its first byte is.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Reads bytes of it.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn read(&self, within: u64, to: &mut [u8]) -> Result<(), LinkError> {
        self.link.read_many(&mut [self.to_read(within, to)])
    }

    /// Bytes of it that are about to be read over its link, together with others.
    pub(crate) fn to_read<'a>(&self, within: u64, to: &'a mut [u8]) -> Read<'a> {
        self.usage.note();
        Read { from: self.place.at(within), to }
    }

    /// Writes bytes of it.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn write(&self, from: &[u8], within: u64) -> Result<(), LinkError> {
        self.begin_write(from, within).finish()
    }

    /// Begins to write bytes of it; see [`Link::begin_write`] for what several need.
    pub(crate) fn begin_write(&self, from: &[u8], within: u64) -> Writing<'_> {
        self.usage.note();
        self.link.begin_write(&[Write { from, to: self.place.at(within) }])
    }

    /// What carries its transfers.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// How often it is used.
    pub(crate) fn uses_per_1000_s(&self) -> u64 {
        self.usage.per_1000_s()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.story.end(self.why_gone());
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Home").field("place", &self.place).field("donor", &self.donor).finish_non_exhaustive()
    }
}
