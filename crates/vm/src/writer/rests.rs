//! How long compression rests: each time longer, until it is worth while again.

/// The next rest.
pub(super) struct Rests {
    next: u64,
    most: u64,
}

impl Rests {
    /// Rests of one unit up to `most`.
    pub(super) fn new(most: u64) -> Self {
        Self { next: 1, most }
    }

    /// How long to rest, if it was not worth while.
    pub(super) fn after(&mut self, is_worth_while: bool) -> Option<u64> {
        let rest = self.next;
        self.next = if is_worth_while { 1 } else { self.most.min(rest * 2) };
        (!is_worth_while).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_get_longer_until_it_is_worth_while() {
        let mut rests = Rests::new(8);
        let all: Vec<_> = (0..5).map(|_| rests.after(false)).collect();
        assert_eq!(all, [1, 2, 4, 8, 8].map(Some));
        assert_eq!((rests.after(true), rests.after(false)), (None, Some(1)));
    }
}
