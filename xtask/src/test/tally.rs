//! Counts of tests, from what a job has printed.

use super::job::Results;
use std::ops::AddAssign;

/// Tests by how they ended.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// They hold.
    pub passed: usize,
    /// They do not, hang, or leave something behind.
    pub failed: usize,
    /// They cannot run here.
    pub skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Tally {
    /// Counts a job's output. A job that ends badly, or has no result, has failed at least once, whatever it printed.
    pub fn of(results: Results, success: bool, output: &str) -> Self {
        let mut tally = match results {
            Results::Status => status(success, output),
            Results::Lines => lines(output),
            Results::Cargo => cargo(output),
            Results::Nothing => Self::default(),
        };
        // A script or a filter of names that finds nothing to test must not look like one whose tests hold.
        let is_mute = results != Results::Nothing && tally == Self::default();
        if !success || is_mute {
            tally.failed = tally.failed.max(1);
        }
        tally
    }
}

/// Whether a line says that something was skipped.
pub fn is_skip(line: &str) -> bool {
    line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("skip "))
}

fn status(success: bool, output: &str) -> Tally {
    let skipped = success && output.lines().any(is_skip);
    Tally {
        passed: usize::from(success && !skipped),
        failed: usize::from(!success),
        skipped: usize::from(skipped),
    }
}

fn lines(output: &str) -> Tally {
    let count = |test: &dyn Fn(&str) -> bool| output.lines().filter(|line| test(line)).count();
    Tally {
        passed: count(&|line| line.starts_with("ok ")),
        failed: count(&|line| line.starts_with("FAIL ")),
        skipped: count(&is_skip),
    }
}

/// The sums of lines such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`. A Rust test that cannot run here says so and passes; it is skipped.
fn cargo(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let words: Vec<&str> = line.split([' ', ';']).collect();
            let at = words.iter().position(|other| *other == word);
            at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<usize>().ok()).unwrap_or(0)
        };
        tally += Tally { passed: number("passed"), failed: number("failed"), skipped: number("ignored") };
    }
    let told = output.lines().filter(|line| is_skip(line)).count().min(tally.passed);
    tally.passed -= told;
    tally.skipped += told;
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: usize, failed: usize, skipped: usize) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn a_test_passes_fails_or_is_skipped() {
        assert_eq!(Tally::of(Results::Status, true, "noise\n"), tally(1, 0, 0));
        assert_eq!(Tally::of(Results::Status, true, "SKIP no fuse\n"), tally(0, 0, 1));
        assert_eq!(Tally::of(Results::Status, false, "SKIP no fuse\n"), tally(0, 1, 0));
    }

    #[test]
    fn lines_are_counted() {
        let output = "ok a\nok b\nFAIL c: why\nskip d: why\nnot ok\n";
        assert_eq!(Tally::of(Results::Lines, false, output), tally(2, 1, 1));
        assert_eq!(Tally::of(Results::Lines, false, "ok a\n"), tally(1, 1, 0));
    }

    #[test]
    fn a_job_without_a_result_has_failed() {
        assert_eq!(Tally::of(Results::Lines, true, "nothing to do\n"), tally(0, 1, 0));
        assert_eq!(
            Tally::of(Results::Cargo, true, "test result: ok. 0 passed; 0 failed; 0 ignored;\n"),
            tally(0, 1, 0)
        );
    }

    #[test]
    fn summaries_of_cargo_are_added_up() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                      SKIP no fuse\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(Tally::of(Results::Cargo, false, output), tally(3, 2, 2));
    }

    #[test]
    fn a_build_counts_only_when_it_fails() {
        assert_eq!(Tally::of(Results::Nothing, true, "ok x\n"), tally(0, 0, 0));
        assert_eq!(Tally::of(Results::Nothing, false, ""), tally(0, 1, 0));
    }
}
