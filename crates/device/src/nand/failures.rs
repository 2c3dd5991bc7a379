//! Operations that were told to fail.

/// Which of the next programs and erases fail, besides those that wear makes fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// How many operations succeed before each, counted from the next.
    after: Vec<u64>,
}

impl Failures {
    pub(super) fn plan(&mut self, after_operations: u64) {
        self.after.push(after_operations);
    }

    /// Counts an operation; tells whether it fails.
    pub(super) fn spend(&mut self) -> bool {
        let fails = self.after.contains(&0);
        self.after.retain(|&left| left > 0);
        self.after.iter_mut().for_each(|left| *left -= 1);
        fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planned_operations_fail_and_no_others() {
        let mut failures = Failures::default();
        [3, 0, 4, 3].into_iter().for_each(|after| failures.plan(after));
        let outcome: Vec<bool> = (0..7).map(|_| failures.spend()).collect();
        assert_eq!(outcome, [true, false, false, true, true, false, false]);
    }
}
