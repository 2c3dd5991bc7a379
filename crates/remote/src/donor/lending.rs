//! Which slabs a donor has, and who has them. No threads, no clock, no memory: what is decided here is the same in a daemon and in a simulation.

use std::collections::BTreeMap;
use std::time::Duration;

use super::shares::{Claim, Shares};
use crate::control::{Offer, Refusal, SlabId};

/// A borrower, as long as it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BorrowerId(pub u64);

/// A moment, counted from any beginning.
pub type Moment = Duration;

/// For how long a reservation holds.
pub const RESERVATION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Reserved {
        borrower: BorrowerId,
        reservation: u64,
        until: Moment,
    },
    Lent {
        borrower: BorrowerId,
    },
    /// Asked back: for programs of the donor's machine, or for other borrowers.
    Leaving {
        borrower: BorrowerId,
        until: Moment,
        is_for_machine: bool,
    },
    /// Given back, and not zeros yet. It counts as a slab, so that none is added in its place.
    Wiping,
}

/// The slabs of a donor.
#[derive(Debug)]
pub struct Lending {
    slabs: BTreeMap<SlabId, State>,
    /// What one account may have.
    quota_slabs: u64,
    shares: Shares,
    next_slab: u64,
    next_reservation: u64,
}

impl Lending {
    /// None yet.
    #[must_use]
    pub fn new(quota_slabs: u64) -> Lending {
        Lending {
            slabs: BTreeMap::new(),
            quota_slabs,
            shares: Shares::default(),
            next_slab: 1,
            next_reservation: 1,
        }
    }

    /// A new slab, to be lent.
    pub fn add(&mut self) -> SlabId {
        let slab = SlabId(self.next_slab);
        self.next_slab += 1;
        self.slabs.insert(slab, State::Free);
        slab
    }

    /// Slabs in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slabs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slabs.is_empty()
    }

    /// What could be lent now.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer { free_slabs: self.count(|state| matches!(state, State::Free)), slabs: self.slabs.len() as u64 }
    }

    /// Slabs that borrowers have.
    #[must_use]
    pub fn lent(&self) -> u64 {
        self.count(|state| matches!(state, State::Lent { .. } | State::Leaving { .. }))
    }

    /// Slabs that one borrower has.
    #[must_use]
    pub fn lent_to(&self, borrower: BorrowerId) -> u64 {
        self.count(|state| {
            matches!(state, State::Lent { borrower: who } | State::Leaving { borrower: who, .. } if *who == borrower)
        })
    }

    fn count(&self, is_so: impl Fn(&State) -> bool) -> u64 {
        self.slabs.values().filter(|state| is_so(state)).count() as u64
    }

    /// A borrower has come, with what it may claim while there are too few slabs.
    pub fn come(&mut self, borrower: BorrowerId, claim: Claim) {
        self.shares.come(borrower, claim);
    }

    /// Slabs that borrowers have and were not asked back.
    fn held(&self) -> BTreeMap<BorrowerId, u64> {
        let mut held = BTreeMap::new();
        for state in self.slabs.values() {
            if let State::Reserved { borrower, .. } | State::Lent { borrower } = state {
                *held.entry(*borrower).or_insert(0) += 1;
            }
        }
        held
    }

    /// Borrowers that wait and have less than is theirs by right.
    fn starving(
        &self,
        held: &BTreeMap<BorrowerId, u64>,
        rights: &BTreeMap<BorrowerId, u64>,
        now: Moment,
    ) -> usize {
        let has = |borrower| held.get(&borrower).copied().unwrap_or(0);
        self.shares.waiting(now).filter(|borrower| has(*borrower) < rights[borrower]).count()
    }

    /// Slabs of which one should be asked back for another borrower: somebody waits that has less than is its by right, none is on its way already, and these
    /// belong to borrowers that have more.
    #[must_use]
    pub fn unfair(&self, now: Moment) -> Vec<(SlabId, BorrowerId)> {
        let held = self.held();
        let rights = self.shares.divide(self.slabs.len() as u64, &held, now);
        let is_on_its_way =
            self.count(|state| matches!(state, State::Leaving { is_for_machine: false, .. })) > 0;
        if is_on_its_way || self.starving(&held, &rights, now) == 0 {
            return Vec::new();
        }
        let mut candidates = self.candidates();
        candidates.retain(|(_, borrower)| held[borrower] > rights[borrower]);
        candidates
    }

    /// Keeps a slab for a borrower; returns the reservation.
    ///
    /// # Errors
    /// Nothing is free, the borrower has enough, or others have more right to what is free.
    pub fn reserve(&mut self, borrower: BorrowerId, now: Moment) -> Result<u64, Refusal> {
        self.expire(now);
        let mut held = self.held();
        let has = *held.entry(borrower).or_insert(0);
        if self.shares.held_together(borrower, &held) >= self.quota_slabs {
            return Err(Refusal::Quota(self.quota_slabs));
        }
        let rights = self.shares.divide(self.slabs.len() as u64, &held, now);
        let right = rights[&borrower];
        if has >= right && self.starving(&held, &rights, now) > 0 {
            return Err(Refusal::Share(right));
        }
        let Some(state) = self.slabs.values_mut().find(|state| **state == State::Free) else {
            self.shares.wait(borrower, now);
            return Err(Refusal::NothingFree);
        };
        self.shares.served(borrower);
        let reservation = self.next_reservation;
        self.next_reservation += 1;
        *state = State::Reserved { borrower, reservation, until: now + RESERVATION };
        Ok(reservation)
    }

    /// Lends what was reserved.
    ///
    /// # Errors
    /// It was kept too long, or never, or for somebody else.
    pub fn take(&mut self, borrower: BorrowerId, reservation: u64, now: Moment) -> Result<SlabId, Refusal> {
        self.expire(now);
        let slab = self.reserved(borrower, reservation)?;
        self.slabs.insert(slab, State::Lent { borrower });
        Ok(slab)
    }

    /// Keeps it no longer.
    ///
    /// # Errors
    /// As [`Lending::take`].
    pub fn cancel(&mut self, borrower: BorrowerId, reservation: u64) -> Result<(), Refusal> {
        let slab = self.reserved(borrower, reservation)?;
        self.slabs.insert(slab, State::Free);
        Ok(())
    }

    fn reserved(&self, borrower: BorrowerId, reservation: u64) -> Result<SlabId, Refusal> {
        let is_it = |state: &State| matches!(state, State::Reserved { borrower: who, reservation: what, .. } if (*who, *what) == (borrower, reservation));
        let found = self.slabs.iter().find(|(_, state)| is_it(state));
        found.map(|(slab, _)| *slab).ok_or(Refusal::NoReservation)
    }

    /// A borrower gives a slab back. Its bytes must be wiped before [`Lending::wiped`] offers it again; until then nobody gets it. `true` if the donor was waiting
    /// for it, so that it is to be freed and is no slab any more.
    ///
    /// # Errors
    /// It is not the borrower's.
    pub fn give_back(&mut self, borrower: BorrowerId, slab: SlabId) -> Result<bool, Refusal> {
        let state = self.slabs.get(&slab).copied();
        match state {
            Some(State::Lent { borrower: who }) if who == borrower => {
                self.slabs.insert(slab, State::Wiping);
                Ok(false)
            }
            Some(State::Leaving { borrower: who, is_for_machine, .. }) if who == borrower => {
                if is_for_machine {
                    self.slabs.remove(&slab);
                } else {
                    self.slabs.insert(slab, State::Wiping);
                }
                Ok(is_for_machine)
            }
            _ => Err(Refusal::NotLent),
        }
    }

    /// A slab that was given back is zeros again.
    pub fn wiped(&mut self, slab: SlabId) {
        if let Some(state @ State::Wiping) = self.slabs.get_mut(&slab) {
            *state = State::Free;
        }
    }

    /// There is no memory for a slab that was given back: it is a slab no longer.
    pub fn lost(&mut self, slab: SlabId) {
        if let Some(State::Wiping) = self.slabs.get(&slab) {
            self.slabs.remove(&slab);
        }
    }

    /// A borrower is gone; returns what it had, to be wiped or freed.
    pub fn leave(&mut self, borrower: BorrowerId) -> Vec<(SlabId, bool)> {
        self.shares.leave(borrower);
        let mut had = Vec::new();
        self.slabs.retain(|slab, state| {
            let is_wanted = match *state {
                State::Lent { borrower: who } if who == borrower => false,
                State::Leaving { borrower: who, is_for_machine, .. } if who == borrower => is_for_machine,
                State::Reserved { borrower: who, .. } if who == borrower => {
                    *state = State::Free;
                    return true;
                }
                _ => return true,
            };
            *state = State::Wiping;
            had.push((*slab, is_wanted));
            !is_wanted
        });
        had
    }

    /// Removes up to `count` free slabs, whose memory the caller frees.
    fn remove_free(&mut self, count: usize) -> Vec<SlabId> {
        let free: Vec<_> = self
            .slabs
            .iter()
            .filter(|(_, state)| **state == State::Free)
            .map(|(slab, _)| *slab)
            .take(count)
            .collect();
        free.iter().for_each(|slab| {
            self.slabs.remove(slab);
        });
        free
    }

    /// Begins to give `wanted` slabs of RAM back to programs of this machine. Removes free slabs, whose
    /// memory the caller frees, and returns how many lent slabs to ask back besides. Slabs that are on their
    /// way back count as given.
    pub fn shrink(&mut self, wanted: usize) -> (Vec<SlabId>, usize) {
        let is_coming = |state: &State| matches!(state, State::Leaving { is_for_machine: true, .. });
        let missing = wanted.saturating_sub(self.count(is_coming) as usize);
        let freed = self.remove_free(missing);
        let left = missing - freed.len();
        (freed, left)
    }

    /// Slabs that are lent and were not asked back, with their borrowers.
    #[must_use]
    pub fn candidates(&self) -> Vec<(SlabId, BorrowerId)> {
        let borrower = |state: &State| match state {
            State::Lent { borrower } => Some(*borrower),
            _ => None,
        };
        self.slabs.iter().filter_map(|(slab, state)| Some((*slab, borrower(state)?))).collect()
    }

    /// Asks a slab back for programs of this machine; it is gone at a moment, if the borrower does not give it back before.
    pub fn ask_back(&mut self, slab: SlabId, until: Moment) {
        self.let_leave(slab, until, true);
    }

    /// As [`Lending::ask_back`], for another borrower.
    pub fn ask_back_for_others(&mut self, slab: SlabId, until: Moment) {
        self.let_leave(slab, until, false);
    }

    fn let_leave(&mut self, slab: SlabId, until: Moment, is_for_machine: bool) {
        if let Some(state) = self.slabs.get_mut(&slab)
            && let State::Lent { borrower } = *state
        {
            *state = State::Leaving { borrower, until, is_for_machine };
        }
    }

    /// Slabs that were asked back and did not come by this moment, with their borrowers.
    #[must_use]
    pub fn overdue(&self, now: Moment) -> Vec<(SlabId, BorrowerId)> {
        let borrower = |state: &State| match state {
            State::Leaving { borrower, until, .. } if *until <= now => Some(*borrower),
            _ => None,
        };
        self.slabs.iter().filter_map(|(slab, state)| Some((*slab, borrower(state)?))).collect()
    }

    /// Slabs on their way back.
    #[must_use]
    pub fn leaving(&self) -> u64 {
        self.count(|state| matches!(state, State::Leaving { .. }))
    }

    /// Lets go of what was reserved and not taken in time; until then it is nobody's and is not offered.
    pub fn expire(&mut self, now: Moment) {
        for state in self.slabs.values_mut() {
            if matches!(state, State::Reserved { until, .. } if *until <= now) {
                *state = State::Free;
            }
        }
    }
}

/// Chooses up to `count` of `candidates` at random, to ask for their activity.
#[must_use]
pub fn any_of(
    mut candidates: Vec<(SlabId, BorrowerId)>,
    count: usize,
    mut random: impl FnMut() -> u64,
) -> Vec<(SlabId, BorrowerId)> {
    let count = count.min(candidates.len());
    for nth in 0..count {
        let left = (candidates.len() - nth) as u64;
        candidates.swap(nth, nth + (random() % left) as usize);
    }
    candidates.truncate(count);
    candidates
}

/// The `evicted` least active of the slabs that were asked about: the paper's E of E + E' random ones.
#[must_use]
pub fn least_active(mut asked: Vec<(SlabId, u64)>, evicted: usize) -> Vec<SlabId> {
    asked.sort_by_key(|(slab, uses)| (*uses, *slab));
    asked.into_iter().take(evicted).map(|(slab, _)| slab).collect()
}

#[cfg(test)]
mod tests;
