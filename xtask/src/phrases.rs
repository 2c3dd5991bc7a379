//! Phrases that make comments unclear: their number may only fall. And marks of unfinished work: there are none in the tree.
//!
//! `CONTRIBUTING.md`, "Sentences", has the rule and what to write instead. A phrase here is a sign of one of four faults: a subject
//! that names nothing, an amount that is a parameter without its name, an ordinary word in place of the field's, and a noun that
//! stands in another sentence.

use crate::Finding;
use crate::source::Source;

/// Comment lines of Rust sources with one of [`PHRASES`]. Lower it with each line that is written anew.
const LINES_ALLOWED: usize = 0;

/// Words in this order, with the case that they have here, and nothing of a word on either side.
struct Phrase {
    words: &'static str,
    /// The same words after this one are plain English.
    except_after: &'static str,
}

const fn phrase(words: &'static str) -> Phrase {
    Phrase { words, except_after: "" }
}

const PHRASES: &[Phrase] = &[
    // Subjects that name nothing.
    phrase("Who"),
    phrase("Whoever"),
    phrase("whoever"),
    phrase("All who"),
    phrase("Each that"),
    phrase("Many that"),
    phrase("One that"),
    phrase("One who"),
    phrase("One whose"),
    phrase("Others that"),
    phrase("Others who"),
    phrase("Some that"),
    phrase("Those that"),
    phrase("Those who"),
    phrase("Those whose"),
    phrase("Two that"),
    phrase("Two who"),
    phrase("what nobody"),
    // Amounts: `count`, `bytes`, n.
    phrase("So many"),
    phrase("so many"),
    phrase("So much"),
    phrase("so much"),
    // Atomic; available, allocated, mapped.
    phrase("one moment"),
    phrase("are had"),
    phrase("be had"),
    phrase("is had"),
    phrase("was had"),
    // Nouns of another sentence; invalid, not a file, not a peer.
    Phrase { words: "are none", except_after: "there" },
    Phrase { words: "is none", except_after: "there" },
    phrase("such a"),
    phrase("such an"),
];

/// Compares the number of unclear comment lines with [`LINES_ALLOWED`].
pub fn check(sources: &[Source]) -> Vec<Finding> {
    compare(&unclear(sources), LINES_ALLOWED)
}

/// What `lines` with a phrase mean where `allowed` of them are.
fn compare(lines: &[String], allowed: usize) -> Vec<Finding> {
    let count = lines.len();
    if count < allowed {
        let text = format!(
            "{count} unclear comment lines where {allowed} are allowed: lower LINES_ALLOWED in xtask/src/phrases.rs to {count}"
        );
        return vec![Finding::Broken(text)];
    }
    if count == allowed {
        return Vec::new();
    }
    let text = format!(
        "{count} unclear comment lines where {allowed} are allowed: see \"Sentences\" in CONTRIBUTING.md. All of them:\n  {}",
        lines.join("\n  ")
    );
    vec![Finding::Broken(text)]
}

/// Each comment line with a phrase: its file, its number, the phrase.
fn unclear(sources: &[Source]) -> Vec<String> {
    let mut lines = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (at, line) in source.text.lines().enumerate() {
            if let Some(words) = comment(line).and_then(found) {
                lines.push(format!("{}:{}: {words}", source.path.display(), at + 1));
            }
        }
    }
    lines
}

/// The text of a line that holds a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']))
}

fn found(text: &str) -> Option<&'static str> {
    PHRASES.iter().find(|phrase| is_in(phrase, text)).map(|phrase| phrase.words)
}

fn is_in(phrase: &Phrase, text: &str) -> bool {
    text.match_indices(phrase.words).any(|(at, words)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        !before.ends_with(is_of_a_word) && !after.starts_with(is_of_a_word) && !is_excepted(phrase, before)
    })
}

fn is_excepted(phrase: &Phrase, before: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or("");
    !phrase.except_after.is_empty() && last.eq_ignore_ascii_case(phrase.except_after)
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '`'
}

/// Marks of unfinished work. Built from halves, so that this file does not contain them.
const MARKS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimple", "mented!(")];

/// Finds the marks that people leave where something is missing.
pub fn check_marks(sources: &[Source]) -> Vec<Finding> {
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

    fn lines(path: &str, text: &str) -> Vec<String> {
        unclear(&[Source { path: path.into(), text: text.into() }])
    }

    #[test]
    fn a_phrase_in_any_comment_is_found_with_its_line() {
        let text = "//! Who asks.\nlet a = 1;\n    /// Takes so many slabs.\n// Whoever waits.\n";
        assert_eq!(lines("a.rs", text), ["a.rs:1: Who", "a.rs:3: so many", "a.rs:4: Whoever"]);
    }

    #[test]
    fn a_line_with_two_phrases_counts_once() {
        assert_eq!(lines("a.rs", "// Who takes so many is none.\n").len(), 1);
    }

    #[test]
    fn words_and_names_that_hold_a_phrase_are_free() {
        assert_eq!(lines("a.rs", "// Whole. such apples. `Who`. One thatched.\n"), [""; 0]);
    }

    #[test]
    fn an_exception_is_free_in_either_case() {
        assert_eq!(lines("a.rs", "// `None` if there is none. There is none.\n"), [""; 0]);
        assert_eq!(lines("a.rs", "// A file that is none.\n").len(), 1);
    }

    #[test]
    fn code_and_other_languages_are_free() {
        assert_eq!(lines("a.rs", "let text = \"so many\";\n"), [""; 0]);
        assert_eq!(lines("a.c", "// so many\n"), [""; 0]);
    }

    #[test]
    fn the_number_may_neither_rise_nor_stay_behind() {
        let two = ["a.rs:1: Who".to_owned(), "a.rs:2: Who".to_owned()];
        assert_eq!(compare(&two, 2), vec![]);
        assert!(matches!(&compare(&two, 1)[..], [Finding::Broken(text)] if text.contains("a.rs:2: Who")));
        assert!(matches!(&compare(&two, 3)[..], [Finding::Broken(text)] if text.ends_with("to 2")));
    }

    #[test]
    fn a_mark_is_found_with_its_line() {
        let text = format!("a\n// {}: b\n", MARKS[0]);
        let findings = check_marks(&[Source { path: "a.rs".into(), text }]);
        assert_eq!(findings, vec![Finding::Broken(format!("a.rs:2: {}", MARKS[0]))]);
    }
}
