//! What a page fault's signal tells.

use core::ffi::c_void;
use core::sync::atomic::AtomicU8;

use libc::siginfo_t;

/// The address whose access raised the signal.
///
/// # Safety
/// `info` is the second argument of a handler that was called for SIGBUS or SIGSEGV.
pub unsafe fn fault_address(info: *const siginfo_t) -> usize {
    // SAFETY: the kernel filled in the address for these signals.
    unsafe { (*info).si_addr() as usize }
}

/// Whether the signal tells of a page that is not there, as a SIGBUS of a userfaultfd does, or that may not be touched (SIGSEGV). Others are of memory that is broken
/// (`BUS_MCEERR_AR`), where an instruction that ran again would raise it for ever, of addresses where nothing is mapped, or were sent by somebody.
///
/// # Safety
/// `info` is the second argument of a handler that was called for SIGBUS or SIGSEGV.
pub unsafe fn is_page_fault(info: *const siginfo_t) -> bool {
    /// `BUS_ADRERR` and `SEGV_ACCERR`, which the libc crate has for few systems.
    const NO_PAGE: i32 = 2;
    // SAFETY: passed on to the caller.
    unsafe { (*info).si_code == NO_PAGE }
}

/// Sends SIGBUS to a thread of this process, if there is one of that number, with `mark`.
///
/// # Context
/// Signal-safe.
pub fn send_sigbus(thread: u32, mark: &'static AtomicU8) {
    /// `siginfo_t` of a signal that was queued.
    #[repr(C)]
    struct Queued {
        signal: i32,
        error: i32,
        code: i32,
        /// The union behind it is aligned as a pointer.
        _gap: i32,
        pid: libc::pid_t,
        uid: libc::uid_t,
        value: *const AtomicU8,
        _rest: [u64; 12],
    }
    const _: () = assert!(size_of::<Queued>() == size_of::<siginfo_t>());
    let (signal, code) = (libc::SIGBUS, libc::SI_QUEUE);
    // SAFETY: the calls take nothing.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let queued = Queued { signal, error: 0, code, _gap: 0, pid, uid, value: mark, _rest: [0; 12] };
    // SAFETY: the kernel reads one structure of ours. The system call itself: the C library has it for processes only.
    unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, thread as libc::pid_t, signal, &raw const queued)
    };
}

/// Whether this process sent the signal with `mark`.
///
/// # Safety
/// `info` is the second argument of a handler.
pub unsafe fn has_mark(info: *const siginfo_t, mark: &'static AtomicU8) -> bool {
    // SAFETY: a signal that was queued has a sender and a value.
    unsafe {
        (*info).si_code == libc::SI_QUEUE
            && (*info).si_value().sival_ptr.cast_const().cast() == core::ptr::from_ref(mark)
            && (*info).si_pid() == libc::getpid()
    }
}

/// Whether the access was a write. `true` where the processor's answer is not known: to take a
/// read for a write costs a needless write-back, the reverse would lose an update.
///
/// # Safety
/// `context` is the third argument of a handler that was called for a page fault, or null.
pub unsafe fn fault_is_write(context: *const c_void) -> bool {
    if context.is_null() {
        return true;
    }
    // SAFETY: passed on to the caller.
    unsafe { write_bit(context.cast()) }.unwrap_or(true)
}

/// # Safety
/// `context` is the context of a page fault's signal.
#[cfg(target_arch = "x86_64")]
unsafe fn write_bit(context: *const libc::ucontext_t) -> Option<bool> {
    /// Bit 1 of the processor's page-fault error code: the access was a write.
    const ERROR_WRITE: libc::greg_t = 1 << 1;
    // SAFETY: the kernel wrote the registers of the interrupted thread there.
    let error = unsafe { (&raw const (*context).uc_mcontext.gregs[libc::REG_ERR as usize]).read() };
    Some(error & ERROR_WRITE != 0)
}

/// # Safety
/// `context` is the context of a page fault's signal.
#[cfg(target_arch = "aarch64")]
unsafe fn write_bit(context: *const libc::ucontext_t) -> Option<bool> {
    use core::mem::{offset_of, size_of};
    // The records follow the last register at the next multiple of 16.
    const RECORDS: usize = (offset_of!(libc::mcontext_t, pstate) + size_of::<u64>()).next_multiple_of(16);
    // SAFETY: the signal frame has 4096 bytes of records there, which live while the handler runs.
    let records = unsafe {
        let machine = (&raw const (*context).uc_mcontext).cast::<u8>();
        &*machine.add(RECORDS).cast::<[u8; arm::RECORDS_BYTES]>()
    };
    arm::syndrome(records).map(arm::is_write)
}

/// # Safety
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn write_bit(_context: *const libc::ucontext_t) -> Option<bool> {
    None
}

/// Arm keeps the fault's syndrome in one of the tagged records behind the registers
/// (`struct esr_context` of the kernel's `asm/sigcontext.h`). Compiled for tests everywhere.
#[cfg(any(target_arch = "aarch64", test))]
mod arm {
    /// Room for records in a signal frame.
    pub const RECORDS_BYTES: usize = 4096;
    /// Tag of the record that holds the syndrome.
    pub const TAG_SYNDROME: u32 = 0x4553_5201;
    /// Tag and size in front of each record.
    pub const HEADER_BYTES: usize = 8;

    /// The syndrome register, if one of the records holds it.
    pub fn syndrome(records: &[u8; RECORDS_BYTES]) -> Option<u64> {
        let mut rest: &[u8] = records;
        loop {
            let (tag, tail) = rest.split_first_chunk::<4>()?;
            let (size, body) = tail.split_first_chunk::<4>()?;
            match (u32::from_ne_bytes(*tag), u32::from_ne_bytes(*size) as usize) {
                (TAG_SYNDROME, _) => return body.first_chunk::<8>().map(|raw| u64::from_ne_bytes(*raw)),
                (0, _) | (_, 0..HEADER_BYTES) => return None,
                (_, size) => rest = rest.get(size..)?,
            }
        }
    }

    /// Whether the syndrome is that of a store. Cache maintenance sets the write bit as well, but
    /// asks only for a readable page.
    pub fn is_write(syndrome: u64) -> bool {
        const WRITE_NOT_READ: u64 = 1 << 6;
        const CACHE_MAINTENANCE: u64 = 1 << 8;
        const CLASS_SHIFT: u32 = 26;
        const CLASS_MASK: u64 = 0x3f;
        const DATA_ABORT_LOWER_LEVEL: u64 = 0x24;
        const DATA_ABORT_SAME_LEVEL: u64 = 0x25;
        let class = syndrome >> CLASS_SHIFT & CLASS_MASK;
        matches!(class, DATA_ABORT_LOWER_LEVEL | DATA_ABORT_SAME_LEVEL)
            && syndrome & WRITE_NOT_READ != 0
            && syndrome & CACHE_MAINTENANCE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(records: &mut [u8], at: usize, tag: u32, size: u32) {
        records[at..at + 4].copy_from_slice(&tag.to_ne_bytes());
        records[at + 4..at + 8].copy_from_slice(&size.to_ne_bytes());
    }

    #[test]
    fn finds_the_syndrome_behind_other_records() {
        let mut records = [0; arm::RECORDS_BYTES];
        assert_eq!(arm::syndrome(&records), None);
        put(&mut records, 0, 0x4650_8001, 528);
        assert_eq!(arm::syndrome(&records), None);
        put(&mut records, 528, arm::TAG_SYNDROME, 16);
        records[536..544].copy_from_slice(&0x9200_0047u64.to_ne_bytes());
        assert_eq!(arm::syndrome(&records), Some(0x9200_0047));
    }

    #[test]
    fn damaged_records_end_the_search() {
        let mut records = [0; arm::RECORDS_BYTES];
        for size in [0, 7, u32::MAX] {
            put(&mut records, 0, 0x4650_8001, size);
            assert_eq!(arm::syndrome(&records), None);
        }
        put(&mut records, 0, 0x4650_8001, arm::RECORDS_BYTES as u32 - 8);
        put(&mut records, arm::RECORDS_BYTES - 8, arm::TAG_SYNDROME, 16);
        assert_eq!(arm::syndrome(&records), None);
    }

    #[test]
    fn only_stores_are_writes() {
        const CLASS: u64 = 0x24 << 26;
        assert!(arm::is_write(CLASS | 1 << 6));
        assert!(!arm::is_write(CLASS));
        assert!(!arm::is_write(CLASS | 1 << 6 | 1 << 8), "cache maintenance");
        assert!(!arm::is_write(0x20 << 26 | 1 << 6), "instruction fetch");
    }

    #[test]
    fn an_unknown_context_counts_as_a_write() {
        // SAFETY: null is allowed.
        assert!(unsafe { fault_is_write(core::ptr::null()) });
    }
}
