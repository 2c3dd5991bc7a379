//! No unfinished work in the tree.

use crate::Finding;
use crate::source::Source;

/// Built from halves, so that this file does not contain them.
const MARKS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimple", "mented!(")];

/// Finds the marks that people leave where something is missing.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for (at, line) in source.text.lines().enumerate() {
            if let Some(mark) = MARKS.iter().find(|mark| line.contains(**mark)) {
                findings.push(Finding::Broken(format!("{}:{}: {mark}", source.path.display(), at + 1)));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_with_its_line() {
        let text = format!("a\n// {}: b\n", MARKS[0]);
        let findings = check(&[Source { path: "a.rs".into(), text }]);
        assert_eq!(findings, vec![Finding::Broken(format!("a.rs:2: {}", MARKS[0]))]);
    }
}
