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
    /// Pages used in it in a second.
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

    /// Slabs that it should have. It keeps one that it might need at once, so that slabs do not come and go.
    #[must_use]
    pub fn slabs_wanted(&self, slab_bytes: u64) -> (usize, usize) {
        let least = self.over_bytes.div_ceil(slab_bytes);
        let most =
            if self.over_bytes == 0 { 0 } else { (self.over_bytes + slab_bytes / 4).div_ceil(slab_bytes) };
        (least as usize, most as usize)
    }
}

impl Held {
    /// What its borrower answers when a donor asks how active it is.
    pub fn uses(&mut self, now: Moment, activity: Activity) -> u64 {
        let since = now.saturating_sub(self.asked);
        self.asked = now;
        match activity {
            Activity::Counts => (self.heat * since.as_secs_f64()) as u64,
            Activity::Rates => self.heat as u64,
        }
    }

    /// Whether it is this slab of this donor.
    #[must_use]
    pub fn is(&self, machine: u32, epoch: u32, slab: SlabId) -> bool {
        (self.machine, self.epoch, self.slab) == (machine, epoch, slab)
    }
}
