//! How faults and forks reach an engine.

use aquifer_sys::{Errno, Event, Ready};

use super::Engine;
use crate::error::FaultError;
use crate::fault::report_in_fault;
use crate::fault::signal::{FaultTarget, Resolved};
use crate::fault::thread::FaultSource;
use crate::fill::Access;
use crate::fork::ForkTarget;
use crate::{touch, waits};

impl FaultTarget for Engine {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Resolved> {
        let page = self.page_at(address)?;
        let _pass = self.gates.pass_in_fault();
        let outcome = if self.is_snapshot() {
            self.snapshot.resolve_in_fault(&self.pages, page, write)
        } else {
            touch::resolve_in_fault(&self.pages, page, Access::of(write))
        };
        Some(match outcome {
            Ok(found) => Resolved::Found(found),
            Err(FaultError::Again { page, reason }) => {
                waits::note_again_in_fault(&self.pages, page, address, reason);
                Resolved::Again
            }
            Err(error) => {
                report_in_fault(&error);
                Resolved::Failed
            }
        })
    }
}

impl FaultSource for Engine {
    fn wait_for_faults(&self, stop: i32) -> Result<Ready, Errno> {
        self.pages.mapping.wait_for_faults(stop)
    }

    fn next_event(&self) -> Result<Option<Event>, Errno> {
        self.pages.mapping.next_event()
    }

    fn wake_in_fault(&self, address: usize) -> Result<(), Errno> {
        self.page_at(address).map_or(Ok(()), |page| self.pages.mapping.wake_in_fault(page))
    }
}

impl ForkTarget for Engine {
    fn range(&self) -> (*mut u8, usize) {
        (self.base(), self.region_bytes())
    }

    fn before_fork(&self, is_over: Box<dyn Fn() -> bool + Send + Sync>) -> Result<(), Errno> {
        self.pages.mapping.expect_children();
        self.gates.pause();
        self.log().device().before_fork();
        // Without this the child finds the region unmapped, and does without.
        self.pages.mapping.show_to_children(true)?;
        self.log().keep_for(is_over);
        Ok(())
    }

    fn in_parent(&self) -> Result<(), Errno> {
        // A snapshot of a snapshot goes on being one.
        let hidden = if self.is_snapshot() { Ok(()) } else { self.pages.mapping.show_to_children(false) };
        self.gates.go_on();
        hidden
    }

    fn in_child(&self) {
        self.log().device().in_child();
    }

    fn become_snapshot(&self) -> bool {
        self.gates.go_on_in_child() && self.snapshot.begin(&self.pages)
    }
}
