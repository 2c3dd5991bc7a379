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

impl Engine {
    /// Resolves a fault; where no memory is allocated, `is_over` tells whether the fault may be over.
    fn deliver_in_fault(
        &self,
        address: usize,
        write: bool,
        is_over: impl FnOnce() -> bool,
    ) -> Option<Resolved> {
        let page = self.page_at(address)?;
        let _pass = self.gates.pass_in_fault();
        if self.pages.closed.has(page) {
            return None;
        }
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
            Err(FaultError::NotAllocated(page)) if self.pages.closed.has(page) => return None,
            Err(FaultError::NotAllocated(_)) if is_over() => Resolved::Again,
            Err(error) => {
                report_in_fault(&error);
                Resolved::Failed
            }
        })
    }
}

impl FaultTarget for Engine {
    fn resolve_in_fault(&self, address: usize, write: bool) -> Option<Resolved> {
        self.deliver_in_fault(address, write, || false)
    }
}

impl FaultSource for Engine {
    fn wait_for_faults(&self, stop: i32) -> Result<Ready, Errno> {
        self.pages.mapping.wait_for_faults(stop)
    }

    fn next_event(&self) -> Result<Option<Event>, Errno> {
        self.pages.mapping.next_event()
    }

    fn frees(&self) -> u64 {
        self.pages.backing.taken_back()
    }

    fn resolve_read_in_fault(&self, address: usize, write: bool, frees: u64) -> Option<Resolved> {
        self.deliver_in_fault(address, write, || self.frees() != frees)
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
        self.pause();
        // Without this the child finds the region unmapped, and does without.
        self.pages.mapping.show_to_children(true)?;
        self.log().keep_for(is_over);
        Ok(())
    }

    fn go_on(&self) {
        self.gates.go_on();
    }

    fn pause(&self) {
        self.gates.pause();
        self.log().device().before_fork();
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
        self.gates.go_on_in_child();
        self.snapshot.begin(&self.pages)
    }
}

#[cfg(test)]
mod tests {
    use aquifer_base::{AllocationClass, LeafId};

    use super::*;
    use crate::leave::tests::engine_of;

    /// Thread A sleeps for a page, its fault is read, somebody else brings the page in, A goes on and frees what it touched.
    #[test]
    fn a_fault_that_is_over_ends_nothing() {
        let (leaf, bytes) = (LeafId(0), 640);
        let Some(engine) = engine_of(bytes) else { return };
        let address = engine.address_of(leaf.page(0)) as usize;
        engine.give_out_leaf(leaf, bytes, AllocationClass::DEFAULT);
        let frees = engine.frees();
        engine.take_back_leaf(leaf).expect("nothing of it is on flash");
        assert_eq!(engine.resolve_read_in_fault(address, false, frees), Some(Resolved::Again));
        // The page is freed: a further access is the program's error.
        assert_eq!(engine.resolve_read_in_fault(address, false, engine.frees()), Some(Resolved::Failed));
    }
}
