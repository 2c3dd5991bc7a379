//! Forks of this process: a child has what its parent had open, and must not write to it.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static FORKS: AtomicUsize = AtomicUsize::new(0);
static HANDLER: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that is another one in a child than in its parent.
pub(crate) fn count() -> usize {
    HANDLER.call_once(|| {
        // SAFETY: the handler adds to a number, which is async-signal-safe. Without memory for it, forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}
