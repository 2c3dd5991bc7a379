//! What a run of a program gave.

use serde::{Deserialize, Serialize};

use super::slots::Slots;
use crate::process::Memory;

/// One line of a task's standard output; the clients of memcached give the same.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Rounds of the work, where it has some.
    pub rounds: Option<u64>,
    /// What the program counts, in the measured time.
    pub ops: u64,
    /// Length of that.
    pub seconds: f64,
    /// Time before: data are made or loaded, and warmed up.
    pub setup_s: f64,
    /// Follows from all results, which must be the same whatever lies below.
    pub digest: Option<u64>,
    /// The most that the process had resident, and its page tables.
    pub memory: Memory,
    /// What it had in the swap area at the end of the measured time, where it had one. Lines of before have none.
    #[serde(flatten, default)]
    pub slots: Option<Slots>,
}

impl Answer {
    /// Its speed.
    pub fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"rounds":3,"ops":10,"seconds":2.0,"setup_s":1.0,"digest":7,"memory":{"rss_bytes":1,"vm_pte_bytes":1}}"#;

    #[test]
    fn lines_with_and_without_slots_are_read() {
        let before: Answer = serde_json::from_str(LINE).expect("a line of before");
        assert_eq!(before.slots, None);
        let fields =
            r#""swap_used_bytes":8192,"swapped_out_bytes":4096,"resident_bytes":16384,"clean_bytes":0}"#;
        let line = LINE.replace("}}", &format!("}},{fields}"));
        let now: Answer = serde_json::from_str(&line).expect("a line of now");
        let slots =
            Slots { swap_used_bytes: 8192, swapped_out_bytes: 4096, resident_bytes: 16384, clean_bytes: 0 };
        assert_eq!(now.slots, Some(slots));
        for answer in [before, now] {
            let line = serde_json::to_string(&answer).expect("plain fields");
            assert_eq!(serde_json::from_str::<Answer>(&line).expect("just written"), answer);
        }
    }
}
