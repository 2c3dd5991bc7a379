//! Texts from outside, made harmless for each form of the output.

/// `text` without characters that change how others are shown: controls (terminals obey them, XML forbids them) and marks of writing direction.
pub(crate) fn plain(text: &str) -> String {
    let is_harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    text.chars().map(|c| if is_harmful(c) { '\u{FFFD}' } else { c }).collect()
}

/// `text` as characters between tags or between the quotes of an attribute.
pub(crate) fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` in one line of Markdown that means nothing but itself, in a table as well.
pub(crate) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '$' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` in one line, for terminals and comments.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_cannot_leave_its_place() {
        assert_eq!(markup("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
        assert_eq!(markup("\u{1b}[2J\u{0}\u{202e}x"), "\u{FFFD}[2J\u{FFFD}\u{FFFD}x");
    }

    #[test]
    fn markdown_stays_in_its_cell() {
        assert_eq!(markdown("a|b\n# <c> [d](e)"), "a\\|b \\# &lt;c&gt; \\[d\\](e)");
    }
}
