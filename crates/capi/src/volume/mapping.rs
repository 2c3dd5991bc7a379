//! Files as memory.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use aquifer::ErrorCode;
use aquifer_volume::Protection;

use super::file::{AqFile, with_file};
use super::reach::Memory;
use super::{ensure_not_forked, fail_null, failed, number};
use crate::forks;
use crate::message::fail_with;

/// `AQ_MAP_READ` and its like.
const READ: c_int = 1;
const WRITE: c_int = 2;
const PRIVATE: c_int = 4;
const SHARE: c_int = 8;

/// What is mapped, by first address.
static MAPPED: LazyLock<Mutex<HashMap<usize, Mapped>>> = LazyLock::new(Mutex::default);

struct Mapped {
    memory: Memory,
    /// Forks before it was mapped.
    forks: usize,
}

fn mapped() -> MutexGuard<'static, HashMap<usize, Mapped>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a file is mapped for, if it was opened for that.
fn to_protection(file: &AqFile, flags: c_int) -> Result<Protection, c_int> {
    let is_both = flags & PRIVATE != 0 && flags & SHARE != 0;
    if flags & !(READ | WRITE | PRIVATE | SHARE) != 0 || flags & (READ | WRITE) == 0 || is_both {
        let sentence = "a file is mapped with AQ_MAP_READ, AQ_MAP_WRITE or both, and perhaps AQ_MAP_PRIVATE or AQ_MAP_SHARE";
        return Err(fail_with(ErrorCode::Invalid, sentence));
    }
    file.ensure_readable()?;
    match (flags & WRITE != 0, flags & PRIVATE != 0) {
        (false, _) => Ok(Protection::Read),
        (true, true) => Ok(Protection::CopyOnWrite),
        (true, false) => file.ensure_writable().map(|()| Protection::Write),
    }
}

fn map(file: &AqFile, offset: u64, len: usize, flags: c_int) -> Result<*mut u8, c_int> {
    let protection = to_protection(file, flags)?;
    let forks = forks::count();
    let memory = file.file.map(offset, len, protection, flags & SHARE != 0).map_err(failed)?;
    let address = memory.as_ptr();
    if let Some(stale) = mapped().insert(address.addr(), Mapped { memory, forks }) {
        // The parent of this process has it. It is not in this process, or its address would not be free; so it is not ours to end.
        std::mem::forget(stale);
    }
    Ok(address)
}

fn unmap(address: usize) -> Result<(), c_int> {
    let mut mapped = mapped();
    let Some(found) = mapped.get(&address) else {
        let sentence = format!("no mapped file begins at {address:#x}");
        return Err(fail_with(ErrorCode::Foreign, &sentence));
    };
    ensure_not_forked(found.forks)?;
    let removed = mapped.remove(&address);
    // Unmapping may write to the volume; others need not wait for that.
    std::mem::drop(mapped);
    std::mem::drop(removed.map(|removed| removed.memory));
    Ok(())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_map(
    file: *mut AqFile,
    offset: u64,
    len: usize,
    flags: c_int,
    address: *mut *mut c_void,
) -> c_int {
    let run = |file: &AqFile| {
        if address.is_null() {
            return Err(fail_null("address"));
        }
        let mapped = map(file, offset, len, flags)?;
        // SAFETY: checked above.
        unsafe { *address = mapped.cast() };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { with_file(file, run) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_file_unmap(address: *mut c_void) -> c_int {
    if address.is_null() {
        return fail_null("address");
    }
    number(unmap(address.addr()))
}
