//! What donors had none of.

use super::home::DonorId;

/// Donors that were to be avoided when there was no slab at any other.
#[derive(Default)]
pub struct Refusals(Vec<Vec<DonorId>>);

impl Refusals {
    /// There was none.
    pub fn note(&mut self, avoided: &[DonorId]) {
        self.0.push(avoided.to_vec());
    }

    /// Whether it would be asked in vain for a slab of none of these donors: it was, with no more of them.
    pub fn include(&self, avoid: &[DonorId]) -> bool {
        self.0.iter().any(|avoided| avoided.iter().all(|donor| avoid.contains(donor)))
    }
}
