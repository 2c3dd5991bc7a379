//! What a process does before memory is swapped to it.
//!
//! The kernel swaps because it has no memory. A process that serves the swap area must not need any then: its own pages must not be swapped out to itself,
//! the kernel must not wait for swapping on its behalf, and must not end it to have its memory.

use std::fs;
use std::io;
use std::ops::Range;

use rustix::mm::{MlockAllFlags, mlock, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The kernel's file for the value that keeps a process from being ended for its memory.
const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";
/// The kernel's list of this process's memory.
const MAPS: &str = "/proc/self/maps";
/// Memory that a program reserves and may never need.
const LARGE_BYTES: usize = 48 << 20;
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

/// Has the allocator take memory that it keeps, so that what is allocated later asks the kernel for none: `later_bytes` before
/// anything is served, and the reserve.
fn reserve(later_bytes: usize) {
    // Every page is touched, so all of it is in RAM.
    drop(std::hint::black_box(vec![1_u8; RESERVE_BYTES + later_bytes]));
}

/// Takes a reserve, and locks the memory of this process into RAM, as far as its limit allows; gives what could not be done. What threads
/// will allocate that are started later, `later_bytes`, is not to come out of the reserve.
///
/// With a limit only what is there now is locked. To lock also what comes would make the first allocation above the limit fail, and with it the process.
///
/// # Context
/// When the large allocations are made, and before anything is served.
#[must_use]
pub fn lock_memory(later_bytes: usize) -> Option<Omitted> {
    lock(later_bytes, || mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE))
}

/// As [`lock_memory`], for a program that is not ours: what it has reserved in pieces of [`LARGE_BYTES`] or more and never
/// touched stays away until it is touched, and is locked then. nbdkit 1.32 has 192 MiB of that.
///
/// # Context
/// See [`lock_memory`].
#[must_use]
pub fn lock_touched_memory() -> Option<Omitted> {
    lock(0, || {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT)?;
        for mapping in mappings(&fs::read_to_string(MAPS).unwrap_or_default()) {
            // SAFETY: locking changes no byte. A range that is gone meanwhile, or may not be read, is an error and stays as it is.
            let _ = unsafe { mlock(mapping.start as *mut _, mapping.len()) };
        }
        mlockall(MlockAllFlags::FUTURE)
    })
}

/// The mappings in the kernel's list that are to be there, by their addresses: all but large ones without a file.
fn mappings(list: &str) -> impl Iterator<Item = Range<usize>> {
    list.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (start, end) = columns.next()?.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let has_file = columns.nth(3)? != "0";
        (has_file || range.len() < LARGE_BYTES).then_some(range)
    })
}

fn lock(later_bytes: usize, lock_all: impl FnOnce() -> rustix::io::Result<()>) -> Option<Omitted> {
    reserve(later_bytes);
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
        _ => lock_all().err().map(|error| Omitted::Lock(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_mappings_without_a_file_are_left_out() {
        let list = "1000-2000 r-xp 00000000 08:01 42   /usr/bin/nbdkit\n\
            10000000-20000000 rw-p 00000000 00:00 0 \n\
            20000000-30000000 r--p 00000000 08:01 43 /usr/lib/locale/locale-archive\n\
            7ffc0000-7ffd0000 rw-p 00000000 00:00 0   [stack]\n\
            nonsense\n";
        let found: Vec<_> = mappings(list).map(|range| range.start).collect();
        assert_eq!(found, [0x1000, 0x2000_0000, 0x7ffc_0000]);
    }

    /// Locked, and yet not there: what was reserved and never touched.
    #[test]
    fn reserved_memory_is_not_made() {
        let reserved = vec![0u8; 256 << 20];
        if lock_touched_memory().is_some() {
            println!("SKIP this process may not lock its memory");
            return;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> usize {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
        };
        assert!(field("VmLck:") > 256 << 10 && field("VmRSS:") < 128 << 10, "{status}");
        drop(reserved);
    }
}
