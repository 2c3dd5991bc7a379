//! Ordinary memory becomes a heap's: a transaction. Until the region is taken over, an error leaves all as it was; after that, pages
//! that could not be captured stay where they are.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_heap::HeapError;
use aquifer_sys::descriptors::StandardNumbers;
use aquifer_sys::helper::{self, Helper};
use aquifer_sys::process::keep_memory_of_self;
use aquifer_sys::{ErrnoGuard, SignalsBlocked};
use aquifer_vm::ProcessRam;

use super::{Managed, PageHeap, Protected, ProtectedRange};
use crate::assembly::Assembly;
use crate::error::Error;
use crate::group::Groups;
use crate::options::Options;
use crate::stats;

/// At most one part in `OUTSIDE_PART` of the RAM is deducted for memory outside blocks; a heap gets
/// `RAM_BYTES_MIN` at least.
const OUTSIDE_PART: u64 = 2;
const RAM_BYTES_MIN: u64 = 16 << 20;
/// The process is first looked at when blocks take one part in `FIRST_LOOK_PART` of what they may. Each next
/// look is half-way to the limit, but not before blocks have grown by one part in `NEXT_LOOK_PART`.
const FIRST_LOOK_PART: u64 = 4;
const NEXT_LOOK_PART: u64 = 64;
/// The memory becomes a heap's when blocks and memory outside them take more than this share of the RAM.
const TOGETHER_PERCENT: u64 = 97;
/// Buffers of calls that were found under way may keep one part in `FOUND_PART` of the native pages pinned.
const FOUND_PART: u64 = 8;

impl PageHeap {
    /// Makes the threads that a heap needs, asleep: for a program that may exceed its RAM where no threads can be made, such as in a
    /// malloc of its own.
    ///
    /// # Errors
    /// There is no room for threads. The memory stays ordinary then, and no more of it is given than fits in RAM.
    pub fn prepare_threads(&self) -> Result<(), Error> {
        // One more takes over.
        let count = Assembly::threads(&self.options) + usize::from(self.options.socket.is_some()) + 1;
        let what = || "threads could not be made".into();
        helper::prepare(count).map_err(|errno| {
            self.is_refused.store(true, Ordering::Relaxed);
            Error::System { what: what(), error: std::io::Error::from_raw_os_error(errno.0) }
        })?;
        // Without them batches are slower.
        let _ = helper::prepare_spare(Assembly::spare_threads(&self.options));
        Ok(())
    }

    /// Opens the heap if blocks exceed the RAM for ordinary memory. An open one whose flash takes nothing any more gives no more than
    /// that: using it could only end in SIGBUS.
    pub(super) fn overflow(&self) -> Result<(), Error> {
        if let Some(managed) = self.managed.get() {
            if managed.parts.engine.has_natives() {
                self.capture_rest()?;
            }
            return self.check_room(managed);
        }
        self.look_beside();
        let fits = || self.fits_ram() || self.is_managed();
        self.cool(fits)?;
        if fits() {
            return Ok(());
        }
        let opened = self.become_managed();
        // What was kept meanwhile is the heap's to give back.
        self.cool(|| false).and(opened)?;
        self.managed.get().map_or(Ok(()), |managed| self.check_room(managed))
    }

    /// Whether blocks have room in RAM, or flash takes what has none.
    fn check_room(&self, managed: &Managed) -> Result<(), Error> {
        if self.fits_ram() {
            return Ok(());
        }
        Ok(managed.parts.engine.check_writable().map_err(HeapError::Fault)?)
    }

    fn fits_ram(&self) -> bool {
        self.pages.load(Ordering::Relaxed) <= self.native_pages.load(Ordering::Relaxed)
    }

    /// Looks at what the process has beside blocks, now and then as these grow: together they are to fit.
    fn look_beside(&self) {
        let Some(ram) = self.options.ram_bytes.filter(|_| self.program.is_some()) else { return };
        let (most, pages) = (self.native_pages_max, self.pages.load(Ordering::Relaxed));
        if pages < self.next_look_pages.load(Ordering::Relaxed).max(most / FIRST_LOOK_PART) {
            return;
        }
        let _errno = ErrnoGuard::new();
        let beside = self.bytes_beside() / OS_PAGE_BYTES as u64;
        let all = ram / 100 * TOGETHER_PERCENT / OS_PAGE_BYTES as u64;
        let limit = all.saturating_sub(beside).clamp(most / 2, most);
        self.native_pages.store(limit, Ordering::Relaxed);
        let next = pages + (limit.saturating_sub(pages) / 2).max(most / NEXT_LOOK_PART);
        self.next_look_pages.store(next, Ordering::Relaxed);
    }

    /// RAM of the process beside blocks.
    fn bytes_beside(&self) -> u64 {
        let mut blocks = 0;
        self.for_each_used(&mut |(first, count)| blocks += self.region.pages_in_ram(first, count));
        self.program.as_ref().map_or(0, |program| program.outside_bytes(blocks * OS_PAGE_BYTES as u64))
    }

    fn become_managed(&self) -> Result<(), Error> {
        // A handler that came now could make a system call that waits for this thread.
        let _signals = SignalsBlocked::new();
        let _becoming = self.becoming_managed.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_managed() {
            return Ok(());
        }
        let here = 0u8;
        let (base, bytes) = self.range();
        if (base..base + bytes).contains(&(&raw const here).addr()) {
            // The takeover would remove the pages of its own stack. The caller may try again on another
            // stack.
            return Err(Error::Stack);
        }
        let in_use = self.program.as_ref().and_then(|program| program.use_without_faults());
        in_use.map_or(Ok(()), |what| Err(Error::InUse(what)))?;
        self.is_taken_over.store(true, Ordering::SeqCst);
        // What the C library allocates on the way is its own. The stack of a thread may be small.
        let opened = helper::as_helper(|| Helper::run(c"aquifer-take", || self.open()));
        let opened = opened.unwrap_or_else(|errno| {
            let error = std::io::Error::from_raw_os_error(errno.0);
            Err(Error::System { what: "no thread could be made to take over the memory".into(), error })
        });
        self.is_taken_over.store(false, Ordering::SeqCst);
        opened.inspect_err(|_| self.is_refused.store(true, Ordering::Relaxed))
    }

    /// Makes the heap's what could not be when it took over.
    #[cold]
    fn capture_rest(&self) -> Result<(), Error> {
        let _becoming = self.becoming_managed.write().unwrap_or_else(PoisonError::into_inner);
        match self.managed.get() {
            Some(managed) => Ok(managed.parts.engine.capture_rest().map_err(HeapError::Fault)?),
            None => Ok(()),
        }
    }

    /// Pins the buffers of the system calls that are under way.
    fn pin_announced(&self, parts: &Assembly) {
        let mut pin = |address, bytes| {
            let (first, count) = self.pages_of(address, bytes);
            parts.engine.pin_native(first, count).is_ok()
        };
        let mut unpin = |address, bytes| {
            let (first, count) = self.pages_of(address, bytes);
            let _ = parts.engine.unpin(first, count);
        };
        self.announced.pin_each(&mut pin, &mut unpin);
        let (base, bytes) = self.range();
        let mut room = self.native_pages_max / FOUND_PART;
        let Some(program) = &self.program else { return };
        program.for_each_call(&mut |start, length| {
            let (start, end) = (start.max(base), start.saturating_add(length).min(base + bytes));
            let (first, count) = if start < end { self.pages_of(start, end - start) } else { return };
            if count <= room && parts.engine.pin_native(first, count).is_ok() {
                room -= count;
            }
        });
    }

    /// Runs `grow`, which may make the memory a heap's, while no thread can change the protection of
    /// `ranges`. Ranges that can be pinned are pinned with their protection, so other threads never see a
    /// page accessible that is not. If they are too many to pin, `open` makes them accessible: a page must be
    /// readable to leave its address.
    pub fn while_protected<T>(
        &self,
        ranges: Vec<ProtectedRange>,
        open: fn(&ProtectedRange),
        grow: impl FnOnce() -> T,
    ) -> (T, Vec<ProtectedRange>) {
        let protected = || self.protected.lock().unwrap_or_else(PoisonError::into_inner);
        *protected() = Protected { ranges, open };
        let grown = grow();
        (grown, std::mem::take(&mut protected().ranges))
    }

    fn pin_protected(&self, parts: &Assembly) {
        let Protected { ranges, open } = &mut *self.protected.lock().unwrap_or_else(PoisonError::into_inner);
        for range in ranges {
            let (first, count) = self.pages_of(range.start, range.end - range.start);
            range.is_pinned = parts.engine.pin(first, count).is_ok();
            if !range.is_pinned {
                open(range);
            }
        }
    }

    /// Pins what there was no room for while all the rest was in RAM: it can leave now.
    fn pin_opened(&self, parts: &Assembly) {
        let mut protected = self.protected.lock().unwrap_or_else(PoisonError::into_inner);
        for range in protected.ranges.iter_mut().filter(|range| !range.is_pinned) {
            let (first, count) = self.pages_of(range.start, range.end - range.start);
            range.is_pinned = parts.engine.pin(first, count).is_ok();
        }
    }

    /// The options, less what the program uses beside blocks, and the RAM of the process and of the heap.
    fn options_now(&self) -> (Options, Option<ProcessRam>) {
        let (Some(all), Some(program)) = (self.options.ram_bytes, self.program.clone()) else {
            return (self.options.clone(), None);
        };
        let outside = self.bytes_beside();
        let heap = (all - outside.min(all / OUTSIDE_PART)).max(all.min(RAM_BYTES_MIN));
        let groups = Groups::of_self();
        let ram = ProcessRam {
            all: all as usize,
            heap: heap as usize,
            least: program.ram_bytes_min().clamp(RAM_BYTES_MIN, heap.max(RAM_BYTES_MIN)) as usize,
            file: keep_memory_of_self(),
            group: Box::new(move || groups.tightest()),
            tell: Box::new(move |strain| program.strained(strain)),
        };
        (Options { ram_bytes: Some(heap), ..self.options.clone() }, Some(ram))
    }

    fn open(&self) -> Result<(), Error> {
        let _numbers = StandardNumbers::take();
        let (options, ram) = self.options_now();
        let parts = Arc::new(Assembly::over(&options, Some(self.region.clone()))?);
        self.announced.for_each(&mut |address, bytes| {
            let (first, count) = self.pages_of(address, bytes);
            // What cannot be written is present already, or the call would fail anyway.
            let _ = self.region.populate(first, count);
        });
        let refused = |errno| Error::Kernel { what: "to take over memory of the program", errno };
        parts.engine.take_over().map_err(refused)?;
        self.pin_announced(&parts);
        self.pin_protected(&parts);
        let mut taken = Vec::new();
        self.for_each_used(&mut |pages| taken.push(pages));
        let captured = parts.engine.capture(taken);
        self.pin_opened(&parts);
        if let Some(ram) = ram {
            parts.engine.share_ram(ram);
        }
        // The region is the heap's from here on. Pages that could not be captured are used where they are.
        let server = self.options.socket.as_deref().map(|path| stats::answer_at(path, &parts)).transpose();
        // The memory is the heap's by now; without a socket it only cannot be asked.
        let _ = self.managed.set(Managed { _server: server.ok().flatten(), parts });
        captured.map_err(|error| Error::Heap(HeapError::Fault(error)))
    }
}
