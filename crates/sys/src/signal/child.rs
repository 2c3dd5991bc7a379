//! Signals that are meant for the program that this process has started and waits for.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use libc::siginfo_t;

use super::set_action;
use crate::errno::{ErrnoGuard, Result};

/// What people and other programs send to end a program, or to tell it something.
const FORWARDED: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT];

/// The program; 0 while there is none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// What has come before there was one: bit n for signal n.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// Holds signals back that would end this process, for the program that [`Forwarding::begin`] names.
///
/// Signals of the terminal go to all of its processes, the program included, and are dropped here. Signals
/// that the parent process ignored stay ignored. A program that is started has the default actions.
///
/// # Errors
/// The kernel's answer to `sigaction`.
pub fn hold_for_program() -> Result<()> {
    // SAFETY: all fields are integers or an optional function pointer; zeros are valid for them.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    for signal in FORWARDED {
        // SAFETY: the handler is async-signal-safe.
        let before = unsafe { set_action(signal, &action)? };
        if before.sa_sigaction == libc::SIG_IGN {
            // SAFETY: there is no handler in it.
            unsafe { set_action(signal, &before)? };
        }
    }
    Ok(())
}

/// While this lives, held signals go to a program.
#[must_use = "signals are held back again when this drops"]
pub struct Forwarding(());

impl Forwarding {
    /// Forwards to the process `program`, a child that nobody has waited for.
    pub fn begin(program: u32) -> Self {
        PROGRAM.store(program as i32, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        for signal in FORWARDED.into_iter().filter(|signal| early & (1 << signal) != 0) {
            send(signal);
        }
        Self(())
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        PROGRAM.store(0, Ordering::SeqCst);
    }
}

extern "C" fn on_signal(signal: i32, info: *mut siginfo_t, _context: *mut c_void) {
    let _errno = ErrnoGuard::new();
    // SAFETY: the kernel calls the handler with a valid pointer. Codes above 0 are the kernel's own.
    let from_terminal = unsafe { (*info).si_code } > 0;
    if !from_terminal {
        send(signal);
    }
}

fn send(signal: i32) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program > 0 {
        // SAFETY: plain numbers. Nobody has waited for the program, so its number belongs to it.
        unsafe { libc::kill(program, signal) };
    } else {
        EARLY.fetch_or(1 << signal, Ordering::SeqCst);
    }
}
