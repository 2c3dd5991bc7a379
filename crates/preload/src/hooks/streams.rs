//! Buffers of streams, in a program with a malloc of its own. The C library asks that for them, and they would lie in managed memory; it hands them to
//! the kernel itself, when they are full, when a stream is closed, and when the program ends: what was absent by then was lost, and nobody was told.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aquifer_sys::ErrnoGuard;
use libc::{DIR, FILE, c_char, c_int};

use super::missing;
use crate::real::{self, real};

/// Bytes of a buffer: as many as the C library's have on most file systems.
const BYTES: usize = 4096;
/// Streams that may be open at a time. Others have buffers of the program's malloc.
const STREAMS: usize = 1024;
/// The owner of a buffer whose stream is being closed.
const CLOSING: usize = 1;

struct Buffers(UnsafeCell<[[u8; BYTES]; STREAMS]>);

// SAFETY: each buffer is one stream's.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers(UnsafeCell::new([[0; BYTES]; STREAMS]));
/// The stream that has each buffer; 0 for none.
static OWNERS: [AtomicUsize; STREAMS] = [const { AtomicUsize::new(0) }; STREAMS];
/// The program has a malloc of its own, and managed memory.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
}

/// Before the program begins.
pub fn begin() {
    if real::has_own_malloc() {
        IS_NEEDED.store(true, Ordering::Relaxed);
        // SAFETY: nothing was read from them or written to them yet.
        unsafe {
            give(stdin);
            give(stdout);
        }
    }
}

/// Gives a stream that was just opened a buffer.
///
/// # Safety
/// The stream is open, or NULL.
unsafe fn give(stream: *mut FILE) {
    if stream.is_null() || !IS_NEEDED.load(Ordering::Relaxed) {
        return;
    }
    let _errno = ErrnoGuard::new();
    // One that was opened again has it still.
    let own = OWNERS.iter().position(|owner| owner.load(Ordering::Relaxed) == stream.addr());
    let take = |owner: &AtomicUsize| {
        owner.compare_exchange(0, stream.addr(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(at) = own.or_else(|| OWNERS.iter().position(take)) else { return };
    type Set = unsafe extern "C" fn(*mut FILE, *mut c_char, c_int, usize) -> c_int;
    let Some(set) = real!(setvbuf: Set) else { return };
    // SAFETY: the buffer is the stream's, as long as that is open.
    unsafe {
        let is_terminal = libc::isatty(libc::fileno(stream)) == 1;
        let mode = if is_terminal { libc::_IOLBF } else { libc::_IOFBF };
        set(stream, BUFFERS.0.get().cast::<c_char>().add(at * BYTES), mode, BYTES);
    }
}

/// What a function answers that may open a stream.
pub trait Outcome: Sized {
    /// Gives the stream a buffer.
    fn noted(self) -> Self {
        self
    }
}

impl Outcome for c_int {}
impl Outcome for isize {}
impl Outcome for *mut DIR {}
impl Outcome for *mut c_char {}
impl Outcome for *mut FILE {
    fn noted(self) -> Self {
        // SAFETY: it was just opened.
        unsafe { give(self) };
        self
    }
}

/// Stands in front of a function that opens a stream.
macro_rules! opens {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> *mut FILE {
            match real!($name: unsafe extern "C" fn($($type),*) -> *mut FILE) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real($($argument),*) }.noted(),
                None => missing(),
            }
        }
    )*};
}

opens! {
    fn fdopen(fd: c_int, mode: *const c_char);
    fn tmpfile();
    fn tmpfile64();
}

/// Stands in front of a function that closes a stream.
macro_rules! closes {
    ($(fn $name:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(stream: *mut FILE) -> c_int {
            let Some(real) = real!($name: unsafe extern "C" fn(*mut FILE) -> c_int) else { return missing() };
            let is_own = |owner: &&AtomicUsize| owner.load(Ordering::Relaxed) == stream.addr();
            let owner = if IS_NEEDED.load(Ordering::Relaxed) { OWNERS.iter().find(is_own) } else { None };
            // The next stream may have this one's address before this returns.
            owner.inspect(|owner| owner.store(CLOSING, Ordering::Relaxed));
            // SAFETY: passed on to the caller.
            let outcome = unsafe { real(stream) };
            owner.inspect(|owner| owner.store(0, Ordering::Release));
            outcome
        }
    )*};
}

closes! {
    fn fclose;
    fn pclose;
}
