//! The ghost queue: hashes of the objects that left the small queue last.
//!
//! As in the paper (SOSP 2023, section 4.2) the queue is a hash table of fingerprints with the time of
//! their insertion, counted in insertions. Old entries expire where they are; nothing is ever unlinked.

/// Entries that share one cache line and one hash value.
const WAYS: usize = 8;
/// Table entries for 1,000 ghosts: the spare ones keep full buckets rare.
const ENTRIES_PER_1000: usize = 1333;
/// Steps of the coarse time within one capacity. 16 bits of time then hold at least 8 capacities, by when
/// an entry has long been overwritten.
const TICKS: usize = 4096;
/// No ghost. A real entry with this value is taken for an empty one, which loses one ghost in 2^32.
const EMPTY: u32 = 0;

/// A FIFO set of key hashes of fixed size; takes 4 bytes per table entry.
pub(super) struct Ghosts {
    /// Fingerprint in the high half of each entry, tick in the low one.
    buckets: Box<[[u32; WAYS]]>,
    capacity: usize,
    inserted: usize,
}

impl Ghosts {
    /// Remembers the last `capacity` insertions; zero remembers nothing.
    pub(super) fn new(capacity: usize) -> Self {
        let buckets = vec![[EMPTY; WAYS]; Self::buckets(capacity)].into_boxed_slice();
        Self { buckets, capacity, inserted: 0 }
    }

    /// RAM that a table of this capacity takes, in bytes.
    pub(super) const fn bytes(capacity: usize) -> usize {
        Self::buckets(capacity) * WAYS * size_of::<u32>()
    }

    /// Adds the object with this hash as the newest ghost.
    pub(super) fn insert(&mut self, hash: u32) {
        if self.capacity == 0 {
            return;
        }
        self.inserted = self.inserted.wrapping_add(1);
        let (bucket, fingerprint) = self.place(hash);
        let now = self.tick();
        let entry = u32::from(fingerprint) << 16 | u32::from(now);
        let entries = &mut self.buckets[bucket];
        let same = entries.iter().position(|&old| old != EMPTY && old >> 16 == u32::from(fingerprint));
        let way = same.unwrap_or_else(|| oldest(entries, now));
        entries[way] = entry;
    }

    /// Removes the ghost with this hash, and returns whether there was one.
    pub(super) fn take(&mut self, hash: u32) -> bool {
        if self.capacity == 0 {
            return false;
        }
        let (bucket, fingerprint) = self.place(hash);
        let (now, life) = (self.tick(), self.life_ticks());
        let found = self.buckets[bucket]
            .iter_mut()
            .find(|entry| **entry != EMPTY && **entry >> 16 == u32::from(fingerprint));
        let Some(entry) = found else { return false };
        let alive = age(*entry, now) < life;
        *entry = EMPTY;
        alive
    }

    const fn buckets(capacity: usize) -> usize {
        (capacity * ENTRIES_PER_1000 / 1000).div_ceil(WAYS)
    }

    fn place(&self, hash: u32) -> (usize, u16) {
        let mixed = u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bucket = ((mixed >> 32) * self.buckets.len() as u64) >> 32;
        (bucket as usize, (mixed >> 16) as u16)
    }

    fn insertions_per_tick(&self) -> usize {
        (self.capacity / TICKS).max(1)
    }

    fn tick(&self) -> u16 {
        (self.inserted / self.insertions_per_tick()) as u16
    }

    fn life_ticks(&self) -> u16 {
        (self.capacity / self.insertions_per_tick()) as u16
    }
}

fn age(entry: u32, now: u16) -> u16 {
    now.wrapping_sub(entry as u16)
}

/// The way to overwrite: an empty one or the one inserted first.
fn oldest(entries: &[u32; WAYS], now: u16) -> usize {
    let age_of = |way: &usize| match entries[*way] {
        EMPTY => u32::MAX,
        entry => u32::from(age(entry, now)),
    };
    (0..WAYS).max_by_key(age_of).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Ghosts;

    #[test]
    fn a_ghost_is_found_once() {
        let mut ghosts = Ghosts::new(100);
        ghosts.insert(7);
        assert!(!ghosts.take(8));
        assert!(ghosts.take(7));
        assert!(!ghosts.take(7));
    }

    #[test]
    fn ghosts_expire_in_the_order_of_insertion() {
        let mut ghosts = Ghosts::new(4);
        (0..6).for_each(|hash| ghosts.insert(hash));
        let found: Vec<bool> = (0..6).map(|hash| ghosts.take(hash)).collect();
        assert_eq!(found, [false, false, true, true, true, true]);
    }

    #[test]
    fn a_second_insertion_makes_a_ghost_young_again() {
        let mut ghosts = Ghosts::new(4);
        [0, 1, 2, 0, 3, 4].into_iter().for_each(|hash| ghosts.insert(hash));
        assert!(ghosts.take(0));
        assert!(!ghosts.take(1));
    }

    #[test]
    fn without_capacity_nothing_is_remembered() {
        let mut ghosts = Ghosts::new(0);
        ghosts.insert(1);
        assert!(!ghosts.take(1));
        assert_eq!(Ghosts::bytes(0), 0);
    }

    /// Of the last `capacity` hashes few are lost to full buckets, and of the older ones few are left,
    /// also after the 16-bit time has wrapped several times.
    #[test]
    fn a_large_table_keeps_almost_exactly_its_capacity() {
        let capacity = 20_000;
        let mut ghosts = Ghosts::new(capacity);
        let last = 1_000_000_u32;
        (0..last).for_each(|hash| ghosts.insert(hash));
        let young = (last - capacity as u32 + 10..last).filter(|&hash| ghosts.take(hash)).count();
        assert!(young > capacity * 9 / 10, "{young} of {capacity} ghosts are left");
        let old = (0..last - capacity as u32).filter(|&hash| ghosts.take(hash)).count();
        assert!(old < capacity / 20, "{old} expired ghosts are still there");
    }
}
