//! New programs and processes.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{FILE, c_char, c_int, pid_t, pthread_attr_t};

use aquifer_sys::helper;
use aquifer_sys::signal::Sigaction;
use aquifer_sys::stderr;
use aquifer_vm::fork;

use crate::hooks::{later, missing};
use crate::real::real;
use crate::route::{is_managed_address, owns, prepare_threads, route, set_errno};
use crate::span::Pin;
use crate::{insiders, memory, protect};

pub(super) type List = *const *const c_char;

/// The strings of a list that ends with NULL, and the list itself, in place.
///
/// # Safety
/// The list is NULL or as described.
unsafe fn strings(list: List) -> Vec<Pin> {
    let mut pins = Vec::new();
    if list.is_null() {
        return pins;
    }
    let mut count = 0;
    loop {
        // SAFETY: passed on to the caller.
        let text = unsafe { *list.add(count) };
        count += 1;
        if text.is_null() {
            break;
        }
        if owns(text.cast()) {
            // SAFETY: passed on to the caller.
            pins.push(unsafe { Pin::string(text) });
        }
    }
    if is_managed_address(list as usize) {
        pins.push(Pin::new(list as usize, count * size_of::<*const c_char>()));
    }
    pins
}

unsafe extern "C" {
    static environ: List;
}

/// What says how to start a program: `posix_spawn_file_actions_t` and `posix_spawnattr_t`.
const ACTIONS: usize = 128;
const ATTRIBUTES: usize = 512;

/// Stands in front of a function that starts a program: its strings are in place, because the new process cannot handle
/// faults.
macro_rules! starts {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty; $($text:ident),+; $($list:expr),+
        $(; also $($address:expr, $bytes:expr),+)?;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: passed on to the caller.
            $(let _text = unsafe { Pin::string($text) };)+
            // SAFETY: passed on to the caller.
            let _lists = [$(unsafe { strings($list) }),+];
            $($(let _also = Pin::new($address as usize, $bytes);)+)?
            match real!($name: unsafe extern "C" fn($($type),*) -> $result) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real($($argument),*) },
                None => missing(),
            }
        }
    )*};
}

/// Reads the strings of a list that ends with NULL, so that they are in place for a while.
///
/// # Safety
/// The list is NULL or as described.
unsafe fn bring(list: List) {
    // SAFETY: the caller says so.
    unsafe {
        let mut at = list;
        while !list.is_null() && !(*at).is_null() {
            bring_text(*at);
            at = at.add(1);
        }
    }
}

/// # Safety
/// `text` is NULL or ends with a zero byte.
unsafe fn bring_text(text: *const c_char) {
    if is_managed_address(text as usize) {
        // SAFETY: the caller says so.
        std::hint::black_box(unsafe { libc::strlen(text) });
    }
}

/// How often a program is started whose strings have left before the kernel has read them.
const TRIES: usize = 100;

/// Stands in front of a function that replaces this process by a program. Nothing is pinned, because the process may be a child
/// that shares its parent's memory until then (`vfork`), and would never end its pins.
macro_rules! becomes {
    ($(fn $name:ident($($argument:ident: $type:ty),*); $text:expr; $($list:expr),+;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let Some(real) = real!($name: unsafe extern "C" fn($($type),*) -> c_int) else { return missing() };
            let mut outcome = -1;
            for _ in 0..TRIES {
                // SAFETY: passed on to the caller.
                unsafe {
                    bring_text($text);
                    $(bring($list);)+
                    outcome = real($($argument),*);
                    if *libc::__errno_location() != libc::EFAULT {
                        break;
                    }
                }
            }
            outcome
        }
    )*};
}

becomes! {
    fn execve(path: *const c_char, arguments: List, environment: List); path; arguments, environment;
    fn execv(path: *const c_char, arguments: List); path; arguments, environ;
    fn execvp(path: *const c_char, arguments: List); path; arguments, environ;
    fn execvpe(path: *const c_char, arguments: List, environment: List); path; arguments, environment;
    fn fexecve(fd: c_int, arguments: List, environment: List); std::ptr::null(); arguments, environment;
}

starts! {
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: List, environment: List) -> c_int; path; arguments, environment;
        also pid, 4, actions, ACTIONS, attributes, ATTRIBUTES;
    fn posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: List, environment: List) -> c_int; path; arguments, environment, environ;
        also pid, 4, actions, ACTIONS, attributes, ATTRIBUTES;
    fn system(command: *const c_char) -> c_int; command; environ;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE; command, mode; environ;
}

/// What `pthread_atfork` calls. Those of the heap are installed before all others, so that they run next to the fork itself, and
/// the others find the heap at work.
///
/// # Safety
/// As the manual page of `pthread_atfork` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    before: AtFork,
    in_parent: AtFork,
    in_child: AtFork,
    library: *mut c_void,
) -> c_int {
    install_at_fork();
    // SAFETY: passed on to the caller.
    unsafe { register(before, in_parent, in_child, library) }
}

type AtFork = Option<unsafe extern "C" fn()>;

unsafe fn register(before: AtFork, in_parent: AtFork, in_child: AtFork, library: *mut c_void) -> c_int {
    match real!(__register_atfork: unsafe extern "C" fn(AtFork, AtFork, AtFork, *mut c_void) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(before, in_parent, in_child, library) },
        None => libc::ENOMEM,
    }
}

/// Has all that has a lock at rest while the process forks, so that the child finds it whole: the heap's books from before the heap itself
/// pauses until after it goes on, and memory next to the fork itself.
pub fn install_at_fork() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    if !IS_INSTALLED.swap(true, Ordering::AcqRel) {
        let nobody = std::ptr::null_mut();
        fork::install_with(rest_memory, go_on_with_memory);
        // SAFETY: the functions may run at a fork.
        unsafe { register(Some(before_fork), Some(after_fork), Some(after_fork_in_child), nobody) };
    }
}

/// What the thread that forks has at rest.
struct AtRest<T>(UnsafeCell<Option<T>>);

// SAFETY: only the thread that forks has it at rest, and only it looks here.
unsafe impl<T> Sync for AtRest<T> {}

impl<T> AtRest<T> {
    /// # Safety
    /// For the handlers of a fork.
    unsafe fn keep(&self, rest: Option<T>) {
        // SAFETY: passed on to the caller.
        drop(unsafe { std::mem::replace(&mut *self.0.get(), rest) });
    }
}

/// Every lock of this library, in the order in which they are taken: parts, heap, blocks, operations. A child finds them free.
type Books = (protect::Rest, Option<aquifer::Rest<'static>>, insiders::Rest, later::Rest);
static BOOKS: AtRest<Books> = AtRest(UnsafeCell::new(None));
static MEMORY: AtRest<memory::Rest> = AtRest(UnsafeCell::new(None));

fn rest_memory() {
    // SAFETY: this is called by a handler of a fork, or in the midst of it.
    unsafe { MEMORY.keep(Some(memory::rest())) };
}

fn go_on_with_memory() {
    // SAFETY: the same.
    unsafe { MEMORY.keep(None) };
}

unsafe extern "C" fn before_fork() {
    let parts = protect::rest();
    let heap = route().map(|route| route.heap.rest());
    // SAFETY: the same.
    unsafe { BOOKS.keep(Some((parts, heap, insiders::rest(), later::rest()))) };
}

unsafe extern "C" fn after_fork() {
    // SAFETY: the same.
    unsafe { BOOKS.keep(None) };
}

unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: this is the child's only thread, and a copy of the one that has the books at rest.
    unsafe { after_fork() };
    stderr::own_process();
    let Some(route) = route() else { return };
    later::forget();
    route.heap.forget_calls();
    helper::forget_prepared();
    crate::caught::forget();
    if route.heap.is_out_of_reach() {
        explain_faults();
    } else if !route.heap.is_managed() {
        prepare_threads();
    }
}

/// In a child whose parent's heap is out of its reach, because the kernel had no room for it: says so when the child touches it, if that is to be its end.
fn explain_faults() {
    let Some(real) = real!(sigaction: Sigaction) else { return };
    // SAFETY: zeros are valid actions, and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsegv as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let before = Box::leak(Box::new(std::mem::zeroed()));
        if real(libc::SIGSEGV, &raw const action, before) == 0 {
            BEFORE.store(before, Ordering::Release);
        }
    }
}

/// What the program does on SIGSEGV.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// The instruction runs once more, with the program's own handler or none.
extern "C" fn on_sigsegv(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    const WHY: &str = "aquifer: a process that was forked touched its parent's managed memory, which it does not have: it \
        may use its stack, blocks below the threshold and new ones, or start another program\n";
    // SAFETY: the kernel calls the handler with a valid pointer.
    if is_managed_address(unsafe { (*info).si_addr() } as usize) {
        // SAFETY: a text of that length.
        unsafe { libc::write(2, WHY.as_ptr().cast(), WHY.len()) };
    }
    if let Some(real) = real!(sigaction: Sigaction) {
        // SAFETY: the action that was there before, or the default.
        unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            let before = BEFORE.load(Ordering::Acquire).as_ref().unwrap_or(&default);
            real(libc::SIGSEGV, before, std::ptr::null_mut());
        }
    }
}

/// Stack that fault handlers need on top of what a thread needs for itself.
const FAULT_BYTES: usize = 64 << 10;

/// # Safety
/// As the manual page of `pthread_attr_setstacksize` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstacksize(attributes: *mut pthread_attr_t, bytes: usize) -> c_int {
    let Some(real) =
        real!(pthread_attr_setstacksize: unsafe extern "C" fn(*mut pthread_attr_t, usize) -> c_int)
    else {
        return libc::ENOSYS;
    };
    // A large one may be full of thread-local variables, which lie in it.
    let more = if bytes >= libc::PTHREAD_STACK_MIN && route().is_some() { FAULT_BYTES } else { 0 };
    // SAFETY: passed on to the caller.
    unsafe { real(attributes, bytes.saturating_add(more)) }
}

/// A stack must be there when a signal comes, so it cannot be in managed memory.
///
/// # Safety
/// As the manual page of `pthread_attr_setstack` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstack(
    attributes: *mut pthread_attr_t,
    stack: *mut c_void,
    bytes: usize,
) -> c_int {
    if owns(stack) {
        crate::tell::tell!("aquifer: a thread's stack cannot be in managed memory; map it with MAP_STACK");
        set_errno(libc::EINVAL);
        return libc::EINVAL;
    }
    match real!(pthread_attr_setstack: unsafe extern "C" fn(*mut pthread_attr_t, *mut c_void, usize) -> c_int)
    {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(attributes, stack, bytes) },
        None => libc::ENOSYS,
    }
}
