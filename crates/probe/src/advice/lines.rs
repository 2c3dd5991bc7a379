//! Sentences broken into lines.

/// Columns of a line.
const COLUMNS: usize = 100;

/// `text` in lines of at most 100 columns, as far as its words allow, each behind `indent` and with a newline at its end.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_lines_short() {
        assert_eq!(wrapped("a bc", "  "), "  a bc\n");
        let text = "word ".repeat(50) + &"x".repeat(200) + " end";
        let lines = wrapped(&text, "    ");
        let all: Vec<&str> = lines.split_whitespace().collect();
        assert_eq!(all.join(" "), text);
        assert!(lines.lines().all(|line| line.len() <= 100 || line.trim().len() == 200), "{lines}");
        assert_eq!(lines.lines().count(), 5, "{lines}");
    }
}
