//! What the writer is wanted for, and when it gets nowhere.
//!
//! To write a page back the writer needs its leaf. If leaves cannot be read any more, dirty pages stay in RAM, where they can
//! be used. But who needs room for another page, or for a leaf, must not wait for ever.

use aquifer_log::ReadError;
use aquifer_sys::SpinLock;

/// Passes of the writer in a row that fail before waits do.
const PASSES: u64 = 2;

struct Passes {
    /// All so far.
    count: u64,
    /// Of these, the last ones that wrote nothing although they should, and why.
    failed: u64,
    error: Option<ReadError>,
}

/// What the writer's last passes came to.
pub(super) struct Trouble(SpinLock<Passes>);

/// The wait of one fault for the writer.
#[derive(Default)]
pub(crate) struct WriterWait {
    /// Passes that there had been when it began.
    since: Option<u64>,
}

impl Trouble {
    pub(super) fn new() -> Self {
        Self(SpinLock::new(Passes { count: 0, failed: 0, error: None }))
    }

    /// A pass ended; with an error if a leaf could not be read and nothing at all was written.
    pub(super) fn note_pass(&self, error: Option<ReadError>) {
        let mut passes = self.0.lock();
        passes.count += 1;
        passes.failed = if error.is_some() { passes.failed + 1 } else { 0 };
        passes.error = error;
    }

    /// Why the writer wrote nothing in the passes that began during this wait; `None` while there is hope.
    pub(super) fn since_in_fault(&self, wait: &mut WriterWait) -> Option<ReadError> {
        let passes = self.0.lock();
        let since = *wait.since.get_or_insert(passes.count);
        // One pass may have been under way when the wait began.
        passes.error.filter(|_| passes.failed.min(passes.count - since) > PASSES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_base::LogAddress;
    use aquifer_log::{Kind, RecordId};

    #[test]
    fn waits_end_when_whole_passes_have_failed() {
        let wanted = RecordId { kind: Kind::Leaf, number: 1 };
        let error = Some(ReadError::Mismatch { address: LogAddress(1), wanted });
        let trouble = Trouble::new();
        (0..9).for_each(|_| trouble.note_pass(error));
        let mut wait = WriterWait::default();
        for pass in 0..=PASSES {
            assert_eq!(trouble.since_in_fault(&mut wait), None, "after {pass} passes");
            trouble.note_pass(error);
        }
        assert_eq!(trouble.since_in_fault(&mut wait), error);
        trouble.note_pass(None);
        assert_eq!(trouble.since_in_fault(&mut wait), None, "something was written");
        trouble.note_pass(error);
        assert_eq!(trouble.since_in_fault(&mut wait), None);
    }
}
