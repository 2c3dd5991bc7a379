//! Waits that neither last in silence nor keep a process from ending.
//!
//! A fault waits in a signal handler, with signals blocked. So it waits for a moment only, and then lets its instruction run again: signals
//! that came meanwhile are handled first, SIGTERM ends the process, and the instruction faults once more. A wait that goes on is told of
//! ([`waits`](crate::waits)).

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::Backoff;

use crate::engine::Engine;
use crate::error::FaultError;
use crate::trouble::WriterWait;

/// A fault that waits longer comes again.
const MOMENT: Duration = Duration::from_millis(100);
/// Waits between two looks at the clock: a few milliseconds, when they have become long.
const WAITS_PER_LOOK: u32 = 32;
/// A call that waits longer for somebody who holds the page, or RAM, ends with an error.
const CALL: Duration = Duration::from_secs(2);

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Another thread holds the page's entry: it brings the page in, or takes it away.
    Moving,
    /// The page is used in its slot, by a reference or a batch.
    Used,
    /// All RAM for pages of this size is held, or not written back yet.
    Room,
}

/// How long one fault or call may wait.
pub(crate) struct Patience {
    is_call: bool,
    since: Option<Instant>,
    waits: u32,
    backoff: Backoff,
    pub(crate) writer: WriterWait,
}

impl Patience {
    /// Of a fault.
    pub(crate) fn of_fault() -> Self {
        Self::new(false)
    }

    /// Of a call of the library, which can fail.
    pub(crate) fn of_call() -> Self {
        Self::new(true)
    }

    fn new(is_call: bool) -> Self {
        Self { is_call, since: None, waits: 0, backoff: Backoff::new(), writer: WriterWait::default() }
    }

    /// Waits a little, longer each time.
    ///
    /// # Errors
    /// [`FaultError::Again`] when it was long enough. A call waits for a page that moves however long that takes: a device may be slow.
    pub(crate) fn wait_in_fault(&mut self, page: PageId, reason: Reason) -> Result<(), FaultError> {
        self.backoff.wait();
        // Most waits are over before the clock is worth a look.
        self.waits = self.waits.wrapping_add(1);
        if !self.waits.is_multiple_of(WAITS_PER_LOOK) {
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let limit = if self.is_call { CALL } else { MOMENT };
        let is_patient = self.is_call && reason == Reason::Moving || since.elapsed() < limit;
        if is_patient { Ok(()) } else { Err(FaultError::Again { page, reason }) }
    }
}

impl Engine {
    /// Waits a little for RAM.
    ///
    /// # Errors
    /// [`FaultError::Again`] when it was long enough. A call waits as long as some of the RAM is not held: flash may be slow.
    pub(crate) fn wait_for_room_in_fault(
        &self,
        page: PageId,
        patience: &mut Patience,
    ) -> Result<(), FaultError> {
        patience.wait_in_fault(page, Reason::Room).or_else(|again| {
            if !patience.is_call || self.is_crowded(page) {
                return Err(again);
            }
            patience.since = None;
            Ok(())
        })
    }

    /// Whether all slots for pages like this one are held by references and pins. Looks at all slots.
    fn is_crowded(&self, page: PageId) -> bool {
        let class = self.size_of(page.leaf()).map(|size| size.class);
        let mut is_free = false;
        self.cache.for_each(&mut |_, owner| {
            let is_like = self.size_of(owner.leaf()).map(|size| size.class) == class;
            is_free |= is_like && self.entries.find(owner).is_some_and(|entry| !entry.is_pinned());
        });
        !is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        for (mut patience, reason) in
            [(Patience::of_fault(), Reason::Moving), (Patience::of_call(), Reason::Used)]
        {
            let page = PageId(7);
            let error = std::iter::repeat_with(|| patience.wait_in_fault(page, reason)).find_map(Result::err);
            assert_eq!(error, Some(FaultError::Again { page, reason }));
        }
    }
}
