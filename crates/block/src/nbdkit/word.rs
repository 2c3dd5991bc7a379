//! What the plugin says of the server, in lines.

/// The first word of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Clients are served; the size of the device follows, in bytes.
    Serves,
    /// A sentence for people.
    Note,
    /// Nobody is served any more, and everything that was answered is durable.
    Durable,
    /// Why nobody is served, or what is lost.
    Error,
}

impl Word {
    const ALL: [(Word, &str); 4] =
        [(Word::Serves, "serves"), (Word::Note, "note"), (Word::Durable, "durable"), (Word::Error, "error")];

    /// The line that says it.
    #[must_use]
    pub fn line(self, more: &str) -> String {
        let (_, name) = Self::ALL.iter().find(|(word, _)| *word == self).expect("all are there");
        format!("{name} {}\n", more.replace('\n', " "))
    }

    /// What a line says; `None` if it is not one of these.
    #[must_use]
    pub fn of(line: &str) -> Option<(Word, &str)> {
        let (name, more) = line.trim_end_matches('\n').split_once(' ')?;
        let (word, _) = Self::ALL.iter().find(|(_, known)| *known == name)?;
        Some((*word, more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        for (word, _) in Word::ALL {
            assert_eq!(Word::of(&word.line("two words")), Some((word, "two words")));
            assert_eq!(Word::of(&word.line("")), Some((word, "")));
        }
        assert_eq!(Word::of(&Word::Note.line("a\nserves 7")), Some((Word::Note, "a serves 7")));
        assert_eq!(Word::of("hello world"), None);
        assert_eq!(Word::of(""), None);
    }
}
