//! The program whose memory a heap manages, as far as the heap must know of it.

use std::sync::Arc;

use aquifer_vm::Strain;

use super::PageHeap;

/// What a heap asks a program.
pub trait Program: Send + Sync {
    /// RAM that it uses beside blocks and that counts for the same budget. It is given the bytes of RAM that blocks have, and asked as these grow,
    /// where it may allocate nothing: the memory becomes a heap's earlier, and the heap has less, a half at most.
    fn outside_bytes(&self, block_bytes: u64) -> u64;

    /// Visits address and length of the buffers of system calls that are under way, but were not announced by [`PageHeap::begin_call`]. When the memory
    /// becomes a heap's, those stay in RAM for good, an eighth of it at most.
    fn for_each_call(&self, _visit: &mut dyn FnMut(usize, usize)) {}

    /// What uses memory of the program in a way that raises no fault here; the memory does not become a heap's then, and none beyond the RAM is given.
    fn use_without_faults(&self) -> Option<&'static str> {
        None
    }

    /// RAM that the heap keeps whatever the program itself and others in its memory cgroup take, bytes.
    fn ram_bytes_min(&self) -> u64 {
        0
    }

    /// It has waited for flash longer than it has run for a while, with a heap that has a budget. Told once, by a thread of the heap.
    fn strained(&self, _strain: &Strain) {}
}

impl PageHeap {
    /// The blocks are this program's.
    pub fn serve(&mut self, program: Arc<dyn Program>) {
        self.program = Some(program);
    }
}
