//! Handlers and masks, which must leave SIGBUS and SIGSYS to the heap: by one absent pages are noticed, by the other system calls that no function of the
//! C library makes. With `--faults fence`, SIGSEGV too. The program sees its own as if it were alone; real ones are handed on to its handlers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use libc::{
    SIGBUS, SIGSEGV, SIGSYS, c_int, epoll_event, fd_set, nfds_t, pollfd, sigaction as Action, sighandler_t,
    siginfo_t, sigset_t, timespec,
};

use aquifer_vm::fault::signal::replace_next;

use crate::hooks::missing;
use crate::real::real;
use crate::span::Pin;

const SETSIZE: usize = size_of::<sigset_t>();
const INFO: usize = size_of::<siginfo_t>();
const SIGNALS: usize = 65;

/// What the heap may need. Sets of them have a bit each.
const OURS: [c_int; 3] = [SIGBUS, SIGSYS, SIGSEGV];
/// Absent pages are noticed by SIGSEGV.
static IS_FENCED: AtomicBool = AtomicBool::new(false);

/// The heap's, which are never blocked, with their bits.
fn ours() -> impl Iterator<Item = (usize, c_int)> {
    let is_fenced = IS_FENCED.load(Ordering::Relaxed);
    OURS.into_iter().enumerate().filter(move |&(_, signal)| signal != SIGSEGV || is_fenced)
}

/// SIGSEGV is the heap's, too. Before the program begins.
pub fn take_segv() {
    IS_FENCED.store(true, Ordering::Relaxed);
    unblock_ours();
}

/// Which of them the program wants to be blocked while handlers run: it is told so when it asks.
static MASKS_OURS: [AtomicU8; SIGNALS] = [const { AtomicU8::new(0) }; SIGNALS];

thread_local! {
    /// Which of them the program believes that this thread blocks.
    static BLOCKS_OURS: Cell<u8> = const { Cell::new(0) };
}

/// Takes the heap's signals out of a set, and returns which were in it.
fn take_ours(set: &mut sigset_t) -> u8 {
    let mut taken = 0;
    for (bit, signal) in ours() {
        // SAFETY: the set is valid.
        unsafe {
            taken |= u8::from(libc::sigismember(set, signal) == 1) << bit;
            libc::sigdelset(set, signal);
        }
    }
    taken
}

fn add_ours(set: &mut sigset_t, which: u8) {
    for (_, signal) in ours().filter(|(bit, _)| which >> bit & 1 == 1) {
        // SAFETY: the set is valid.
        unsafe { libc::sigaddset(set, signal) };
    }
}

/// A copy of the set without the heap's signals, and which of them were in it.
///
/// # Safety
/// `set` is NULL or a signal set.
unsafe fn without_ours(set: *const sigset_t) -> Option<(sigset_t, u8)> {
    // SAFETY: passed on to the caller; the set is changed in a copy.
    let mut copy = *unsafe { set.as_ref() }?;
    let had = take_ours(&mut copy);
    Some((copy, had))
}

/// # Safety
/// As the manual page of `sigaction` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    let Some(real) = real!(sigaction: unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int)
    else {
        return missing();
    };
    // SAFETY: passed on to the caller; the mask is changed in a copy, because a handler must be able to touch memory.
    let given = unsafe {
        action.as_ref().map(|action| {
            let mut action = *action;
            let had = take_ours(&mut action.sa_mask);
            (action, had)
        })
    };
    let given_action = given.as_ref().map(|(action, _)| action);
    let replaced = match signal {
        SIGBUS | SIGSEGV => replace_next(signal, given_action),
        SIGSYS => crate::caught::replace_next(given_action),
        _ => None,
    };
    let mut previous = match replaced {
        Some(previous) => previous,
        None => {
            // SAFETY: zeros are a valid action.
            let mut previous: Action = unsafe { std::mem::zeroed() };
            let pointer = given_action.map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: both are our own.
            let outcome = unsafe { real(signal, pointer, &raw mut previous) };
            if outcome != 0 {
                return outcome;
            }
            previous
        }
    };
    let Some(masks) = usize::try_from(signal).ok().and_then(|signal| MASKS_OURS.get(signal)) else {
        return 0;
    };
    let masked = match given {
        Some((_, had)) => masks.swap(had, Ordering::Relaxed),
        None => masks.load(Ordering::Relaxed),
    };
    // SAFETY: passed on to the caller; the mask is our own.
    if let Some(before) = unsafe { before.as_mut() } {
        add_ours(&mut previous.sa_mask, masked);
        *before = previous;
    }
    0
}

macro_rules! signal {
    ($($name:ident, $flags:expr;)*) => {$(
        /// # Safety
        /// As the manual page of `signal` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            // SAFETY: zeros are a valid action.
            let (mut action, mut before): (Action, Action) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            action.sa_sigaction = handler;
            action.sa_flags = $flags;
            // SAFETY: the function above, with actions of our own.
            if unsafe { sigaction(signal, &raw const action, &raw mut before) } == 0 {
                before.sa_sigaction
            } else {
                libc::SIG_ERR
            }
        }
    )*};
}

signal! {
    signal, libc::SA_RESTART;
    bsd_signal, libc::SA_RESTART;
    ssignal, libc::SA_RESTART;
    sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
    __sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
}

macro_rules! mask {
    ($($name:ident;)*) => {$(
        /// # Safety
        /// As the manual page of `sigprocmask` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
            let real = real!($name: unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int);
            let Some(real) = real else { return missing() };
            // SAFETY: passed on to the caller.
            let stripped = unsafe { without_ours(set) };
            let given = stripped.as_ref().map_or(std::ptr::null(), |(set, _)| &raw const *set);
            // SAFETY: zeros are a valid set.
            let mut previous: sigset_t = unsafe { std::mem::zeroed() };
            // SAFETY: both are our own.
            let outcome = unsafe { real(how, given, &raw mut previous) };
            if outcome == 0 {
                let blocked = BLOCKS_OURS.get();
                // SAFETY: passed on to the caller, whose memory may be absent: so it is not the kernel that fills it in.
                if let Some(before) = unsafe { before.as_mut() } {
                    add_ours(&mut previous, blocked);
                    *before = previous;
                }
                if let Some((_, had)) = stripped {
                    BLOCKS_OURS.set(match how {
                        libc::SIG_BLOCK => blocked | had,
                        libc::SIG_UNBLOCK => blocked & !had,
                        _ => had,
                    });
                }
            }
            outcome
        }
    )*};
}

mask! {
    sigprocmask;
    pthread_sigmask;
}

/// Stands in front of a call that waits under another mask.
macro_rules! under_mask {
    ($(fn $name:ident($($argument:ident: $type:ty),*; $mask:ident $(, $after:ident: $after_type:ty)?) $(; $address:expr, $bytes:expr)*;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)* $mask: *const sigset_t $(, $after: $after_type)?) -> c_int {
            $(let _pin = Pin::new($address as usize, $bytes as usize);)*
            type Real = unsafe extern "C" fn($($type,)* *const sigset_t $(, $after_type)?) -> c_int;
            let Some(real) = real!($name: Real) else { return missing() };
            // SAFETY: passed on to the caller.
            let stripped = unsafe { without_ours($mask) };
            let given = stripped.as_ref().map_or(std::ptr::null(), |(set, _)| &raw const *set);
            // SAFETY: passed on to the caller.
            unsafe { real($($argument,)* given $(, $after)?) }
        }
    )*};
}

under_mask! {
    fn sigsuspend(; mask);
    fn ppoll(list: *mut pollfd, count: nfds_t, timeout: *const timespec; mask); list, count as usize * 8;
    fn __ppoll_chk(list: *mut pollfd, count: nfds_t, timeout: *const timespec; mask, room: usize);
        list, count as usize * 8;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec; mask);
        read, SETSIZE; write, SETSIZE; except, SETSIZE;
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, count: c_int, timeout: c_int; mask);
        events, count.max(0) as usize * size_of::<epoll_event>();
    fn epoll_pwait2(fd: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec; mask);
        events, count.max(0) as usize * size_of::<epoll_event>(); timeout, size_of::<timespec>();
}

hook! {
    fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int; set, SETSIZE; signal, 4;
    fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int; set, SETSIZE; info, INFO;
    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, time: *const timespec) -> c_int;
        set, SETSIZE; info, INFO; time, size_of::<timespec>();
    fn sigpending(set: *mut sigset_t) -> c_int; set, SETSIZE;
    fn signalfd(fd: c_int, set: *const sigset_t, flags: c_int) -> c_int; set, SETSIZE;
}

/// Unblocks the heap's signals, which the parent process may have blocked.
pub fn unblock_ours() {
    let real = real!(sigprocmask: unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int);
    let Some(real) = real else { return };
    // SAFETY: zeros are a valid set, which is our own.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        add_ours(&mut set, u8::MAX);
        real(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}
