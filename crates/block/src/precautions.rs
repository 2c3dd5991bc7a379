//! What a process does before memory is swapped to it.
//!
//! The kernel swaps because it has no memory. A process that serves the swap area must not need any then: its own pages must not be swapped out to itself,
//! the kernel must not wait for swapping on its behalf, and must not end it to have its memory.

use std::fs;
use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The kernel's file for the value that keeps a process from being ended for its memory.
const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";
/// That value.
const NEVER: &str = "-1000";
/// What the allocator has at hand while an area is used: for batches of transfers to donors, for connections that are made anew, and for what libraries take.
const RESERVE_BYTES: usize = 16 << 20;

/// One precaution that could not be taken: what may happen, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Omitted {
    /// Pages of this process can be swapped out.
    #[error(
        "this process may be swapped out to itself ({0}): be root, or raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity)"
    )]
    Lock(io::Error),
    /// What was there is locked, what comes is not.
    #[error(
        "memory that it takes from now on may be swapped out to itself, the limit is {0} bytes: be root, or raise it (ulimit -l unlimited, LimitMEMLOCK=infinity)"
    )]
    LockLater(u64),
    /// The kernel may wait for swapping when this process needs memory.
    #[error("the kernel may make it wait for its own swapping ({0}): give it CAP_SYS_RESOURCE")]
    IoFlusher(io::Error),
    /// The kernel may end this process to have its memory.
    #[error(
        "the kernel may end it when memory runs out ({0}): give it CAP_SYS_RESOURCE, or OOMScoreAdjust=-1000"
    )]
    OomScore(io::Error),
}

/// Marks this process as one that memory is written to, and keeps it from being ended for its memory; gives what could not be done.
///
/// # Context
/// Before any other thread is started: threads inherit the mark from the one that starts them.
#[must_use]
pub fn mark_process() -> Vec<Omitted> {
    let flusher = configure_io_flusher_behavior(true).map_err(|error| Omitted::IoFlusher(error.into()));
    let score = fs::write(OOM_SCORE_ADJ, NEVER).map_err(Omitted::OomScore);
    keep_what_was_freed();
    [flusher.err(), score.err()].into_iter().flatten().collect()
}

/// Makes the allocator give nothing back to the kernel, and take everything from one place, where what was freed is found again.
fn keep_what_was_freed() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, -1)] {
        // SAFETY: it changes where later allocations come from, and nothing else.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Has the allocator take memory that it keeps, so that what is allocated later asks the kernel for none.
fn reserve() {
    // Every page is touched, so all of it is in RAM.
    drop(std::hint::black_box(vec![1_u8; RESERVE_BYTES]));
}

/// Takes a reserve, and locks the memory of this process into RAM, as far as its limit allows; gives what could not be done.
///
/// With a limit only what is there now is locked. To lock also what comes would make the first allocation above the limit fail, and with it the process.
///
/// # Context
/// When the large allocations are made, and before anything is served.
#[must_use]
pub fn lock_memory() -> Option<Omitted> {
    reserve();
    // Every process may raise its limit as far as the other one allows; if not, the lower one stays.
    let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
    let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Memlock).current;
    let may_lock_all = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    match limit {
        Some(bytes) if !may_lock_all => match mlockall(MlockAllFlags::CURRENT) {
            Ok(()) => Some(Omitted::LockLater(bytes)),
            Err(error) => Some(Omitted::Lock(error.into())),
        },
        _ => mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
            .err()
            .map(|error| Omitted::Lock(error.into())),
    }
}
