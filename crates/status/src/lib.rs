//! Numbers and checks for other processes.
//!
//! One question per connection, a line of text; the answer is one line of JSON. Heaps, durable heaps and volumes answer alike, so that one command
//! shows them all.

#![forbid(unsafe_code)]

mod server;

use aquifer_sys::counter::Durations;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

pub use server::Server;

/// Of the library that answers.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Numbers.
    Stats,
    /// How long reads from flash took.
    Latency,
    /// What became of slabs and donors.
    Events,
    /// Whether the parts agree.
    Check,
}

impl Question {
    const ALL: [Self; 4] = [Self::Stats, Self::Latency, Self::Events, Self::Check];

    /// As it is asked, without the end of the line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Latency => "latency",
            Self::Events => "events",
            Self::Check => "check",
        }
    }

    fn of(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.word() == line.trim())
    }
}

/// What answers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(from = "String")]
pub enum Subject {
    /// Memory beyond RAM; what is not known, too.
    #[default]
    Heap,
    /// A heap that stays.
    Durable,
    /// Files behind one table.
    Volume,
}

impl Subject {
    /// As answers name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Durable => "durable heap",
            Self::Volume => "volume",
        }
    }
}

impl From<String> for Subject {
    fn from(word: String) -> Self {
        [Self::Durable, Self::Volume].into_iter().find(|subject| subject.word() == word).unwrap_or_default()
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The answer to [`Question::Stats`], whose numbers are named.
#[must_use]
pub fn stats(subject: Subject, numbers: &impl Serialize) -> Value {
    json!({ "pid": std::process::id(), "version": VERSION, "subject": subject, "stats": numbers })
}

/// The answer to [`Question::Latency`]: durations by powers of two.
#[must_use]
pub fn latency(durations: &Durations) -> Value {
    let (upper, count): (Vec<u64>, Vec<u64>) = durations.counts().unzip();
    json!({ "pid": std::process::id(), "latency": { "upper_ns": upper, "count": count } })
}

/// The answer to what cannot be answered.
#[must_use]
pub fn refusal(why: &str) -> Value {
    json!({ "error": why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_known_by_their_words_and_what_is_new_is_a_heap() {
        for subject in [Subject::Heap, Subject::Durable, Subject::Volume] {
            let word = serde_json::to_string(&subject).unwrap();
            assert_eq!(serde_json::from_str::<Subject>(&word).unwrap(), subject);
        }
        assert_eq!(serde_json::from_str::<Subject>("\"pool\"").unwrap(), Subject::Heap);
    }
}
