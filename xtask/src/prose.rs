//! Markdown whose prose is wrapped, so that a change of a sentence shows as the lines that it changed.

use crate::Finding;
use crate::source::Source;

/// Characters of a line of prose.
const COLUMNS_MAX: usize = 120;

/// The page of measurements.
const MADE: &str = "docs/reference/benchmarks.md";

/// Finds lines of prose that are too long. Tables, code, headings, HTML and link definitions are free, and so is a word that is
/// too long by itself. [`MADE`] is written by a program.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let markdown = sources.iter().filter(|source| {
        source.path.extension().is_some_and(|kind| kind == "md") && !source.path.ends_with(MADE)
    });
    markdown.flat_map(too_long).collect()
}

fn too_long(source: &Source) -> Vec<Finding> {
    let (mut place, mut findings) = (Place::default(), Vec::new());
    for (at, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        if place.is_prose(line) && columns > COLUMNS_MAX && !is_one_word(line) {
            let text = format!(
                "{}:{}: {columns} columns, prose is wrapped at {COLUMNS_MAX}",
                source.path.display(),
                at + 1
            );
            findings.push(Finding::Broken(text));
        }
    }
    findings
}

/// What the lines above say about the next one.
#[derive(Default)]
struct Place {
    /// The marks that opened the block of code.
    fence: Option<&'static str>,
    is_in_list: bool,
    is_behind_text: bool,
}

impl Place {
    /// Whether `line` is prose.
    fn is_prose(&mut self, line: &str) -> bool {
        let text = line.trim();
        if let Some(fence) = self.fence {
            if text.starts_with(fence) {
                self.fence = None;
            }
            return false;
        }
        if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence)) {
            self.fence = Some(fence);
            self.is_behind_text = false;
            return false;
        }
        let is_indented = line.starts_with("    ") || line.starts_with('\t');
        let is_code = is_indented && !self.is_in_list && !self.is_behind_text;
        if !text.is_empty() && !is_indented {
            self.is_in_list =
                is_item(text) || (self.is_in_list && (self.is_behind_text || line.starts_with(' ')));
        }
        self.is_behind_text = !text.is_empty() && !is_code;
        !is_code && !text.starts_with(['|', '#', '<']) && !is_link_definition(text)
    }
}

/// Whether `text` begins an item of a list.
fn is_item(text: &str) -> bool {
    let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
    let number = mark.strip_suffix(['.', ')']).unwrap_or("");
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    !rest.is_empty() && (is_number || ["-", "*", "+"].contains(&mark))
}

fn is_link_definition(text: &str) -> bool {
    text.starts_with('[') && text.split_once("]: ").is_some_and(|(name, _)| !name[1..].contains(['[', ']']))
}

/// Whether nothing of `line` could go on the next one.
fn is_one_word(line: &str) -> bool {
    let text = line.trim();
    let text =
        if is_item(text) { text.split_once(' ').map_or(text, |(_, rest)| rest.trim_start()) } else { text };
    !text.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<usize> {
        let findings = check(&[Source { path: "a.md".into(), text: text.into() }]);
        let number = |finding: &Finding| match finding {
            Finding::Broken(text) => text.split(':').nth(1).and_then(|number| number.parse().ok()),
            Finding::Notice(_) => None,
        };
        findings.iter().filter_map(number).collect()
    }

    fn long() -> String {
        "word ".repeat(30).trim_end().to_owned()
    }

    #[test]
    fn prose_is_counted_in_characters() {
        let fits = format!("{} é", "é".repeat(118));
        assert_eq!(lines_of(&fits), [0; 0]);
        assert_eq!(lines_of(&format!("{fits}é")), [1]);
    }

    #[test]
    fn items_and_their_further_lines_are_prose() {
        let long = long();
        assert_eq!(
            lines_of(&format!("- {long}\n  {long}\n\n    {long}\n10. {long}\n> {long}\n")),
            [1, 2, 4, 5, 6]
        );
    }

    #[test]
    fn tables_code_headings_html_and_links_are_free() {
        let long = long();
        let text = format!(
            "# {long}\n\n| {long} |\n\n    {long}\n\n```sh\n{long}\n```\n<a {long}>\n[a]: http://b {long}\n"
        );
        assert_eq!(lines_of(&text), [0; 0]);
    }

    #[test]
    fn text_behind_code_is_prose_again() {
        let long = long();
        assert_eq!(lines_of(&format!("```\n{long}\n```\n{long}\n\n    {long}\n{long}\n")), [4, 7]);
        assert_eq!(lines_of(&format!("- a\n\n{long}\n\n    {long}\n")), [3]);
    }

    #[test]
    fn one_long_word_is_free() {
        let word = "w".repeat(200);
        assert_eq!(lines_of(&format!("{word}\n- {word}\n- a {word}\n")), [3]);
    }

    #[test]
    fn other_files_are_free() {
        assert_eq!(check(&[Source { path: "a.rs".into(), text: long() }]), vec![]);
    }
}
