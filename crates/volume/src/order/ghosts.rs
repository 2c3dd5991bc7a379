//! Which pages went lately.

use crate::key::PageKey;

/// A fingerprint of the last page that went for each of as many slots as RAM has pages: 4 bytes each, and older ones are overwritten.
pub struct Ghosts {
    slots: Vec<u32>,
}

impl Ghosts {
    /// Makes room for about `pages` ghosts.
    pub fn new(pages: usize) -> Self {
        Ghosts { slots: vec![0; pages.max(1)] }
    }

    fn place(&self, key: PageKey) -> (usize, u32) {
        let hash = key.word().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let slot = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        (slot, hash as u32 | 1)
    }

    /// Remembers a page.
    pub fn note(&mut self, key: PageKey) {
        let (slot, print) = self.place(key);
        self.slots[slot] = print;
    }

    /// Whether a page is remembered; it is not any more afterwards.
    pub fn take(&mut self, key: PageKey) -> bool {
        let (slot, print) = self.place(key);
        let is_known = self.slots[slot] == print;
        if is_known {
            self.slots[slot] = 0;
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Ino;

    #[test]
    fn lately_gone_pages_are_known_once_and_others_not() {
        let key = |index| PageKey::data(Ino::FIRST_FREE, index);
        let mut ghosts = Ghosts::new(1000);
        (0..200).for_each(|index| ghosts.note(key(index)));
        let known = (0..200).filter(|&index| ghosts.take(key(index))).count();
        assert!(known > 160, "{known} of 200");
        assert_eq!((0..1200).filter(|&index| ghosts.take(key(index))).count(), 0);
    }
}
