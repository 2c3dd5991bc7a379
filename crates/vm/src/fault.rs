//! How faults reach the engine.

pub mod observer;
pub mod signal;
pub mod thread;

use crate::error::FaultError;

/// Ends the process because an invariant is broken; going on would return wrong bytes.
pub(crate) fn abort_in_fault(message: &[u8]) -> ! {
    aquifer_sys::stderr::write(b"aquifer: broken invariant: ");
    aquifer_sys::stderr::write(message);
    std::process::abort()
}

/// One line on standard error for a fault that cannot be resolved. No formatting: runs in fault handlers.
pub(crate) fn report_in_fault(error: &FaultError) {
    let message: &[u8] = match error {
        FaultError::NotAllocated(_) => b"aquifer: access to memory of a heap that is not allocated\n",
        FaultError::Device { .. } => b"aquifer: flash could not be read; the access that needed it fails\n",
        FaultError::Damaged { .. } => {
            b"aquifer: bytes on flash are damaged; the access that needed them fails\n"
        }
        FaultError::Gone(_) => {
            b"aquifer: a process that was forked needs memory of its parent, which has used that flash meanwhile; use a larger --flash-size\n"
        }
        FaultError::Stopped { .. } => {
            b"aquifer: flash could not be written and RAM is full; the access fails\n"
        }
        FaultError::Again { .. } => b"aquifer: memory of a heap is held by others; the access fails\n",
        FaultError::Map { .. } => b"aquifer: the kernel refused to map a page\n",
    };
    aquifer_sys::stderr::write(message);
}
