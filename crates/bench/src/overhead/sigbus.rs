//! A SIGBUS handler for as long as something is measured.

use std::io;
use std::ptr;

/// What handles the signal.
pub type Handle = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// A handler until dropped; then the earlier one again.
pub struct Handler {
    earlier: libc::sigaction,
}

impl Handler {
    /// Installs a signal-safe `handle`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn install(handle: Handle) -> io::Result<Self> {
        // SAFETY: zeroed sigactions are valid; the handler has the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut earlier: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            match libc::sigaction(libc::SIGBUS, &action, &mut earlier) {
                0 => Ok(Self { earlier }),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: an action that sigaction gave us.
        unsafe { libc::sigaction(libc::SIGBUS, &self.earlier, ptr::null_mut()) };
    }
}
