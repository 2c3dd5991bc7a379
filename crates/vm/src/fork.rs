//! What a forked child finds of a heap.
//!
//! - Of most heaps, nothing: the region is not copied to the child (`MADV_DONTFORK`), and its addresses are made
//!   inaccessible there, so that nothing else is mapped at them. A child that touches an object dies of SIGSEGV instead
//!   of reading zeros.
//! - Of a heap under a program that knows nothing of it, a snapshot (`snapshot`): all its memory as it was.
//!
//! Functions of the library see [`is_forked`] and refuse.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use aquifer_sys::lifeline::{Line, lifeline};
use aquifer_sys::{Errno, SignalsBlocked, futex, memory, own, process};

use crate::fault::abort_in_fault;
use crate::fault::signal::HEAPS_MAX;
use crate::recess;

struct Region {
    base: AtomicUsize,
    len: AtomicUsize,
    /// A heap whose children get snapshots; else null.
    target: AtomicPtr<Arc<dyn ForkTarget>>,
    /// Held by the child that is being forked.
    line: Line,
}

static REGIONS: [Region; HEAPS_MAX] = [const {
    Region {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        target: AtomicPtr::new(std::ptr::null_mut()),
        line: Line::none(),
    }
}; HEAPS_MAX];
static FORKED: AtomicBool = AtomicBool::new(false);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// 1 while a thread forks.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Memory that a child can be given as it was.
pub trait ForkTarget: Send + Sync {
    /// First byte and length.
    fn range(&self) -> (*mut u8, usize);

    /// Brings everybody between two steps. What the child may read is kept until `is_over`.
    ///
    /// # Errors
    /// The kernel's: the child finds nothing.
    fn before_fork(&self, is_over: Box<dyn Fn() -> bool + Send + Sync>) -> Result<(), Errno>;

    /// Lets everybody go on before the fork after all, until [`ForkTarget::pause`].
    fn go_on(&self);

    /// Brings everybody between two steps again.
    fn pause(&self);

    /// Lets everybody go on in the parent.
    ///
    /// # Errors
    /// The kernel's: children that know nothing of it would be given the memory.
    fn in_parent(&self) -> Result<(), Errno>;

    /// The child begins. Async-signal-safe, as all that is done there.
    fn in_child(&self);

    /// In a child: makes its copy a snapshot; false if that is impossible.
    fn become_snapshot(&self) -> bool;
}

/// What a child has of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// Nothing.
    Excluded,
    /// Its memory as it was. Faults must reach [`crate::fault::signal`], and all pages be whole.
    Snapshot,
}

/// Whether this process is a child of the one that opened its heaps.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Whether an address is in the region of any heap of this process.
pub fn is_in_a_region(address: usize) -> bool {
    REGIONS.iter().any(|region| {
        let base = region.base.load(Ordering::Relaxed);
        base != 0 && address.wrapping_sub(base) < region.len.load(Ordering::Relaxed)
    })
}

/// A region that children cannot change, until this is dropped.
pub struct ForkGuard {
    index: usize,
    _target: Box<Arc<dyn ForkTarget>>,
}

/// What rests besides while nobody may go on.
struct Beside {
    rest: fn(),
    go_on: fn(),
}

static BESIDE: OnceLock<Beside> = OnceLock::new();
/// The thread that has run the last handler before its fork, and none after it.
static BETWEEN: AtomicU32 = AtomicU32::new(0);
/// How long everybody goes on while a thread waits to fork.
const RECESS_NS: u64 = 20_000_000;

/// As [`install`]; `rest` is called when everybody has been brought between two steps, `go_on` before they go on, in the child, too.
pub fn install_with(rest: fn(), go_on: fn()) {
    BESIDE.get_or_init(|| Beside { rest, go_on });
    install();
}

/// Has what is needed done when the process forks. Handlers that are installed earlier may touch memory of heaps when they run in a
/// child, those that are installed later must not before the fork; so a library that stands in front of others
/// calls this first.
pub fn install() {
    // Not `Once`: a library that stands in front of `pthread_atfork` may come here again from inside.
    if !IS_INSTALLED.swap(true, Ordering::AcqRel) {
        recess::install(recess);
        // SAFETY: the hooks do in a child what is async-signal-safe. Without memory for them, children find the region unmapped.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

/// Protects a heap's memory from children that are forked from now on. `None` if there are
/// [`HEAPS_MAX`] heaps already.
pub fn guard(target: Arc<dyn ForkTarget>, children: Children) -> Option<ForkGuard> {
    install();
    let (base, len) = target.range();
    let base = base as usize;
    let index = REGIONS
        .iter()
        .position(|r| r.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok())?;
    REGIONS[index].len.store(len, Ordering::Release);
    let target = Box::new(target);
    if children == Children::Snapshot {
        REGIONS[index].target.store(std::ptr::from_ref(&*target).cast_mut(), Ordering::Release);
    }
    Some(ForkGuard { index, _target: target })
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        let _forking = Forking::begin();
        let region = &REGIONS[self.index];
        region.target.store(std::ptr::null_mut(), Ordering::Release);
        region.len.store(0, Ordering::Release);
        region.base.store(0, Ordering::Release);
    }
}

/// While this lives no other thread forks, and no handler of a signal comes in between: it may touch memory whose heap rests.
struct Forking {
    _signals: SignalsBlocked,
}

/// That of the thread that forks, from the first handler to the last.
struct Handlers(UnsafeCell<Option<Forking>>);

// SAFETY: only the thread that forks looks here.
unsafe impl Sync for Handlers {}

static HANDLERS: Handlers = Handlers(UnsafeCell::new(None));

/// The last handler of a fork.
fn end() {
    // SAFETY: this thread, or the one that it is a copy of, forks.
    drop(unsafe { (*HANDLERS.0.get()).take() });
}

impl Forking {
    fn begin() -> Self {
        let _signals = SignalsBlocked::new();
        while FORKING.swap(1, Ordering::Acquire) != 0 {
            // Interrupted or changed meanwhile: the loop looks again.
            let _ = futex::wait(&FORKING, 1, None);
        }
        Self { _signals }
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        FORKING.store(0, Ordering::Release);
        futex::wake(&FORKING, 1);
    }
}

impl Region {
    fn range(&self) -> Option<(*mut u8, usize)> {
        let (base, len) = (self.base.load(Ordering::Acquire), self.len.load(Ordering::Acquire));
        (base != 0 && len != 0).then_some((base as *mut u8, len))
    }

    fn target(&self) -> Option<&'static dyn ForkTarget> {
        // SAFETY: the guard keeps it alive, and is not dropped while a thread forks.
        unsafe { self.target.load(Ordering::Acquire).as_ref() }.map(|target| &**target)
    }
}

extern "C" fn before() {
    let forking = Forking::begin();
    // SAFETY: no other thread forks.
    unsafe { *HANDLERS.0.get() = Some(forking) };
    for region in &REGIONS {
        if let Some(target) = region.target()
            && let Ok((line, watch)) = lifeline()
            && target.before_fork(Box::new(move || watch.is_cut())).is_ok()
        {
            region.line.take(line);
        }
    }
    begin_wait();
}

fn begin_wait() {
    if let Some(beside) = BESIDE.get() {
        (beside.rest)();
    }
    BETWEEN.store(process::thread_id(), Ordering::Relaxed);
}

fn end_wait() {
    BETWEEN.store(0, Ordering::Relaxed);
    if let Some(beside) = BESIDE.get() {
        (beside.go_on)();
    }
}

/// In a handler of the thread that forks: who holds a lock that it waits for may be waiting for it.
fn recess() {
    if BETWEEN.load(Ordering::Relaxed) != process::thread_id() {
        return;
    }
    end_wait();
    targets().for_each(ForkTarget::go_on);
    // Interrupted: a short one.
    let _ = futex::wait(&BETWEEN, 0, Some(RECESS_NS));
    targets().for_each(ForkTarget::pause);
    begin_wait();
}

fn targets() -> impl Iterator<Item = &'static dyn ForkTarget> {
    REGIONS.iter().filter_map(Region::target)
}

extern "C" fn in_parent() {
    end_wait();
    for region in &REGIONS {
        if let Some(target) = region.target() {
            region.line.let_go();
            if target.in_parent().is_err() {
                abort_in_fault(b"the kernel refused to keep a heap from children\n");
            }
        }
    }
    end();
}

extern "C" fn in_child() {
    own::forget_thread_id();
    end_wait();
    for region in &REGIONS {
        let Some((base, len)) = region.range() else { continue };
        FORKED.store(true, Ordering::Relaxed);
        if let Some(target) = region.target() {
            target.in_child();
        }
        let has_snapshot = region.line.keep() && region.target().is_some_and(ForkTarget::become_snapshot);
        if !has_snapshot {
            // SAFETY: nothing in the range is needed in this process.
            let _ = unsafe { memory::protect_none_fixed(base, len) };
        }
    }
    end();
}
