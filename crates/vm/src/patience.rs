//! Waits that neither last in silence nor keep a process from ending.
//!
//! A fault waits in a signal handler, with signals blocked. So it waits for a moment only, and then lets its instruction run again: signals
//! that came meanwhile are handled first, SIGTERM ends the process, and the instruction faults once more. Who has waited for
//! ten seconds in all says so on standard error, once.

use std::time::{Duration, Instant};

use aquifer_base::PageId;
use aquifer_sys::{Backoff, own, process};

use crate::engine::Engine;
use crate::error::FaultError;
use crate::trouble::WriterWait;

/// A fault that waits longer comes again.
const MOMENT: Duration = Duration::from_millis(100);
/// Waits between two looks at the clock: a few milliseconds, when they have become long.
const WAITS_PER_LOOK: u32 = 32;
/// A call that waits longer for somebody who holds the page, or RAM, ends with an error.
const CALL: Duration = Duration::from_secs(2);
/// A wait that lasts longer is told of.
const SILENCE: Duration = Duration::from_secs(10);
/// Waits of one thread that are further apart are not the same.
const GAP: Duration = Duration::from_secs(1);

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

impl Reason {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Moving => b": another thread is bringing the page in or taking it away\n",
            Self::Used => {
                b": a reference holds the page where it is in RAM (aq_deref, aq_begin_use); end it in the thread that has it\n"
            }
            Self::Room => {
                b": all RAM is in use by references and pins, or waits for flash; end some, or give the heap more RAM\n"
            }
        }
    }
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

/// Notes that a fault at `page` comes again, and tells of it if it has for long. The wait of a thread for a page goes over many faults.
pub(crate) fn note_again_in_fault(page: PageId, address: usize, reason: Reason) {
    let now_ns = process::monotonic_ns();
    let is_due = own::with(|wait| {
        let is_same = wait.page.get() == page.0 && now_ns - wait.last_ns.get() < GAP.as_nanos() as u64;
        if !is_same {
            wait.page.set(page.0);
            wait.began_ns.set(now_ns);
            wait.is_told.set(false);
        }
        wait.last_ns.set(now_ns);
        let is_silence = now_ns - wait.began_ns.get() >= SILENCE.as_nanos() as u64;
        is_silence && !wait.is_told.replace(true)
    });
    if is_due {
        tell_in_fault(address, reason);
    }
}

/// One line, by one write. No formatting: runs in fault handlers.
fn tell_in_fault(address: usize, reason: Reason) {
    const BEFORE: &[u8] = b"aquifer: thread ";
    let mut line = [0u8; 256];
    let mut len = 0;
    let mut add = |bytes: &[u8]| {
        line[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    add(BEFORE);
    add(digits(u64::from(process::thread_id()), 10, &mut [0; 20]));
    add(b" has waited 10 s for the memory at 0x");
    add(digits(address as u64, 16, &mut [0; 20]));
    add(reason.text());
    process::write_stderr(&line[..len]);
}

fn digits(mut number: u64, base: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
        if number == 0 {
            return &room[at..];
        }
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

    #[test]
    fn numbers_are_written_without_allocating() {
        for number in [0, 7, 10, 123_456_789, u64::MAX] {
            assert_eq!(digits(number, 10, &mut [0; 20]), number.to_string().as_bytes());
            assert_eq!(digits(number, 16, &mut [0; 20]), format!("{number:x}").as_bytes());
        }
    }

    #[test]
    fn the_longest_line_has_room() {
        for reason in [Reason::Moving, Reason::Used, Reason::Room] {
            assert!(16 + 20 + 36 + 20 + reason.text().len() <= 256);
        }
    }
}
