//! The file of samples in memory, shared with the command and with other processes of the program.
//!
//! Memory of a file may be refused when it is touched first, by a signal that a fault handler would not survive: a device
//! is full. The command has written all that is in front of the slots, and slots are written by a call that returns an error.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aquifer_base::random::mix;
use aquifer_base::samples::{
    EMPTY, FAULTS_AT, FULL, Layout, MODULES_BYTES, MODULES_USED_AT, PROGRAMS_AT, SLOT_BYTES, SampleHead,
    WRITING,
};

const PAGE_BYTES: usize = 4096;
/// Pieces of a stack of [`SLOT_BYTES`] that do not cross pages.
const PIECES_MAX: usize = SLOT_BYTES / PAGE_BYTES + 1;

/// The mapped file. It stays mapped.
pub struct Reservoir {
    base: *mut u8,
    layout: Layout,
    seed: u64,
}

// SAFETY: shared words are atomic; a slot or bytes belong to the thread that has set the slot's state or
// reserved the bytes.
unsafe impl Send for Reservoir {}
// SAFETY: the same.
unsafe impl Sync for Reservoir {}

/// A slot that is this thread's until it is written.
pub struct Slot<'a> {
    state: &'a AtomicU32,
    bytes: *mut u8,
}

impl Reservoir {
    /// Maps a file of at least the layout's size.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(fd: i32, layout: Layout, seed: u64) -> std::io::Result<Self> {
        let (len, access) = (layout.file_bytes(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: new memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), layout, seed })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: offsets of the layout are within the mapping and multiples of the size.
        unsafe { AtomicU32::from_ptr(self.base.add(at).cast()) }
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// One more program takes samples.
    pub fn count_program(&self) {
        self.word(PROGRAMS_AT).fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything was noted.
    pub fn has_faults(&self) -> bool {
        self.long(FAULTS_AT).load(Ordering::Relaxed) > 0
    }

    /// Counts a fault. Returns the slot that its sample belongs in, if it is to have one: of n faults so far, each has the
    /// same chance, the number of slots to n. So the cost vanishes as faults become many.
    pub fn choose_in_fault(&self) -> Option<Slot<'_>> {
        let before = self.long(FAULTS_AT).fetch_add(1, Ordering::Relaxed);
        let slot = match u32::try_from(before) {
            Ok(slot) if slot < self.layout.slots() => slot,
            _ => {
                let scaled = u128::from(mix(self.seed.wrapping_add(before))) * (u128::from(before) + 1);
                u32::try_from(scaled >> u64::BITS).ok().filter(|slot| *slot < self.layout.slots())?
            }
        };
        let state = self.word(self.layout.state_at(slot));
        let now = state.load(Ordering::Relaxed);
        let is_free = now != WRITING
            && state.compare_exchange(now, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // SAFETY: the slot is within the mapping.
        is_free.then(|| Slot { state, bytes: unsafe { self.base.add(self.layout.slot_at(slot)) } })
    }

    /// Room for `len` bytes among the modules, if there is some.
    pub fn module_room_in_fault(&self, len: usize) -> Option<*mut u8> {
        let used = self.long(MODULES_USED_AT);
        let add = |used: u64| used.checked_add(len as u64).filter(|end| *end <= MODULES_BYTES as u64);
        let at = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        // SAFETY: the modules have that many bytes.
        Some(unsafe { self.base.add(self.layout.modules_at() + at as usize) })
    }
}

impl Slot<'_> {
    /// Fills the slot with the head, and with the stack as far as it can be read.
    ///
    /// The kernel copies, because only it can find out where the stack ends: at a page that cannot be read.
    pub fn write_in_fault(self, head: &SampleHead) {
        let encoded = head.encode();
        let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 1 + PIECES_MAX];
        pieces[0] = libc::iovec { iov_base: encoded.as_ptr().cast_mut().cast(), iov_len: encoded.len() };
        let mut count = 1;
        let mut at = head.sp as usize;
        let end = at.saturating_add(SLOT_BYTES - SampleHead::BYTES);
        while at < end && count < pieces.len() {
            let len = (PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            pieces[count] = libc::iovec { iov_base: at as *mut _, iov_len: len };
            count += 1;
            at += len;
        }
        let room = libc::iovec { iov_base: self.bytes.cast(), iov_len: SLOT_BYTES };
        // SAFETY: the slot is this thread's; whatever cannot be read or written is left out.
        let copied = unsafe {
            let own = libc::getpid() as usize;
            libc::syscall(
                libc::SYS_process_vm_readv,
                own,
                &raw const room,
                1usize,
                pieces.as_ptr(),
                count,
                0usize,
            )
        };
        let stack = usize::try_from(copied).ok().and_then(|copied| copied.checked_sub(SampleHead::BYTES));
        if let Some(stack) = stack {
            // SAFETY: within the slot, whose first bytes the kernel has just written.
            unsafe { self.bytes.add(SampleHead::STACK_BYTES_AT).cast::<u32>().write(stack as u32) };
        }
        self.state.store(if stack.is_some() { FULL } else { EMPTY }, Ordering::Release);
    }
}
