//! What a forked child may do with a heap: nothing, and it must notice.
//!
//! The region is not copied to the child (`MADV_DONTFORK`), and its addresses are made inaccessible there,
//! so that nothing else is mapped at them: a child that touches an object dies of SIGSEGV instead of
//! reading zeros. Functions of the library see [`is_forked`] and refuse.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::engine::Engine;
use crate::fault::signal::HEAPS_MAX;

struct Region {
    base: AtomicUsize,
    len: AtomicUsize,
}

static REGIONS: [Region; HEAPS_MAX] =
    [const { Region { base: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; HEAPS_MAX];
static FORKED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Whether this process is a child of the one that opened its heaps.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// A region that children cannot touch, until this is dropped.
pub struct ForkGuard {
    index: usize,
}

/// Protects the engine's region from children that are forked from now on. `None` if there are
/// [`HEAPS_MAX`] heaps already.
pub fn guard(engine: &Engine) -> Option<ForkGuard> {
    HOOK.call_once(|| {
        // SAFETY: the hook is async-signal-safe. Without memory for it, children find the region unmapped.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let base = engine.base() as usize;
    let index = REGIONS
        .iter()
        .position(|r| r.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok())?;
    REGIONS[index].len.store(engine.region_bytes(), Ordering::Release);
    Some(ForkGuard { index })
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        REGIONS[self.index].len.store(0, Ordering::Release);
        REGIONS[self.index].base.store(0, Ordering::Release);
    }
}

extern "C" fn in_child() {
    for region in &REGIONS {
        let (base, len) = (region.base.load(Ordering::Acquire), region.len.load(Ordering::Acquire));
        if base != 0 && len != 0 {
            FORKED.store(true, Ordering::Relaxed);
            // SAFETY: the range was the parent's region, which is not mapped here.
            let _ = unsafe { aquifer_sys::memory::protect_none_fixed(base as *mut u8, len) };
        }
    }
}
