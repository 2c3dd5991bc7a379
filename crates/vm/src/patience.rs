//! Waits that neither last in silence nor keep a process from ending.
//!
//! A fault waits in a signal handler, with signals blocked. So it waits for a moment only, and then lets its instruction run again: signals
//! that came meanwhile are handled first, SIGTERM ends the process, and the instruction faults once more. A wait that goes on is told of
//! (`waits`).

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::Backoff;

use crate::backing::WriterWait;
use crate::error::{FaultError, Reason};

/// A fault that waits longer comes again.
const MOMENT: Duration = Duration::from_millis(100);
/// Waits between two looks at the clock: a few milliseconds, when they have become long.
const WAITS_PER_LOOK: u32 = 32;
/// A call that waits longer for somebody who holds the page, or RAM, ends with an error.
const CALL: Duration = Duration::from_secs(2);

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

    /// Waits a little for RAM; `is_crowded` tells whether all of it is held.
    ///
    /// # Errors
    /// [`FaultError::Again`] when it was long enough. A call waits as long as some of the RAM is not held: flash may be slow.
    pub(crate) fn wait_for_room_in_fault(
        &mut self,
        page: PageId,
        is_crowded: impl FnOnce() -> bool,
    ) -> Result<(), FaultError> {
        self.wait_in_fault(page, Reason::Room).or_else(|again| {
            if !self.is_call || is_crowded() {
                return Err(again);
            }
            self.since = None;
            Ok(())
        })
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
