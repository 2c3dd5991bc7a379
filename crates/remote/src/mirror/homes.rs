//! Which slabs hold which part of a device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::family::Family;
use super::home::Home;

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
    replicas: usize,
    families: RwLock<Box<[Option<Arc<Family>>]>>,
    wanted: Box<[AtomicBool]>,
}

impl Homes {
    /// No slabs yet; each part of a slab's size wants `replicas` of them.
    pub fn new(device_bytes: u64, slab_bytes: u64, replicas: usize) -> Homes {
        let count = device_bytes.div_ceil(slab_bytes) as usize;
        Homes {
            slab_bytes,
            replicas,
            families: RwLock::new((0..count).map(|_| None).collect()),
            wanted: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Bytes of a slab.
    pub fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// Slabs that each part should have.
    pub fn replicas(&self) -> usize {
        self.replicas
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

    /// The slabs that hold the bytes at an offset.
    pub fn of(&self, offset: u64) -> Option<Arc<Family>> {
        self.families.read().unwrap_or_else(PoisonError::into_inner)[self.nth(offset)].clone()
    }

    /// Where an offset is in its slab.
    pub fn within(&self, offset: u64) -> u64 {
        offset % self.slab_bytes
    }

    /// Notes that the part at an offset should have slabs; says whether it is the first time.
    pub fn want(&self, offset: u64) -> bool {
        let wanted = &self.wanted[self.nth(offset)];
        !wanted.load(Relaxed) && !wanted.swap(true, Relaxed)
    }

    /// Parts that should have other slabs, with those that they have.
    pub fn unsettled(&self) -> Vec<(usize, Option<Arc<Family>>)> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let is_good =
            |family: &Arc<Family>| self.is_settled(family) && family.homes().all(|home| home.is_good());
        let all = families.iter().enumerate().filter(|(nth, _)| self.wanted[*nth].load(Relaxed));
        all.filter(|(_, family)| !family.as_ref().is_some_and(is_good))
            .map(|(nth, family)| (nth, family.clone()))
            .collect()
    }

    /// Puts a family in the place of another, if that is still there; says whether it was.
    pub fn replace(&self, nth: usize, before: Option<&Arc<Family>>, after: Option<Arc<Family>>) -> bool {
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = match (&families[nth], before) {
            (None, None) => true,
            (Some(now), Some(before)) => Arc::ptr_eq(now, before),
            _ => false,
        };
        let gone = if is_there { std::mem::replace(&mut families[nth], after) } else { after };
        drop(families);
        // The last use of a slab gives it back: not while others wait.
        drop(gone);
        is_there
    }

    /// Takes a slab out of the family that has it; says whether one had.
    pub fn forget(&self, home: &Home) -> bool {
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        let has_it = |family: &Arc<Family>| family.homes().any(|known| std::ptr::eq(&**known, home));
        let Some(slot) = families.iter_mut().find(|slot| slot.as_ref().is_some_and(has_it)) else {
            return false;
        };
        let gone =
            slot.as_ref().map(|family| Arc::new(family.without(home))).and_then(|rest| slot.replace(rest));
        drop(families);
        drop(gone);
        true
    }

    /// Parts that should have slabs, and those that have as many as they should, and in them all that they should.
    pub fn counts(&self) -> (usize, usize) {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.wanted.iter().filter(|wanted| wanted.load(Relaxed)).count();
        let placed = families.iter().flatten().filter(|family| self.is_settled(family)).count();
        (wanted, placed)
    }

    fn is_settled(&self, family: &Family) -> bool {
        family.is_filled() && family.homes().count() >= self.replicas
    }

    /// Which part of the device an offset is in.
    pub fn nth(&self, offset: u64) -> usize {
        (offset / self.slab_bytes) as usize
    }
}
