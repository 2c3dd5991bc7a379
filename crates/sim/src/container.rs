//! A place for containers, and what its present container has borrowed.

use aquifer_remote::control::SlabId;
use aquifer_remote::donor::lending::{BorrowerId, Moment};

use crate::load::Spec;
use crate::scenario::Activity;

/// A place: one container after the other.
#[derive(Debug)]
pub struct Container {
    /// The present or the next one.
    pub spec: Spec,
    /// How many were there before.
    pub generation: u32,
    /// Where it runs, if it does.
    pub machine: Option<u32>,
    /// Since when.
    pub started: Moment,
    /// Bytes on its own machine.
    pub local_bytes: u64,
    /// Bytes that do not fit there.
    pub over_bytes: u64,
    /// Of the bytes on its own machine, those that keep their place in slabs.
    pub kept_bytes: u64,
    /// Slabs that it has. All are full but the last.
    pub held: Vec<Held>,
    /// Slabs that it gives back when their bytes have moved.
    pub leaving: Vec<Held>,
}

/// A slab that was borrowed.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    /// The donor.
    pub machine: u32,
    /// How often the donor had failed before.
    pub epoch: u32,
    /// Which of its slabs.
    pub slab: SlabId,
    /// Bytes in it.
    pub bytes: u64,
    /// Pages used in it in a second, if all that is in it is nowhere else.
    pub heat: f64,
    /// When its uses were last asked for.
    pub asked: Moment,
}

impl Container {
    /// Its name at donors. Each container is a borrower of its own.
    #[must_use]
    pub fn borrower(&self, place: u32) -> BorrowerId {
        BorrowerId(u64::from(place) << 32 | u64::from(self.generation))
    }

    /// Whose container a borrower is.
    #[must_use]
    pub fn place_of(borrower: BorrowerId) -> u32 {
        (borrower.0 >> 32) as u32
    }

    /// Bytes in slabs.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.held.iter().map(|held| held.bytes).sum()
    }

    /// Bytes that should be in slabs.
    #[must_use]
    pub fn far_bytes(&self) -> u64 {
        self.over_bytes + self.kept_bytes
    }

    /// Bytes in slabs that are on its own machine as well. What is nowhere else goes first.
    #[must_use]
    pub fn twice_bytes(&self) -> u64 {
        self.stored_bytes().saturating_sub(self.over_bytes)
    }

    /// The share of its bytes in slabs that it asks for, from 0 to 1: the others are in its RAM.
    #[must_use]
    pub fn asked_share(&self) -> f64 {
        if self.kept_bytes == 0 { 1.0 } else { self.over_bytes as f64 / self.far_bytes() as f64 }
    }

    /// Uses of its slabs per second that its own RAM spares, because it has the pages as well.
    #[must_use]
    pub fn heat_spared(&self) -> f64 {
        let heat: f64 = self.held.iter().map(|held| held.heat).sum();
        heat * (1.0 - self.asked_share())
    }

    /// Slabs that it should have. It keeps one that it might need at once, so that slabs do not come and go.
    #[must_use]
    pub fn slabs_wanted(&self, slab_bytes: u64) -> (usize, usize) {
        let far_bytes = self.far_bytes();
        let least = far_bytes.div_ceil(slab_bytes);
        let most = if far_bytes == 0 { 0 } else { (far_bytes + slab_bytes / 4).div_ceil(slab_bytes) };
        (least as usize, most as usize)
    }
}

impl Held {
    /// What its borrower, who asks for this share of what is in it, answers when a donor asks how active it is.
    pub fn uses(&mut self, now: Moment, activity: Activity, asked_share: f64) -> u64 {
        let since = now.saturating_sub(self.asked);
        self.asked = now;
        match activity {
            Activity::Counts => (self.heat * asked_share * since.as_secs_f64()) as u64,
            Activity::Rates => (self.heat * asked_share) as u64,
        }
    }

    /// Whether it is this slab of this donor.
    #[must_use]
    pub fn is(&self, machine: u32, epoch: u32, slab: SlabId) -> bool {
        (self.machine, self.epoch, self.slab) == (machine, epoch, slab)
    }
}
