//! The library's own threads, which need nothing that a program can hold.
//!
//! A heap can begin in the middle of anything: in a constructor while the loader's lock is held, in a malloc of the program's own,
//! in a handler of `fork`. A thread of Rust's standard library would then wait for ever: it registers destructors with the loader, and
//! to make a thread the C library allocates with the program's malloc. So threads are made here, by `pthread_create` alone and,
//! where the program has a malloc of its own, long before they are needed: they sleep until they are.

use std::ffi::{CStr, c_void};
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_sys::{SignalsBlocked, futex, own};

type Work = Box<dyn FnOnce() + Send>;

/// The stack of a thread beside the program's thread-local variables, which lie in it too; and the most that is tried where it is not known how large
/// these are. Builds without optimisation, which move what they make several times, use two thirds.
const STACK_BYTES: usize = 256 << 10;
const STACK_BYTES_MAX: usize = 64 << 20;
/// Threads that may sleep at a time.
const PREPARED_MAX: usize = 16;

/// A thread that sleeps until there is work. Never freed: who wakes it may look at it later than it does itself.
struct Prepared {
    /// 1 when there is.
    has_work: AtomicU32,
    /// Known when it can be taken.
    thread: AtomicU64,
    /// A box of [`Work`].
    work: AtomicPtr<Work>,
}

/// What a stack holds beside frames, once it is known.
static BESIDE_BYTES: AtomicUsize = AtomicUsize::new(0);

static PREPARED: [AtomicPtr<Prepared>; PREPARED_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; PREPARED_MAX];

/// A running thread of the library.
#[derive(Debug)]
pub struct Helper {
    thread: libc::pthread_t,
}

impl Helper {
    /// Runs `work` in a thread of its own, which takes no signals but those of faults.
    ///
    /// # Errors
    /// The kernel has no room for a thread.
    pub fn start(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let named: Work = Box::new(move || {
            // SAFETY: a name that ends with a zero byte, of this thread.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            work();
        });
        let named = Box::new(named);
        match PREPARED.iter().find_map(take) {
            Some(prepared) => {
                prepared.work.store(Box::into_raw(named), Ordering::Release);
                prepared.has_work.store(1, Ordering::Release);
                futex::wake(&prepared.has_work, 1);
                Ok(Self { thread: prepared.thread.load(Ordering::Relaxed) })
            }
            None => {
                let work = Box::into_raw(named);
                let spawned = spawn(run_work, work.cast()).inspect_err(|_| {
                    // SAFETY: there is no thread that has it.
                    drop(unsafe { Box::from_raw(work) });
                });
                Ok(Self { thread: spawned? })
            }
        }
    }

    /// Runs `work` in a thread of its own and waits for it: the caller may be on a small stack.
    ///
    /// # Errors
    /// The kernel has no room for a thread.
    pub fn run<T: Send>(name: &'static CStr, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let is_done = AtomicU32::new(0);
        let mut result = None;
        let place = &mut result;
        let done = &is_done;
        let scoped: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            *place = Some(work());
            done.store(1, Ordering::Release);
            futex::wake(done, 1);
        });
        // SAFETY: what it borrows lives until it is done, for which this function waits. Nothing unwinds out of it: the thread begins
        // with a function of the C calling convention.
        let work = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Work>(scoped) };
        let helper = Self::start(name, work)?;
        while is_done.load(Ordering::Acquire) == 0 {
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(&is_done, 0, None);
        }
        // It is not joined: its end may need locks of the caller's malloc.
        // SAFETY: it was made joinable, and is left once.
        unsafe { libc::pthread_detach(helper.thread) };
        Ok(result.expect("it is done"))
    }

    /// Waits until it has ended.
    pub fn join(self) {
        // SAFETY: the thread was made joinable, and is joined once.
        unsafe { libc::pthread_join(self.thread, std::ptr::null_mut()) };
    }
}

/// Makes threads that sleep until [`Helper::start`] takes them, so that `count` do.
///
/// # Errors
/// The kernel has no room for them.
pub fn prepare(count: usize) -> io::Result<()> {
    for place in PREPARED.iter().take(count) {
        if place.load(Ordering::Acquire).is_null() {
            let prepared: &Prepared = Box::leak(Box::new(Prepared {
                has_work: AtomicU32::new(0),
                thread: AtomicU64::new(0),
                work: AtomicPtr::new(std::ptr::null_mut()),
            }));
            let thread = spawn(run_prepared, std::ptr::from_ref(prepared).cast_mut().cast())?;
            prepared.thread.store(thread, Ordering::Relaxed);
            place.store(std::ptr::from_ref(prepared).cast_mut(), Ordering::Release);
        }
    }
    Ok(())
}

/// In a child, which has none of its parent's threads: none are prepared.
pub fn forget_prepared() {
    PREPARED.iter().for_each(|place| place.store(std::ptr::null_mut(), Ordering::Relaxed));
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

/// Asks the C library how much of a stack thread-local variables take. That needs the loader, whose lock a program may hold when it needs a thread: so it
/// is to be asked at start.
pub fn look_at_stacks() {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    // SAFETY: this is the function's type; NULL is none.
    if let Some(least) = unsafe { std::mem::transmute::<*mut c_void, Option<Least>>(found) } {
        // SAFETY: zeros are room for attributes.
        let attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        // SAFETY: it does not look at the attributes.
        let bytes = unsafe { least(&raw const attributes) };
        BESIDE_BYTES.store(bytes.next_multiple_of(OS_PAGE_BYTES), Ordering::Relaxed);
    }
}

/// Takes a thread that sleeps.
fn take(place: &AtomicPtr<Prepared>) -> Option<&'static Prepared> {
    let prepared = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: it is never freed.
    unsafe { prepared.as_ref() }
}

fn spawn(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> io::Result<libc::pthread_t> {
    // The thread inherits the mask.
    let _signals = SignalsBlocked::new();
    let mut stack_bytes = STACK_BYTES + BESIDE_BYTES.load(Ordering::Relaxed);
    loop {
        match create(run, argument, stack_bytes) {
            Err(libc::EINVAL) if stack_bytes < STACK_BYTES_MAX => stack_bytes *= 4,
            created => return created.map_err(io::Error::from_raw_os_error),
        }
    }
}

/// # Errors
/// The C library's number; `EINVAL` if the stack is too small.
fn create(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    stack_bytes: usize,
) -> Result<libc::pthread_t, i32> {
    // SAFETY: zeros are room for attributes, which are initialised before they are used.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let mut thread = 0;
    // SAFETY: the attributes and the thread are the caller's own; `run` has the type that is asked for.
    let failed = unsafe {
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let failed = libc::pthread_create(&raw mut thread, &raw const attributes, run, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        failed
    };
    if failed == 0 { Ok(thread) } else { Err(failed) }
}

extern "C" fn run_work(work: *mut c_void) -> *mut c_void {
    own::with(|own| own.is_helper.set(true));
    // SAFETY: the box of who made the thread.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    work();
    std::ptr::null_mut()
}

extern "C" fn run_prepared(prepared: *mut c_void) -> *mut c_void {
    // SAFETY: it is never freed.
    let prepared = unsafe { &*prepared.cast::<Prepared>() };
    while prepared.has_work.load(Ordering::Acquire) == 0 {
        // Interrupted or changed meanwhile: the loop looks again.
        let _ = futex::wait(&prepared.has_work, 0, None);
    }
    run_work(prepared.work.load(Ordering::Acquire).cast())
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn threads_do_what_they_are_given() {
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
