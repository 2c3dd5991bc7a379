//! Files that a reader can hold in the head.

use crate::Finding;
use crate::rules::{LINES_MAX, LINES_REPORTED};
use crate::source::Source;

/// Reports long Rust files and refuses those that are too long; tests are free.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let code = sources.iter().filter(|source| source.is_rust() && !source.is_test());
    code.filter_map(|source| {
        let lines = source.text.lines().count();
        let text = format!("{}: {lines} lines", source.path.display());
        match lines {
            _ if lines > LINES_MAX => {
                Some(Finding::Broken(format!("{text}, at most {LINES_MAX} are allowed")))
            }
            _ if lines >= LINES_REPORTED => Some(Finding::Notice(text)),
            _ => None,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, lines: usize) -> Vec<Finding> {
        check(&[Source { path: path.into(), text: "x\n".repeat(lines) }])
    }

    #[test]
    fn long_is_reported_and_too_long_is_broken() {
        assert_eq!(finding("crates/a/src/b.rs", 399), vec![]);
        assert!(matches!(finding("crates/a/src/b.rs", 400)[..], [Finding::Notice(_)]));
        assert!(matches!(finding("crates/a/src/b.rs", 501)[..], [Finding::Broken(_)]));
    }

    #[test]
    fn tests_and_other_languages_are_free() {
        assert_eq!(finding("crates/a/tests/b.rs", 900), vec![]);
        assert_eq!(finding("crates/a/src/c/tests.rs", 900), vec![]);
        assert_eq!(finding("examples/b.c", 900), vec![]);
    }
}
