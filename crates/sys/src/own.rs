//! Words of each thread's own, which faults and the library's threads may use.
//!
//! Thread-local variables of Rust are found through a table of the C library's, which is memory of the program's malloc: it may lie in
//! managed memory, and for a library that was loaded late it is allocated at the first use. These lie beside the thread's
//! own descriptor (the initial-exec model of ELF's thread-local storage), where nothing is ever absent.

use core::arch::{asm, global_asm};
use core::cell::Cell;

/// The words of one thread; all are 0 when it begins.
#[repr(C)]
pub struct Own {
    /// Whether it does the library's work.
    pub is_helper: Cell<bool>,
    /// Whether its system calls by instructions of its own are caught.
    pub is_caught: Cell<bool>,
    /// What a fault that comes again and again waits for: its page, when it came first and last, in nanoseconds.
    pub page: Cell<u64>,
    /// When it came first; 0 if none does.
    pub began_ns: Cell<u64>,
    /// When it came last.
    pub last_ns: Cell<u64>,
    /// Whether that was told.
    pub is_told: Cell<bool>,
    /// Bytes of small blocks that it has taken from the C library, less those it has given back, and that are not counted yet.
    pub small_bytes: Cell<i64>,
    /// Whether they are counted when the thread ends.
    pub counts_at_end: Cell<bool>,
    /// The address of its last fault on a page that was accessible.
    pub address: Cell<usize>,
    /// How often it came in a row.
    pub times: Cell<u32>,
    /// The kernel's id of the thread, once it was asked for.
    id: Cell<u32>,
}

const BYTES: usize = 128;
const _: () = assert!(size_of::<Own>() <= BYTES && align_of::<Own>() <= 8);

global_asm!(
    ".pushsection .tbss.aquifer_own,\"awT\",@nobits",
    ".balign 64",
    ".globl aquifer_own",
    ".hidden aquifer_own",
    ".type aquifer_own,@object",
    ".size aquifer_own,{bytes}",
    "aquifer_own:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

/// The words of the calling thread.
///
/// # Context
/// Two instructions. Signal-safe.
#[inline]
fn own() -> *const Own {
    let address: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the offset of the variable and the thread's pointer, and nothing else.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + aquifer_own@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, readonly, pure),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same.
    unsafe {
        asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:aquifer_own",
            "ldr {1}, [{1}, :gottprel_lo12:aquifer_own]",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(nostack, readonly, pure),
        );
    }
    core::ptr::with_exposed_provenance(address)
}

/// Looks at the words of the calling thread.
#[inline]
pub fn with<T>(look: impl FnOnce(&Own) -> T) -> T {
    // SAFETY: they live as long as the thread, are zeros at first, for which all fields are valid, and no other thread has them.
    look(unsafe { &*own() })
}

/// The kernel's id of the calling thread, which it is asked for once.
///
/// # Context
/// Signal-safe.
pub fn thread_id() -> u32 {
    with(|own| {
        if own.id.get() == 0 {
            own.id.set(crate::process::thread_id());
        }
        own.id.get()
    })
}

/// In a child: its thread has another id than the one that it is a copy of.
pub fn forget_thread_id() {
    with(|own| own.id.set(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        with(|own| own.page.set(7));
        let other = std::thread::spawn(|| {
            let before = with(|own| own.page.replace(9));
            (before, own().addr())
        });
        assert_eq!(other.join().unwrap().0, 0);
        assert_eq!(with(|own| own.page.get()), 7);
        assert!(own().is_aligned());
    }
}
