//! System calls that a program makes by instructions of its own, past the C library: Rust's rustix, liburing, OpenMP's locks. The kernel can be asked to
//! raise SIGSYS instead (syscall user dispatch), for all instructions outside of one range: that of the C library. So the buffers of such
//! calls are brought in as those of all others.
//!
//! This begins for a thread when it has waited for its first page, or hands one to the C library, and costs its other calls some 35 ns each. A
//! program that fits its RAM is left alone.

#[cfg(target_arch = "x86_64")]
mod buffers;
#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod dispatch;
#[cfg(target_arch = "x86_64")]
mod threads;
#[cfg(target_arch = "x86_64")]
mod under_way;

#[cfg(target_arch = "x86_64")]
pub use calls::make;
#[cfg(target_arch = "x86_64")]
pub use dispatch::{begin_in_thread, forget, prepare, replace_next};
#[cfg(target_arch = "x86_64")]
pub use under_way::for_each as for_each_under_way;

/// Other processors' kernels cannot do that.
#[cfg(not(target_arch = "x86_64"))]
mod nothing {
    pub fn prepare() {}
    pub fn begin_in_thread() {}
    pub fn forget() {}
    pub fn for_each_under_way(_visit: &mut dyn FnMut(usize, usize)) {}
    pub fn replace_next(_action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
        None
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub use nothing::{begin_in_thread, for_each_under_way, forget, prepare, replace_next};
