//! Many objects at once: one thread, the whole device.

use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use aquifer_heap::HeapError;
pub use aquifer_vm::batch::Transfer;

use aquifer_vm::batch::Part;
use aquifer_vm::fork;

use crate::error::Error;
use crate::heap::Heap;

/// Bytes of a heap, and the program's memory that they are copied to or from.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// An address in the heap, also within an object.
    pub address: usize,
    /// The program's memory.
    pub memory: *mut u8,
    /// How many bytes.
    pub bytes: usize,
}

impl Heap {
    /// Copies objects to memory of the program, or memory to objects: what is not in RAM is read with many reads under
    /// way at once, in the order of addresses, and each page once. Of an object that is written twice the later item is left.
    ///
    /// The memory may be this heap's or another's, at the price of a copy of it: all of it is read before anything is written.
    ///
    /// # Safety
    /// The memory of each item has its bytes, for reading or writing, and nobody else changes them meanwhile.
    ///
    /// # Errors
    /// [`Error::Heap`] if an address is not this heap's, an object is too short, or one cannot be read; some of the items may have
    /// been copied.
    pub unsafe fn transfer(&self, items: &mut dyn Iterator<Item = Item>, how: Transfer) -> Result<(), Error> {
        let writes = how == Transfer::Write;
        let mut parts: Vec<Part> = Vec::new();
        // While a page is in use nobody may touch the heap's memory: it waits for the use to end. And memory of another heap may wait for somebody
        // who uses that, and waits for this one.
        let mut inside: Vec<(*mut u8, Vec<u8>)> = Vec::new();
        for item in items {
            let mut memory = item.memory;
            if item.bytes > 0 && fork::is_in_a_region(memory as usize) {
                let mut copy = vec![0; item.bytes];
                if writes {
                    // SAFETY: the caller says that the memory has these bytes, and the copy is new.
                    unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(memory, item.bytes) };
                }
                memory = copy.as_mut_ptr();
                inside.push((item.memory, copy));
            }
            self.parts_of(item.address, item.bytes, memory, &mut parts)?;
        }
        // SAFETY: the caller answers for its memory, and the copies are as long.
        unsafe { self.engine()?.transfer(&mut parts, how) }.map_err(HeapError::Pin)?;
        for (memory, copy) in inside.iter().filter(|_| !writes) {
            // SAFETY: the caller says that the memory has these bytes, and may be written to.
            unsafe { memory.copy_from_nonoverlapping(copy.as_ptr(), copy.len()) };
        }
        Ok(())
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` on the thread for batches, after those that were given before: one after another, as each keeps the device busy by itself.
///
/// # Errors
/// [`Error::System`] if there can be no thread, [`Error::Forked`] in a child, whose parent has it.
pub fn run_in_background(job: Job) -> Result<(), Error> {
    if fork::is_forked() {
        return Err(Error::Forked);
    }
    static WORKER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    if WORKER.get().is_none() {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("aquifer-batch".into())
            .spawn(move || jobs.iter().for_each(|job| job()))
            .map_err(|error| Error::System { what: "no thread for batches".into(), error })?;
        // Of two that were first, one thread ends at once.
        let _ = WORKER.set(Mutex::new(sender));
    }
    let worker = WORKER.get().expect("set above").lock().unwrap_or_else(PoisonError::into_inner);
    worker.send(job).map_err(|_| Error::Invalid("the thread for batches has ended".into()))
}
