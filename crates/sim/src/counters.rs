//! What is counted.

use serde::Serialize;

/// Counts of a run, from the end of its warm-up.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Counters {
    /// Containers that started.
    pub starts: u64,
    /// Starts that had to wait for a machine with room.
    pub waits: u64,
    /// Slabs that were asked for.
    pub requests: u64,
    /// Requests that no donor could fulfil.
    pub refused: u64,
    /// Slabs that borrowers gave back because they did not need them any more, or ended.
    pub returned: u64,
    /// Slabs that donors asked back.
    pub evictions: u64,
    /// Of these, slabs whose bytes moved to another donor.
    pub moved: u64,
    /// Of these, slabs that no other donor had room for, so that their bytes are on the borrower's disk alone.
    pub dropped: u64,
    /// Slabs that did not move in time, and others of the same borrower that went with them.
    pub forced: u64,
    /// Slabs that went with a machine that failed, while their borrower lived.
    pub lost: u64,
    /// Machines that failed.
    pub failures: u64,
    /// Looks at a donor's memory.
    pub looks: u64,
    /// Looks that found more in use than there is, also without free slabs: programs waited for borrowers.
    pub short: u64,
    /// Bytes written into slabs as working sets grew, or were written again after a loss.
    pub filled_bytes: u64,
    /// Bytes that moved from donor to donor.
    pub moved_bytes: u64,
    /// Bytes of pages read and written in slabs.
    pub paged_bytes: u64,
    /// Of each slab that was asked back, the share of its donor's lent slabs that were truly less active, summed.
    pub evicted_rank: f64,
}

impl Counters {
    /// The mean of several runs, to a whole number.
    #[must_use]
    pub fn mean(all: &[&Counters]) -> Counters {
        let mean = |field: fn(&Counters) -> u64| {
            let sum: f64 = all.iter().map(|one| field(one) as f64).sum();
            (sum / all.len().max(1) as f64).round() as u64
        };
        Counters {
            starts: mean(|one| one.starts),
            waits: mean(|one| one.waits),
            requests: mean(|one| one.requests),
            refused: mean(|one| one.refused),
            returned: mean(|one| one.returned),
            evictions: mean(|one| one.evictions),
            moved: mean(|one| one.moved),
            dropped: mean(|one| one.dropped),
            forced: mean(|one| one.forced),
            lost: mean(|one| one.lost),
            failures: mean(|one| one.failures),
            looks: mean(|one| one.looks),
            short: mean(|one| one.short),
            filled_bytes: mean(|one| one.filled_bytes),
            moved_bytes: mean(|one| one.moved_bytes),
            paged_bytes: mean(|one| one.paged_bytes),
            evicted_rank: all.iter().map(|one| one.evicted_rank).sum::<f64>() / all.len().max(1) as f64,
        }
    }

    /// Of the slabs that borrowers got, how many failures took from them, from 0 to 1.
    #[must_use]
    pub fn lost_share(&self) -> f64 {
        share(self.lost, self.requests - self.refused)
    }

    /// Bytes between machines: what slabs were filled with, what moved between donors, and pages read and written in slabs.
    #[must_use]
    pub fn network_bytes(&self) -> u64 {
        self.filled_bytes + self.moved_bytes + self.paged_bytes
    }

    /// Of the requests, how many were refused.
    #[must_use]
    pub fn refused_share(&self) -> f64 {
        share(self.refused, self.requests)
    }

    /// Of the looks at donors, how many found programs waiting for memory.
    #[must_use]
    pub fn short_share(&self) -> f64 {
        share(self.short, self.looks)
    }

    /// How active evicted slabs were among those of their donor: 0 is the least active one, 0.5 is chance. `None` without evictions.
    #[must_use]
    pub fn evicted_rank_mean(&self) -> Option<f64> {
        (self.evictions > 0).then(|| self.evicted_rank / self.evictions as f64)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_each_count() {
        let one = Counters { requests: 10, evictions: 3, evicted_rank: 1.0, ..Counters::default() };
        let other = Counters { requests: 20, moved_bytes: 7, evicted_rank: 0.5, ..Counters::default() };
        let mean = Counters::mean(&[&one, &other]);
        assert_eq!((mean.requests, mean.evictions, mean.moved_bytes), (15, 2, 4));
        assert_eq!((mean.evicted_rank, mean.starts), (0.75, 0));
        assert_eq!(Counters::mean(&[&one]), one);
    }
}
