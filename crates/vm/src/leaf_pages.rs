//! Some of the pages of a leaf.

use aquifer_base::limits::LEAF_PAGES;

/// Some pages of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeafPages([u64; LEAF_PAGES / 64]);

impl LeafPages {
    /// Adds the page with this index.
    pub fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Whether it has the page with this index.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Their indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(nth, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let index = (left != 0).then(|| nth * 64 + left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index)
            })
        })
    }

    /// Takes those of another out.
    pub fn remove_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word &= !other);
    }
}

impl FromIterator<usize> for LeafPages {
    fn from_iter<T: IntoIterator<Item = usize>>(indices: T) -> Self {
        let mut pages = Self::default();
        indices.into_iter().for_each(|index| pages.insert(index));
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_come_back_in_order() {
        let mut pages: LeafPages = [511, 0, 63, 64, 200].into_iter().collect();
        assert_eq!(pages.iter().collect::<Vec<_>>(), [0, 63, 64, 200, 511]);
        pages.remove_all(&[0, 64, 65].into_iter().collect());
        assert_eq!((pages.iter().collect::<Vec<_>>(), pages.count()), (vec![63, 200, 511], 3));
        assert_eq!((0..LEAF_PAGES).collect::<LeafPages>().iter().count(), LEAF_PAGES);
    }
}
