//! RAM that a heap shares with the process that it is in.

use super::Engine;
use crate::budget::ProcessRam;

impl Engine {
    /// Leaves the process, from now on, what it takes of its RAM beside the heap.
    pub fn share_ram(&self, ram: ProcessRam) {
        let _ = self.pages.process_ram.set(ram);
        self.pages.backing.want_writer();
    }

    /// The RAM that is shared.
    pub fn process_ram(&self) -> Option<&ProcessRam> {
        self.pages.process_ram.get()
    }
}
