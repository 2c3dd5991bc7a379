//! Pages that wait for flash, which takes one write after the other when it is told to.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use aquifer_device::{Device, DeviceError, MemoryDevice};
use aquifer_remote::far::{FarDevice, PAGE_BYTES};

use crate::donors::{Donors, flash, mirror, read, write};

/// Flash whose writes wait for permission.
struct Gate {
    flash: Arc<MemoryDevice>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Writes that have begun, those that may end, and those that have.
    begun: u64,
    allowed: u64,
    ended: u64,
    syncs: u64,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate { flash: flash(), state: Mutex::default(), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn wait_while(&self, mut condition: impl FnMut(&State) -> bool) {
        drop(self.changed.wait_while(self.lock(), |state| condition(state)).expect("no panic"));
    }

    /// Waits until `writes` writes have begun.
    fn wait_for(&self, writes: u64) {
        self.wait_while(|state| state.begun < writes);
    }

    /// Lets `writes` writes end, counted from the beginning.
    fn allow(&self, writes: u64) {
        self.lock().allowed = writes;
        self.changed.notify_all();
    }
}

impl Device for Gate {
    fn len_bytes(&self) -> u64 {
        self.flash.len_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.flash.block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.flash.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.lock();
        state.begun += 1;
        let nth = state.begun;
        drop(state);
        self.changed.notify_all();
        self.wait_while(|state| state.allowed < nth);
        let outcome = self.flash.write_at(offset, buf);
        self.lock().ended += 1;
        outcome
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.lock().syncs += 1;
        self.flash.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let state = self.lock();
        assert_eq!(state.begun, state.ended, "a page on its way takes the room again");
        self.flash.discard(offset, len_bytes)
    }
}

/// A mirror that no donor lends a slab to.
fn alone(gate: &Arc<Gate>) -> FarDevice {
    let donors = Donors::new();
    donors.lends.store(false, Ordering::Relaxed);
    mirror(Arc::clone(gate) as Arc<dyn Device>, &donors)
}

#[test]
fn newer_bytes_are_kept_when_flash_has_older_ones() {
    let gate = Gate::new();
    let mirror = alone(&gate);
    write(&mirror, 3, 1);
    gate.wait_for(1);
    write(&mirror, 3, 2);
    assert_eq!(read(&mirror, 3), 2);
    gate.allow(1);
    gate.wait_for(2);
    assert_eq!(read(&mirror, 3), 2, "flash has the first ones alone");
    gate.allow(2);
    mirror.sync().expect("sync");
    assert_eq!(read(&mirror, 3), 2);
}

#[test]
fn a_sync_is_one_of_flash() {
    let gate = Gate::new();
    let mirror = alone(&gate);
    gate.allow(u64::MAX);
    write(&mirror, 3, 1);
    let before = gate.lock().syncs;
    mirror.sync().expect("sync");
    assert_eq!(gate.lock().syncs, before + 1);
}

#[test]
fn a_discard_waits_for_what_is_on_its_way_to_flash() {
    let gate = Gate::new();
    let mirror = alone(&gate);
    write(&mirror, 3, 1);
    gate.wait_for(1);
    std::thread::scope(|scope| {
        let discarding = scope.spawn(|| mirror.discard(3 * PAGE_BYTES as u64, PAGE_BYTES as u64));
        // Time for a discard that does not wait.
        std::thread::sleep(Duration::from_millis(50));
        gate.allow(u64::MAX);
        discarding.join().expect("no panic").expect("discard");
    });
}
