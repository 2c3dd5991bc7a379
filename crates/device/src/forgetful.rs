//! A device with a cache that a power cut forgets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_base::random::Random;

use crate::bounds::Bounds;
use crate::device::Device;
use crate::error::{DeviceError, Operation};
use crate::memory::DISCARDED;

/// A device in memory, zeros at first, whose writes go to a cache until [`sync`](Device::sync).
///
/// Reads see the cache. A program that is killed loses nothing of it: [`revive`](Self::revive). When the power goes,
/// any of the blocks that were written since the last sync are lost, whatever their order was:
/// [`restore_power`](Self::restore_power). A block is old or new, never a mixture.
///
/// # Context
/// Locks and allocates: not for fault handlers.
#[derive(Debug)]
pub struct Forgetful {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    durable: Vec<u8>,
    now: Vec<u8>,
    /// Writes since the last sync, in their order.
    unsynced: Vec<Write>,
    /// Operations until the power goes.
    left: Option<u64>,
    is_cut: bool,
    /// Operations since the device was made.
    operations: u64,
}

#[derive(Clone, Debug)]
struct Write {
    offset: u64,
    bytes: Box<[u8]>,
}

/// What is left, after a power cut, of the writes since the last sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// This many, from the first.
    First(usize),
    /// This many, from the last: they overtook the others.
    Last(usize),
    /// Some, by this seed: blocks of all writes, or writes from the first or last on with one of them torn.
    Some(u64),
}

impl Forgetful {
    /// A device of `len_bytes` bytes in blocks of `block_bytes`, each of which is lost for itself.
    ///
    /// # Panics
    /// When `block_bytes` is neither 512 nor 4096, or `len_bytes` is not a positive multiple of it.
    #[must_use]
    pub fn new(len_bytes: u64, block_bytes: usize) -> Self {
        let bounds = Bounds::of_memory(len_bytes, block_bytes);
        let zeros = vec![0; len_bytes as usize];
        let (unsynced, left, is_cut, operations) = (Vec::new(), None, false, 0);
        let state = State { durable: zeros.clone(), now: zeros, unsynced, left, is_cut, operations };
        Forgetful { bounds, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power at the operation after `operations` more of them: writes, syncs and discards. That one fails, of
    /// its bytes any may be kept; all later ones, and reads, fail without a trace.
    pub fn cut_after(&self, operations: u64) {
        self.lock().left = Some(operations);
    }

    /// Whether the power has gone.
    pub fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Writes, syncs and discards since the device was made.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Writes since the last sync.
    pub fn unsynced(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// First byte of the last write since the last sync that begins at `offset` or behind.
    pub fn unsynced_behind(&self, offset: u64) -> Option<u64> {
        self.lock().unsynced.iter().map(|write| write.offset).rfind(|&at| at >= offset)
    }

    /// The power has never gone: the program was killed in place of it, and the cache has everything.
    pub fn revive(&self) {
        let mut state = self.lock();
        (state.left, state.is_cut) = (None, false);
    }

    /// The power comes back, after a cut or unexpectedly: the cache is empty.
    pub fn restore_power(&self, kept: Kept) {
        let block_bytes = self.bounds.block_bytes;
        let mut state = self.lock();
        let state = &mut *state;
        let unsynced = std::mem::take(&mut state.unsynced);
        let mut lands = landing(kept, unsynced.len());
        for (nth, write) in unsynced.iter().enumerate() {
            for (block, bytes) in write.bytes.chunks_exact(block_bytes).enumerate() {
                if lands(nth) {
                    let at = write.offset as usize + block * block_bytes;
                    state.durable[at..at + block_bytes].copy_from_slice(bytes);
                }
            }
        }
        // Elsewhere both are the same.
        for write in &unsynced {
            let range = write.offset as usize..write.offset as usize + write.bytes.len();
            state.now[range.clone()].copy_from_slice(&state.durable[range]);
        }
        (state.left, state.is_cut) = (None, false);
    }

    /// A device with the same bytes, the same of which are durable.
    #[must_use]
    pub fn copy(&self) -> Self {
        Forgetful { bounds: self.bounds, state: Mutex::new(self.lock().clone()) }
    }
}

/// Whether the next block of a write lands, when there are `writes` of them.
fn landing(kept: Kept, writes: usize) -> Box<dyn FnMut(usize) -> bool> {
    match kept {
        Kept::Nothing => Box::new(|_| false),
        Kept::Everything => Box::new(|_| true),
        Kept::First(count) => Box::new(move |nth| nth < count),
        Kept::Last(count) => Box::new(move |nth| nth + count >= writes),
        Kept::Some(seed) => {
            let mut dice = Random::new(seed);
            let (how, quarters) = (dice.below(4), dice.below(5));
            let torn = dice.below(writes as u64 + 1) as usize;
            let mut is_kept = move || dice.below(4) < quarters;
            match how {
                0 => Box::new(move |nth| nth < torn || (nth == torn && is_kept())),
                1 => Box::new(move |nth| nth > torn || (nth == torn && is_kept())),
                _ => Box::new(move |_| is_kept()),
            }
        }
    }
}

impl State {
    /// Counts an operation; `false` for that in which the power goes.
    ///
    /// # Errors
    /// The power has gone before.
    fn spend(&mut self, operation: Operation, offset: u64, len_bytes: usize) -> Result<bool, DeviceError> {
        if self.is_cut {
            return Err(no_power(operation, offset, len_bytes));
        }
        self.operations += 1;
        if let Some(left) = &mut self.left {
            self.is_cut = *left == 0;
            *left = left.saturating_sub(1);
        }
        Ok(!self.is_cut)
    }

    fn write(&mut self, operation: Operation, offset: u64, bytes: Box<[u8]>) -> Result<(), DeviceError> {
        let len_bytes = bytes.len();
        let has_power = self.spend(operation, offset, len_bytes)?;
        if len_bytes > 0 {
            self.now[offset as usize..][..len_bytes].copy_from_slice(&bytes);
            self.unsynced.push(Write { offset, bytes });
        }
        if has_power { Ok(()) } else { Err(no_power(operation, offset, len_bytes)) }
    }
}

fn no_power(operation: Operation, offset: u64, len_bytes: usize) -> DeviceError {
    DeviceError::Io { operation, offset, len_bytes, errno: libc::EIO }
}

impl Device for Forgetful {
    fn len_bytes(&self) -> u64 {
        self.bounds.device_bytes
    }

    fn block_bytes(&self) -> usize {
        self.bounds.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        let state = self.lock();
        if state.is_cut {
            return Err(no_power(Operation::Read, offset, buf.len()));
        }
        buf.copy_from_slice(&state.now[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.bounds.check_transfer(offset, buf)?;
        self.lock().write(Operation::Write, offset, buf.into())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let state = &mut *state;
        if !state.spend(Operation::Sync, 0, 0)? {
            return Err(no_power(Operation::Sync, 0, 0));
        }
        for write in state.unsynced.drain(..) {
            state.durable[write.offset as usize..][..write.bytes.len()].copy_from_slice(&write.bytes);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.bounds.check_range(offset, len_bytes)?;
        let bytes = vec![DISCARDED; len_bytes as usize].into_boxed_slice();
        self.lock().write(Operation::Discard, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;

    const BLOCK: usize = 512;

    fn write(device: &Forgetful, block: u64, blocks: usize, byte: u8) -> Result<(), DeviceError> {
        let mut buffer = AlignedBuffer::new(blocks * BLOCK);
        buffer.fill(byte);
        device.write_at(block * BLOCK as u64, &buffer)
    }

    /// The first byte of each of the first `blocks` blocks.
    fn firsts(device: &Forgetful, blocks: usize) -> Vec<u8> {
        let mut buffer = AlignedBuffer::new(blocks * BLOCK);
        device.read_at(0, &mut buffer).expect("power");
        buffer.iter().step_by(BLOCK).copied().collect()
    }

    /// What the device holds after block 0 was synced as 1, then blocks 0, 1 and 0 written as 2, 3 and 4.
    fn after(kept: Kept) -> Vec<u8> {
        let device = Forgetful::new(4096, BLOCK);
        write(&device, 0, 1, 1).expect("power");
        device.sync().expect("power");
        for (block, byte) in [(0, 2), (1, 3), (0, 4)] {
            write(&device, block, 1, byte).expect("power");
        }
        assert_eq!(firsts(&device, 2), [4, 3]);
        device.restore_power(kept);
        firsts(&device, 2)
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_any_of_the_rest() {
        assert_eq!(after(Kept::Nothing), [1, 0]);
        assert_eq!(after(Kept::Everything), [4, 3]);
        assert_eq!(after(Kept::First(1)), [2, 0]);
        assert_eq!(after(Kept::Last(1)), [4, 0]);
        let mut seen: Vec<Vec<u8>> = (0..500).map(|seed| after(Kept::Some(seed))).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [[1, 0], [1, 3], [2, 0], [2, 3], [4, 0], [4, 3]]);
    }

    #[test]
    fn the_operation_in_which_the_power_goes_is_the_last() {
        let device = Forgetful::new(4096, BLOCK);
        device.cut_after(1);
        write(&device, 0, 1, 1).expect("power");
        write(&device, 1, 1, 2).expect_err("no power");
        write(&device, 2, 1, 3).expect_err("no power");
        device.sync().expect_err("no power");
        device.read_at(0, &mut AlignedBuffer::new(BLOCK)).expect_err("no power");
        assert!(device.is_cut());
        device.restore_power(Kept::Everything);
        assert_eq!(firsts(&device, 3), [1, 2, 0]);
    }

    #[test]
    fn a_killed_program_leaves_its_writes_where_a_later_cut_takes_them() {
        let device = Forgetful::new(4096, BLOCK);
        device.cut_after(1);
        write(&device, 0, 1, 1).expect("power");
        device.sync().expect_err("no power");
        device.revive();
        let copy = device.copy();
        assert_eq!((firsts(&device, 1), copy.unsynced()), (vec![1], 1));
        device.restore_power(Kept::Nothing);
        assert_eq!((firsts(&device, 1), firsts(&copy, 1)), (vec![0], vec![1]));
    }
}
