//! The library's own threads, which need nothing that a program can hold.
//!
//! A heap can begin in the middle of anything: in a constructor while the loader's lock is held, in a malloc of the program's own,
//! in a handler of `fork`. A thread of Rust's standard library would then wait for ever: it registers destructors with the loader, and
//! to make a thread the C library allocates with the program's malloc. So threads are made here, by `pthread_create` alone and,
//! where the program has a malloc of its own, long before they are needed: they sleep until they are.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::errno::{Errno, Result};
use crate::{SignalsBlocked, futex, own, process};

const PAGE_BYTES: usize = 4096;
/// The stack of a thread beside the program's thread-local variables, which lie in it too; and the most that is tried where it is not known how large
/// these are. Builds without optimisation, which move what they make several times, use two thirds.
const STACK_BYTES: usize = 256 << 10;
const STACK_BYTES_MAX: usize = 64 << 20;
/// Threads that may sleep at a time, and as many spare ones.
const PREPARED_MAX: usize = 16;

/// What a stack holds beside frames, once it is known.
static BESIDE_BYTES: AtomicUsize = AtomicUsize::new(0);

static PREPARED: [Prepared; PREPARED_MAX] = [const { Prepared::new() }; PREPARED_MAX];
static SPARE: [Prepared; PREPARED_MAX] = [const { Prepared::new() }; PREPARED_MAX];

/// Whether threads were ever prepared: they may be impossible to make now.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// A running thread of the library.
#[derive(Debug)]
pub struct Helper {
    thread: libc::pthread_t,
}

impl Helper {
    /// Runs `work` in a thread of its own, which takes no signals but those of faults, and returns when the thread has it.
    ///
    /// # Errors
    /// The kernel has no room for a thread.
    pub fn start(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> Result<Self> {
        // SAFETY: it borrows nothing that ends.
        unsafe { Self::start_scoped(name, work, &PREPARED, true) }
    }

    /// As [`start`](Self::start), for what can be done without: takes no thread that was prepared for something else, and makes none
    /// where threads were prepared.
    ///
    /// # Errors
    /// The kernel has no room for a thread; [`Errno::EAGAIN`] where no spare one sleeps and none may be made.
    pub fn start_spare(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> Result<Self> {
        // SAFETY: it borrows nothing that ends.
        unsafe { Self::start_scoped(name, work, &SPARE, !IS_PREPARED.load(Ordering::Relaxed)) }
    }

    /// # Safety
    /// What `work` borrows lives until it has ended.
    unsafe fn start_scoped<W: FnOnce() + Send>(
        name: &'static CStr,
        work: W,
        places: &'static [Prepared],
        may_spawn: bool,
    ) -> Result<Self> {
        let handed = Handed::new(name, work);
        let argument = ptr::from_ref(&handed).cast_mut().cast();
        let started = match places.iter().find(|prepared| prepared.claim()) {
            Some(prepared) => Ok(prepared.wake(run_work::<W>, argument)),
            None if may_spawn => spawn(run_work::<W>, argument),
            None => Err(Errno::EAGAIN),
        };
        match started {
            Ok(thread) => {
                handed.is_taken.wait();
                Ok(Self { thread })
            }
            Err(errno) => {
                // SAFETY: there is no thread that has it.
                drop(unsafe { handed.take() });
                Err(errno)
            }
        }
    }

    /// Runs `work` in a thread of its own and waits for it: the caller may be on a small stack.
    ///
    /// # Errors
    /// The kernel has no room for a thread.
    pub fn run<T: Send>(name: &'static CStr, work: impl FnOnce() -> T + Send) -> Result<T> {
        let done = Flag::new();
        let mut result = None;
        let place = &mut result;
        let scoped = || {
            *place = Some(work());
            done.set();
        };
        // SAFETY: what it borrows lives until it is done, for which this function waits. Nothing unwinds out of it: the thread begins
        // with a function of the C calling convention.
        let helper = unsafe { Self::start_scoped(name, scoped, &PREPARED, true) }?;
        done.wait();
        // It is not joined: its end may need locks of the caller's malloc.
        // SAFETY: it was made joinable, and is left once.
        unsafe { libc::pthread_detach(helper.thread) };
        Ok(result.expect("it is done"))
    }

    /// Waits until it has ended.
    pub fn join(self) {
        // SAFETY: the thread was made joinable, and is joined once.
        unsafe { libc::pthread_join(self.thread, ptr::null_mut()) };
    }
}

/// Makes threads that sleep until [`Helper::start`] takes them, so that `count` do.
///
/// # Errors
/// The kernel has no room for them.
pub fn prepare(count: usize) -> Result<()> {
    IS_PREPARED.store(true, Ordering::Relaxed);
    PREPARED.iter().take(count).try_for_each(Prepared::fill)
}

/// As [`prepare`], for [`Helper::start_spare`].
///
/// # Errors
/// The kernel has no room for all of them.
pub fn prepare_spare(count: usize) -> Result<()> {
    SPARE.iter().take(count).try_for_each(Prepared::fill)
}

/// Threads that sleep for [`Helper::start`]. Dropping this ends the threads that still sleep.
#[derive(Debug)]
pub struct Reserved(());

/// Makes `count` threads for [`Helper::start`], before others take the room for them; none where threads were prepared.
///
/// # Errors
/// The kernel has no room for them.
pub fn reserve(count: usize) -> Result<Option<Reserved>> {
    if IS_PREPARED.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let reserved = Reserved(());
    PREPARED.iter().take(count).try_for_each(Prepared::fill)?;
    Ok(Some(reserved))
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for prepared in PREPARED.iter().filter(|prepared| prepared.claim()) {
            let thread = prepared.wake(run_nothing, ptr::null_mut());
            // SAFETY: it was made joinable, and is left once.
            unsafe { libc::pthread_detach(thread) };
        }
    }
}

/// In a child, which has none of its parent's threads: none are prepared.
pub fn forget_prepared() {
    PREPARED.iter().chain(&SPARE).for_each(|prepared| prepared.state.store(EMPTY, Ordering::Relaxed));
}

/// Whether this thread is one of the library's, or does the library's work at this moment.
pub fn is_helper() -> bool {
    own::with(|own| own.is_helper.get())
}

/// Does work of the library's in a thread of the program: [`is_helper`] meanwhile.
pub fn as_helper<T>(work: impl FnOnce() -> T) -> T {
    let before = own::with(|own| own.is_helper.replace(true));
    let done = work();
    own::with(|own| own.is_helper.set(before));
    done
}

/// Runs `work`, all that a thread of the standard library does for the library, without signals and as a helper. Code
/// that this thread calls or loads may allocate while the program waits for the thread, with locks that the heap needs.
pub fn serve<T>(work: impl FnOnce() -> T) -> T {
    let _signals = SignalsBlocked::new();
    as_helper(work)
}

/// Asks the C library how much of a stack thread-local variables take. That needs the loader, whose lock a program may hold when it needs a thread: so it
/// is to be asked at start.
pub fn look_at_stacks() {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    // SAFETY: this is the function's type; NULL becomes `None`.
    if let Some(least) = unsafe { core::mem::transmute::<*mut c_void, Option<Least>>(found) } {
        // SAFETY: zeros are room for attributes.
        let attributes: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
        // SAFETY: it does not look at the attributes.
        let bytes = unsafe { least(&raw const attributes) };
        BESIDE_BYTES.store(bytes.next_multiple_of(PAGE_BYTES), Ordering::Relaxed);
    }
}

type Run = extern "C" fn(*mut c_void) -> *mut c_void;

/// A word that one thread sets once while another waits for it.
struct Flag(AtomicU32);

/// Goes up when any flag is set, and is slept on in their place: a flag may be gone when it is set.
static SETS: AtomicU32 = AtomicU32::new(0);

impl Flag {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn set(&self) {
        self.0.store(1, Ordering::Release);
        SETS.fetch_add(1, Ordering::Release);
        futex::wake(&SETS, u32::MAX);
    }

    fn wait(&self) {
        loop {
            let sets = SETS.load(Ordering::Acquire);
            if self.0.load(Ordering::Acquire) != 0 {
                return;
            }
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(&SETS, sets, None);
        }
    }
}

/// Work on its way to a thread. It lies on the stack of who starts the thread, and waits there until the thread has it.
struct Handed<W> {
    name: &'static CStr,
    work: UnsafeCell<ManuallyDrop<W>>,
    is_taken: Flag,
}

impl<W: FnOnce() + Send> Handed<W> {
    fn new(name: &'static CStr, work: W) -> Self {
        Self { name, work: UnsafeCell::new(ManuallyDrop::new(work)), is_taken: Flag::new() }
    }

    /// # Safety
    /// It is taken once.
    unsafe fn take(&self) -> W {
        // SAFETY: the caller says that nobody else does this.
        unsafe { ManuallyDrop::take(&mut *self.work.get()) }
    }
}

/// No thread is there.
const EMPTY: u32 = 0;
/// Somebody makes a thread, or has taken it and will wake it.
const CLAIMED: u32 = 1;
/// A thread sleeps.
const ASLEEP: u32 = 2;
/// It has what it is to run.
const AWAKE: u32 = 3;

/// A place for a thread that sleeps until there is work.
struct Prepared {
    state: AtomicU32,
    /// The thread and its process, known when it is asleep.
    thread: AtomicU64,
    pid: AtomicU32,
    /// A [`Run`] and its argument, when it is awake.
    run: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
}

impl Prepared {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            thread: AtomicU64::new(0),
            pid: AtomicU32::new(0),
            run: AtomicPtr::new(ptr::null_mut()),
            argument: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Changes the state from `before` to [`CLAIMED`], if it is `before`.
    fn claim_from(&self, before: u32) -> bool {
        self.state.compare_exchange(before, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the thread that sleeps here, if one does. A forked child has none of its parent's.
    fn claim(&self) -> bool {
        self.state.load(Ordering::Acquire) == ASLEEP
            && self.pid.load(Ordering::Relaxed) == process::id()
            && self.claim_from(ASLEEP)
    }

    /// Makes a thread if none is here.
    fn fill(&self) -> Result<()> {
        if !self.claim_from(EMPTY) {
            return Ok(());
        }
        let made = spawn(run_prepared, ptr::from_ref(self).cast_mut().cast());
        self.thread.store(made.unwrap_or(0), Ordering::Relaxed);
        self.pid.store(process::id(), Ordering::Relaxed);
        self.state.store(if made.is_ok() { ASLEEP } else { EMPTY }, Ordering::Release);
        made.map(drop)
    }

    /// Has the thread that was claimed run something.
    fn wake(&self, run: Run, argument: *mut c_void) -> libc::pthread_t {
        let thread = self.thread.load(Ordering::Relaxed);
        self.run.store(run as *mut c_void, Ordering::Relaxed);
        self.argument.store(argument, Ordering::Relaxed);
        self.state.store(AWAKE, Ordering::Release);
        futex::wake(&self.state, 1);
        thread
    }
}

fn spawn(run: Run, argument: *mut c_void) -> Result<libc::pthread_t> {
    // The thread inherits the mask.
    let _signals = SignalsBlocked::new();
    let mut stack_bytes = STACK_BYTES + BESIDE_BYTES.load(Ordering::Relaxed);
    loop {
        match create(run, argument, stack_bytes) {
            Err(Errno::EINVAL) if stack_bytes < STACK_BYTES_MAX => stack_bytes *= 4,
            created => return created,
        }
    }
}

/// # Errors
/// The C library's number; `EINVAL` if the stack is too small.
fn create(run: Run, argument: *mut c_void, stack_bytes: usize) -> Result<libc::pthread_t> {
    // SAFETY: zeros are room for attributes, which are initialised before they are used.
    let mut attributes: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    let mut thread = 0;
    // SAFETY: the attributes and the thread are the caller's own; `run` has the type that is asked for.
    let failed = unsafe {
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let failed = libc::pthread_create(&raw mut thread, &raw const attributes, run, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        failed
    };
    if failed == 0 { Ok(thread) } else { Err(Errno(failed)) }
}

extern "C" fn run_work<W: FnOnce() + Send>(handed: *mut c_void) -> *mut c_void {
    own::with(|own| own.is_helper.set(true));
    // SAFETY: who starts the thread keeps it until it is taken, and hands it to this thread alone.
    let (name, work) = unsafe {
        let handed = &*handed.cast::<Handed<W>>();
        let taken = (handed.name, handed.take());
        handed.is_taken.set();
        taken
    };
    // SAFETY: a name that ends with a zero byte, of this thread.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    work();
    ptr::null_mut()
}

extern "C" fn run_prepared(prepared: *mut c_void) -> *mut c_void {
    // SAFETY: places are never freed.
    let prepared = unsafe { &*prepared.cast::<Prepared>() };
    loop {
        match prepared.state.load(Ordering::Acquire) {
            AWAKE => break,
            state => {
                // Interrupted or changed meanwhile: the loop looks again.
                let _ = futex::wait(&prepared.state, state, None);
            }
        }
    }
    // SAFETY: a function of this type was stored before the state.
    let run = unsafe { core::mem::transmute::<*mut c_void, Run>(prepared.run.load(Ordering::Relaxed)) };
    let argument = prepared.argument.load(Ordering::Relaxed);
    // The place may have another thread from here on.
    prepared.state.store(EMPTY, Ordering::Release);
    run(argument)
}

extern "C" fn run_nothing(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ended_well, in_child};
    use std::sync::Arc;

    thread_local! {
        static WIDE: [std::cell::Cell<u8>; 200 << 10] = const { [const { std::cell::Cell::new(0) }; 200 << 10] };
    }

    /// As much stack as a takeover needs is there whatever the program keeps in thread-local variables.
    #[test]
    fn stacks_have_room_beside_thread_local_variables() {
        look_at_stacks();
        assert!(BESIDE_BYTES.load(Ordering::Relaxed) > 200 << 10);
        let sum = Helper::run(c"test", || {
            let frames = std::hint::black_box([1u8; 220 << 10]);
            WIDE.with(|wide| wide[7].set(frames[9]));
            frames.iter().map(|byte| usize::from(*byte)).sum::<usize>()
        });
        assert_eq!(sum.unwrap(), 220 << 10);
    }

    /// What can be done without leaves threads that were prepared to others.
    #[test]
    fn spare_threads_are_no_others() {
        // Other tests may take what is prepared here.
        look_at_stacks();
        prepare(1).unwrap();
        let start = || Helper::start_spare(c"test", || ());
        assert!(matches!(start(), Err(Errno::EAGAIN)));
        prepare_spare(2).unwrap();
        start().unwrap().join();
        start().unwrap().join();
        assert!(matches!(start(), Err(Errno::EAGAIN)));
    }

    /// They are the process's own: a child finds none, as it has no threads of its parent.
    #[test]
    fn a_child_does_not_wait_for_threads_of_its_parent() {
        static PLACE: Prepared = Prepared::new();
        PLACE.fill().unwrap();
        assert!(ended_well(in_child(|| i32::from(PLACE.claim()))));
        assert!(PLACE.claim());
        PLACE.wake(run_nothing, ptr::null_mut());
    }

    /// Work is dropped once, whether it was done or not.
    #[test]
    fn work_is_dropped_once() {
        let held = Arc::new(());
        let inside = held.clone();
        Helper::start(c"test", move || drop(inside)).unwrap().join();
        assert_eq!(Arc::strong_count(&held), 1);
        let inside = held.clone();
        let handed = Handed::new(c"test", move || drop(inside));
        assert_eq!(Arc::strong_count(&held), 2);
        // SAFETY: no thread has it.
        drop(unsafe { handed.take() });
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn threads_do_what_they_are_given() {
        look_at_stacks();
        let done = Arc::new(AtomicUsize::new(0));
        prepare(3).unwrap();
        // Three of them sleep already.
        let helpers: Vec<_> = (0..8)
            .map(|n| {
                let done = done.clone();
                Helper::start(c"test", move || {
                    assert!(is_helper());
                    done.fetch_add(1 << (4 * n), Ordering::SeqCst);
                })
                .unwrap()
            })
            .collect();
        helpers.into_iter().for_each(Helper::join);
        assert_eq!(done.load(Ordering::SeqCst), 0x1111_1111);
        assert_eq!(
            Helper::run(c"test", || (is_helper(), done.load(Ordering::SeqCst) >> 28)).unwrap(),
            (true, 1)
        );
        assert!(!is_helper() && as_helper(is_helper) && !is_helper());
    }
}
