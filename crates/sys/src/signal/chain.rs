//! Passes a signal on to the action that was installed before ours.

use core::ffi::c_void;
use core::mem::{self, MaybeUninit};

use libc::siginfo_t;

use super::mask::FAULT_SIGNALS;
use super::{Handler, set_action};

/// A signal mask as the kernel has it: one bit per signal, the first for signal 1. Used instead of
/// `sigset_t` because a signal frame holds only these 8 bytes of it.
type KernelMask = u64;

/// Does with a signal what `previous` would have done with it; a handler's last act, to be followed
/// by its return.
///
/// - **A handler** is called in the form it was installed for, under the mask that the kernel would
///   have given it, except that faults stay unblocked: it may touch managed memory, so our own
///   handler must be able to run inside it.
/// - **The default** is restored and the signal queued again with its original information. SIGBUS
///   is blocked in our handler, so the process dies when that returns: of the same signal, with the
///   faulting instruction in its core dump.
/// - **Ignoring** holds for signals that somebody sent. A fault cannot be ignored, since its
///   instruction would run for ever; as the kernel does, this takes the default action.
///
/// # Safety
/// Called in a handler for `signal`, with that handler's arguments. `context` may be null; the
/// previous handler keeps the present mask then.
pub unsafe fn chain(previous: &libc::sigaction, signal: i32, info: *mut siginfo_t, context: *mut c_void) {
    match previous.sa_sigaction {
        libc::SIG_IGN => {
            // SAFETY: `info` is the handler's.
            if unsafe { is_fault(info) } {
                // SAFETY: the same.
                unsafe { deliver_default(signal, info) };
            }
        }
        // SAFETY: `info` is the handler's.
        libc::SIG_DFL => unsafe { deliver_default(signal, info) },
        // SAFETY: the arguments are the handler's.
        _ => unsafe { call(previous, signal, info, context) },
    }
}

/// Whether the running instruction raised the signal, rather than somebody who sent it. A memory
/// error found by the kernel in the background is of the second kind.
///
/// # Safety
/// `info` is a handler's argument.
unsafe fn is_fault(info: *const siginfo_t) -> bool {
    /// A memory error that nobody waits for (`BUS_MCEERR_AO`).
    const MEMORY_ERROR_OPTIONAL: i32 = 5;
    // SAFETY: filled in by the kernel. Codes above 0 are the kernel's own.
    let (signal, code) = unsafe { ((*info).si_signo, (*info).si_code) };
    code > 0 && !(signal == libc::SIGBUS && code == MEMORY_ERROR_OPTIONAL)
}

/// # Safety
/// As [`chain`], with a handler in `previous`.
unsafe fn call(previous: &libc::sigaction, signal: i32, info: *mut siginfo_t, context: *mut c_void) {
    let _mask = (!context.is_null()).then(|| {
        // SAFETY: the handler's context.
        MaskGuard::set(unsafe { mask_for(previous, signal, context.cast()) })
    });
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the value was installed as a handler of this form.
        let handler = unsafe { mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: the value was installed as a handler of the plain form.
        let handler = unsafe { mem::transmute::<usize, extern "C" fn(i32)>(previous.sa_sigaction) };
        handler(signal);
    }
}

/// The mask under which the kernel would have called the handler in `previous`, without faults.
///
/// # Safety
/// `context` is the context of a running signal handler.
unsafe fn mask_for(previous: &libc::sigaction, signal: i32, context: *const libc::ucontext_t) -> KernelMask {
    // SAFETY: the kernel saved the interrupted thread's mask there, 8 bytes of it.
    let interrupted = unsafe { (&raw const (*context).uc_sigmask).cast::<KernelMask>().read_unaligned() };
    // SAFETY: a sigset_t begins with the same 8 bytes.
    let own = unsafe { (&raw const previous.sa_mask).cast::<KernelMask>().read_unaligned() };
    let deferred = if previous.sa_flags & libc::SA_NODEFER == 0 { bit(signal) } else { 0 };
    (interrupted | own | deferred) & !FAULT_SIGNALS.into_iter().fold(0, |mask, fault| mask | bit(fault))
}

const fn bit(signal: i32) -> KernelMask {
    1 << (signal - 1)
}

/// This thread's mask is another one while this lives.
struct MaskGuard {
    saved: KernelMask,
}

impl MaskGuard {
    fn set(mask: KernelMask) -> MaskGuard {
        MaskGuard { saved: swap_mask(libc::SIG_SETMASK, mask) }
    }
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        swap_mask(libc::SIG_SETMASK, self.saved);
    }
}

fn swap_mask(how: i32, mask: KernelMask) -> KernelMask {
    let mut before: KernelMask = 0;
    // SAFETY: both masks live for the call and have the size that is passed on.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const mask,
            &raw mut before,
            mem::size_of::<KernelMask>(),
        )
    };
    before
}

/// Restores the default action and queues the signal once more for this thread.
///
/// # Safety
/// `info` is a handler's argument for `signal`.
unsafe fn deliver_default(signal: i32, info: *mut siginfo_t) {
    restore_default(signal);
    // SAFETY: the kernel reads `info`. A thread may queue anything for itself.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::syscall(libc::SYS_gettid),
            signal,
            info,
        )
    };
    if returned < 0 {
        // SAFETY: nothing of ours needs to run any more.
        unsafe { raise_default(signal) }
    }
}

fn restore_default(signal: i32) {
    // SAFETY: zeros are valid for the structure, and mean the default action.
    let action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: there is no handler in it. Failure leaves the signal to the steps that follow.
    let _ = unsafe { set_action(signal, &action) };
}

/// Ends the process by `signal` with its default action; with exit code 128 + `signal` if that
/// action is not to end.
///
/// # Safety
/// The process ends at this point: nothing that other code relies on is left to be done here.
pub unsafe fn raise_default(signal: i32) -> ! {
    restore_default(signal);
    swap_mask(libc::SIG_UNBLOCK, bit(signal));
    // SAFETY: plain numbers; the signal goes to this thread and is delivered before the call
    // returns, since it is not blocked.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
        libc::_exit(128 + signal)
    }
}
