//! A borrower: the device of a machine or of a container, and the slabs that it has.

use aquifer_remote::control::SlabId;
use aquifer_remote::donor::lending::{BorrowerId, Moment};

use crate::scenario::Activity;

/// What borrows for one machine, or for one container.
#[derive(Debug, Default)]
pub struct Device {
    /// How often it ended: what it had before is gone.
    pub generation: u32,
    /// Bytes of its containers that do not fit into their limits.
    pub over_bytes: u64,
    /// Bytes within the limits that keep their place in slabs.
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
    /// How much more than the mean slab of its device it is used, as a factor.
    pub skew: f64,
    /// When its uses were last asked for.
    pub asked: Moment,
}

impl Device {
    /// The name of device `nth` at donors.
    #[must_use]
    pub fn borrower(&self, nth: u32) -> BorrowerId {
        BorrowerId(u64::from(nth) << 32 | u64::from(self.generation))
    }

    /// Which device a borrower is.
    #[must_use]
    pub fn nth_of(borrower: BorrowerId) -> u32 {
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

    /// Bytes in slabs that are in RAM of their containers as well. What is nowhere else goes first.
    #[must_use]
    pub fn twice_bytes(&self) -> u64 {
        self.stored_bytes().saturating_sub(self.over_bytes)
    }

    /// The least and the most slabs that it should have. A device keeps one that it might need at once, so that slabs do
    /// not come and go.
    #[must_use]
    pub fn slabs_wanted(&self, slab_bytes: u64) -> (usize, usize) {
        let far_bytes = self.far_bytes();
        let least = far_bytes.div_ceil(slab_bytes);
        let most = if far_bytes == 0 { 0 } else { (far_bytes + slab_bytes / 4).div_ceil(slab_bytes) };
        (least as usize, most as usize)
    }
}

impl Held {
    /// Pages used in it in a second, if a full slab of its device has `uses_per_s` of them.
    #[must_use]
    pub fn heat(&self, uses_per_s: f64) -> f64 {
        uses_per_s * self.skew
    }

    /// What its borrower answers when a donor asks how active it is.
    pub fn uses(&mut self, now: Moment, activity: Activity, uses_per_s: f64) -> u64 {
        let since = now.saturating_sub(self.asked);
        self.asked = now;
        match activity {
            Activity::Counts => (self.heat(uses_per_s) * since.as_secs_f64()) as u64,
            Activity::Rates => self.heat(uses_per_s) as u64,
        }
    }

    /// Whether it is this slab of this donor.
    #[must_use]
    pub fn is(&self, machine: u32, epoch: u32, slab: SlabId) -> bool {
        (self.machine, self.epoch, self.slab) == (machine, epoch, slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_slabs_for_all_bytes_and_keeps_one_that_it_may_need() {
        let with = |over_bytes, kept_bytes| Device { over_bytes, kept_bytes, ..Device::default() };
        assert_eq!(with(0, 0).slabs_wanted(100), (0, 0));
        assert_eq!(with(30, 40).slabs_wanted(100), (1, 1));
        assert_eq!(with(100, 80).slabs_wanted(100), (2, 3));
    }

    #[test]
    fn names_of_borrowers_lead_back_to_their_devices() {
        let device = Device { generation: 7, ..Device::default() };
        assert_eq!(Device::nth_of(device.borrower(123)), 123);
        assert_ne!(device.borrower(123), Device::default().borrower(123));
    }
}
