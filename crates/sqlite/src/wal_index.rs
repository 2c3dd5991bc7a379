//! The index of a write-ahead log, and its locks. On a file system it is a file that processes map; a volume has one process, so it is memory.

use std::cell::UnsafeCell;
use std::ffi::c_void;

use crate::codes::SHM_LOCKS;

/// A part of the index. The connections write to it under the index's locks, which are SQLite's business.
struct Region(Box<[UnsafeCell<u64>]>);

// SAFETY: the cells are only handed out as pointers.
unsafe impl Send for Region {}

/// What the connections to one database share.
#[derive(Default)]
pub struct WalIndex {
    regions: Vec<Region>,
    /// Shared holders of each lock; -1 for an exclusive one.
    locks: [i32; SHM_LOCKS],
    connections: u32,
}

/// What one connection has of it: a bit for each lock.
#[derive(Default)]
pub struct Holding {
    shared: u8,
    exclusive: u8,
}

impl WalIndex {
    /// A connection begins to use the index.
    pub fn join(&mut self) -> Holding {
        self.connections += 1;
        Holding::default()
    }

    /// A connection has left; the last takes the index with it.
    pub fn leave(&mut self, mut holding: Holding) {
        self.unlock(&mut holding, u8::MAX);
        self.connections -= 1;
        if self.connections == 0 {
            self.regions.clear();
        }
    }

    /// The region of that number, which stays where it is; made with zeros if `is_made`, else `None` if there is none.
    pub fn region(&mut self, index: usize, len_bytes: usize, is_made: bool) -> Option<*mut c_void> {
        while is_made && self.regions.len() <= index {
            let cells = (0..len_bytes.div_ceil(8)).map(|_| UnsafeCell::new(0)).collect();
            self.regions.push(Region(cells));
        }
        let region = self.regions.get(index)?;
        Some(UnsafeCell::raw_get(region.0.as_ptr()).cast())
    }

    /// Takes the locks in `mask`; says whether that was possible.
    #[must_use]
    pub fn lock(&mut self, holding: &mut Holding, mask: u8, is_shared: bool) -> bool {
        let own = if is_shared { holding.shared } else { holding.exclusive };
        let wanted = bits(mask & !own);
        let is_free = |lock: usize| if is_shared { self.locks[lock] >= 0 } else { self.locks[lock] == 0 };
        if !wanted.clone().all(is_free) {
            return false;
        }
        for lock in wanted {
            self.locks[lock] += if is_shared { 1 } else { -1 };
        }
        if is_shared {
            holding.shared |= mask;
        } else {
            holding.exclusive |= mask;
        }
        true
    }

    /// Gives back those of the locks in `mask` that the connection has.
    pub fn unlock(&mut self, holding: &mut Holding, mask: u8) {
        for lock in bits(holding.shared & mask) {
            self.locks[lock] -= 1;
        }
        for lock in bits(holding.exclusive & mask) {
            self.locks[lock] = 0;
        }
        holding.shared &= !mask;
        holding.exclusive &= !mask;
    }
}

fn bits(mask: u8) -> impl Iterator<Item = usize> + Clone {
    (0..SHM_LOCKS).filter(move |bit| mask >> bit & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_locks_stand_alone() {
        let mut index = WalIndex::default();
        let (mut a, mut b) = (index.join(), index.join());
        assert!(index.lock(&mut a, 0b1, true) && index.lock(&mut b, 0b1, true));
        assert!(!index.lock(&mut a, 0b11, false), "another one reads");
        assert!(index.lock(&mut a, 0b10, false) && !index.lock(&mut b, 0b10, true));
        index.unlock(&mut a, 0b1);
        assert!(!index.lock(&mut a, 0b1, false));
        index.unlock(&mut b, 0b1);
        assert!(index.lock(&mut a, 0b1, false));
        index.leave(a);
        assert!(index.lock(&mut b, 0b11, false), "who leaves gives back what it has");
    }

    #[test]
    fn regions_last_as_long_as_somebody_uses_them() {
        let mut index = WalIndex::default();
        let (a, b) = (index.join(), index.join());
        assert_eq!(index.region(1, 32768, false), None);
        let region = index.region(1, 32768, true).expect("made");
        // SAFETY: the region has that many bytes, and nobody else has it.
        unsafe { region.cast::<u8>().add(32767).write(7) };
        index.leave(a);
        assert_eq!(index.region(1, 32768, false), Some(region));
        index.leave(b);
        assert_eq!(index.region(1, 32768, false), None);
    }
}
