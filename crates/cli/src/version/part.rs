//! Something of this build or this machine that may be missing, and what adds it.

use serde::Serialize;

use crate::error::printable;

/// Widest line of the table.
const COLUMNS: usize = 100;

/// One part.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its name in the table.
    pub name: &'static str,
    /// What needs it.
    pub serves: &'static str,
    /// Whether it is there and this user may use it.
    pub is_ready: bool,
    /// What is there, or what is missing.
    pub state: String,
    /// What there is to choose from, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// What adds it, if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Part {
    /// A part that can be used.
    pub fn ready(name: &'static str, serves: &'static str, state: impl Into<String>) -> Self {
        Part { name, serves, is_ready: true, state: state.into(), choices: Vec::new(), remedy: None }
    }

    /// A part that cannot be used until somebody does what `remedy` says.
    pub fn missing(
        name: &'static str,
        serves: &'static str,
        state: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Part { name, serves, is_ready: false, state: state.into(), choices: Vec::new(), remedy }
    }

    /// With names to choose from.
    pub fn with_choices(self, choices: Vec<String>) -> Self {
        Part { choices, ..self }
    }

    /// What is there or missing, and what there is to choose from.
    pub fn sentence(&self) -> String {
        match &self.choices[..] {
            [] => self.state.clone(),
            choices => format!("{}: {}", self.state, choices.join(", ")),
        }
    }
}

/// The parts, a line each, and below one that is missing what adds it.
pub fn table(parts: &[Part]) -> String {
    let columns = parts.iter().map(|part| part.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for part in parts {
        let mark = if part.is_ready { "yes" } else { "no " };
        let lead = format!("{:columns$}  {mark}  ", part.name);
        text += &wrapped(&lead, &printable(&part.sentence()));
        if let Some(remedy) = &part.remedy {
            text += &wrapped(&" ".repeat(lead.len()), &printable(&format!("for {}: {remedy}", part.serves)));
        }
    }
    text
}

/// `text` in pieces that stay on one line: words, and commands between backticks.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut is_inside = false;
    for word in text.split_whitespace() {
        match pieces.last_mut() {
            Some(last) if is_inside => *last += &format!(" {word}"),
            _ => pieces.push(word.to_owned()),
        }
        is_inside ^= word.matches('`').count() % 2 == 1;
    }
    pieces
}

/// `text` behind `lead`, in lines of at most [`COLUMNS`] characters that begin below its first word. A longer piece has a line of its own.
fn wrapped(lead: &str, text: &str) -> String {
    let indent = lead.chars().count();
    let (mut lines, mut line) = (String::new(), lead.to_owned());
    let mut is_first_word = true;
    for word in pieces(text) {
        if !is_first_word && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(indent);
            is_first_word = true;
        }
        if !is_first_word {
            line.push(' ');
        }
        line += &word;
        is_first_word = false;
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_a_terminal() {
        assert_eq!(wrapped("a  ", "b c"), "a  b c\n");
        assert_eq!(wrapped("a  ", ""), "a\n");
        let text = "word ".repeat(60);
        let lines = wrapped("lead  ", &text);
        assert!(lines.lines().count() > 2);
        assert!(lines.lines().all(|line| line.chars().count() <= COLUMNS), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("      word")), "{lines}");
        assert_eq!(lines.matches("word").count(), 60);
        let command = "`apt-get install everything`";
        let lines = wrapped("lead  ", &format!("{}{command}; {command}", "word ".repeat(15)));
        assert_eq!(lines.matches(command).count(), 2, "{lines}");
        let long = "x".repeat(200);
        assert_eq!(wrapped("a  ", &format!("b {long} c")), format!("a  b\n   {long}\n   c\n"));
    }

    #[test]
    fn a_remedy_is_for_what_is_missing() {
        let ready = Part::ready("a", "b", "c").with_choices(vec!["d".into(), "e".into()]);
        assert_eq!(ready.sentence(), "c: d, e");
        let json = serde_json::to_string(&ready).expect("it has a form");
        assert_eq!(json, r#"{"name":"a","serves":"b","is_ready":true,"state":"c","choices":["d","e"]}"#);
        let missing = Part::missing("a", "b", "c", "d");
        assert_eq!((missing.sentence(), missing.remedy), ("c".into(), Some("d".into())));
    }
}
