//! Where the parts of a device are in the RAM of donors.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crate::transport::{Link, LinkError, Place};

/// Who finds slabs for a mirror.
pub trait Slabs: Send + Sync {
    /// A slab for one part of a device; `None` if no donor has one now.
    fn find(&self, slab_bytes: u64) -> Option<Arc<Home>>;
}

/// A slab that holds a part of a device.
pub struct Home {
    link: Arc<Link>,
    place: Place,
    epoch: u32,
    uses: AtomicU64,
    is_leaving: AtomicBool,
    /// Dropped when nobody uses the slab any more.
    _lease: Box<dyn Any + Send + Sync>,
}

impl Home {
    /// A slab of a donor, which nobody else uses until the lease is dropped. What it holds means nothing.
    #[must_use]
    pub fn new(link: Arc<Link>, place: Place, lease: Box<dyn Any + Send + Sync>) -> Home {
        /// No two homes of a process have the same, so no page is taken for one of another home.
        static EPOCHS: AtomicU32 = AtomicU32::new(1);
        Home {
            link,
            place,
            epoch: EPOCHS.fetch_add(1, Relaxed),
            uses: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
            _lease: lease,
        }
    }

    /// The donor wants it back: what it holds is moved, and then it is dropped.
    pub fn ask_to_leave(&self) {
        self.is_leaving.store(true, Relaxed);
    }

    /// Whether it was asked to.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Relaxed)
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
        self.link.read(self.place.at(within), to)
    }

    /// Writes bytes of it.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn write(&self, from: &[u8], within: u64) -> Result<(), LinkError> {
        self.link.write(from, self.place.at(within))
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) fn place_of(&self, within: u64) -> Place {
        self.place.at(within)
    }

    pub(super) fn note_use(&self) {
        self.uses.fetch_add(1, Relaxed);
    }

    /// Transfers from and to it since this was asked last.
    #[must_use]
    pub fn take_uses(&self) -> u64 {
        self.uses.swap(0, Relaxed)
    }
}

/// A part of a request that lies in one slab.
pub struct Cut {
    /// First byte in the request.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

/// The slabs of a device.
pub struct Homes {
    slab_bytes: u64,
    homes: RwLock<Box<[Option<Arc<Home>>]>>,
    wanted: Box<[AtomicBool]>,
}

impl Homes {
    /// None yet.
    pub fn new(device_bytes: u64, slab_bytes: u64) -> Homes {
        let count = device_bytes.div_ceil(slab_bytes) as usize;
        Homes {
            slab_bytes,
            homes: RwLock::new((0..count).map(|_| None).collect()),
            wanted: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Bytes of a slab.
    pub fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// Cuts a request at the ends of slabs.
    pub fn cut(&self, offset: u64, len: usize) -> impl Iterator<Item = Cut> + use<> {
        let (slab_bytes, mut start) = (self.slab_bytes, 0);
        std::iter::from_fn(move || {
            let within = (offset + start as u64) % slab_bytes;
            let cut = Cut { start, len: (len - start).min((slab_bytes - within) as usize) };
            start += cut.len;
            (cut.len > 0).then_some(cut)
        })
    }

    /// The slab that holds the bytes at an offset.
    pub fn of(&self, offset: u64) -> Option<Arc<Home>> {
        self.homes.read().unwrap_or_else(PoisonError::into_inner)[self.nth(offset)].clone()
    }

    /// Where an offset is in its slab.
    pub fn within(&self, offset: u64) -> u64 {
        offset % self.slab_bytes
    }

    /// Notes that the part at an offset should have a slab; says whether it is the first time.
    pub fn want(&self, offset: u64) -> bool {
        let wanted = &self.wanted[self.nth(offset)];
        !wanted.load(Relaxed) && !wanted.swap(true, Relaxed)
    }

    /// Parts that should have another slab, with the one that they have.
    pub fn unsettled(&self) -> Vec<(usize, Option<Arc<Home>>)> {
        let homes = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |nth: usize| self.wanted[nth].load(Relaxed);
        let should_move = |home: &Option<Arc<Home>>| home.as_ref().is_none_or(|home| home.is_leaving());
        let all = homes.iter().enumerate();
        all.filter(|(nth, home)| is_wanted(*nth) && should_move(home))
            .map(|(nth, home)| (nth, home.clone()))
            .collect()
    }

    /// Gives a part a slab, or none; the one that it had goes.
    pub fn settle(&self, nth: usize, home: Option<Arc<Home>>) {
        let before =
            std::mem::replace(&mut self.homes.write().unwrap_or_else(PoisonError::into_inner)[nth], home);
        drop(before);
    }

    /// Forgets a slab; says whether it was known.
    pub fn forget(&self, home: &Home) -> bool {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        let slot = homes.iter_mut().find(|slot| slot.as_ref().is_some_and(|known| known.epoch == home.epoch));
        slot.is_some_and(|slot| slot.take().is_some())
    }

    /// Parts that should have a slab, and those that have one.
    pub fn counts(&self) -> (usize, usize) {
        let homes = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.wanted.iter().filter(|wanted| wanted.load(Relaxed)).count();
        (wanted, homes.iter().flatten().count())
    }

    fn nth(&self, offset: u64) -> usize {
        (offset / self.slab_bytes) as usize
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Home").field("place", &self.place).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
