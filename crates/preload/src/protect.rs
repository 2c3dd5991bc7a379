//! Parts of managed memory that the program has protected, or over which it has mapped something else.
//!
//! A heap reads and fills its pages, also ahead of faults. It cannot do so where the program may not. So
//! pages with some access are pinned: they stay as they are. Pages without any access are hidden: none of
//! them is at its address.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer::{PageHeap, ProtectedRange};
use aquifer_sys::SignalsBlocked;
use libc::{PROT_READ, PROT_WRITE, c_int};

use crate::real::real;
use crate::route::{route, set_errno};

const OPEN: c_int = PROT_READ | PROT_WRITE;

/// What is the matter with a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Only such accesses are allowed.
    Protected { protection: c_int, hold: Hold },
    /// The kernel's. The heap does not use these addresses again.
    Foreign,
}

/// How the heap bears that pages are protected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// They are ordinary memory, or can be read and written.
    None,
    Pinned,
    Hidden,
}

/// Addresses of whole pages.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    kind: Kind,
}

/// They do not overlap.
static PARTS: Mutex<Vec<Part>> = Mutex::new(Vec::new());
/// How many there are, for a look without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The parts, for one thread, in which no handler of a signal comes in between: it may protect memory, too.
struct Parts(MutexGuard<'static, Vec<Part>>, #[expect(dead_code)] SignalsBlocked);

/// No thread is at the parts while this lives.
pub struct Rest {
    _parts: Parts,
}

/// Keeps threads from the parts: around a fork.
pub fn rest() -> Rest {
    Rest { _parts: Parts::lock() }
}

impl Parts {
    fn lock() -> Self {
        let signals = SignalsBlocked::new();
        Self(PARTS.lock().unwrap_or_else(PoisonError::into_inner), signals)
    }

    /// Takes what lies in a range out of the list.
    fn take(&mut self, start: usize, end: usize) -> Vec<Part> {
        let mut taken = Vec::new();
        let mut left = Vec::new();
        for part in self.0.drain(..) {
            let (from, to) = (part.start.max(start), part.end.min(end));
            if from >= to {
                left.push(part);
                continue;
            }
            taken.push(Part { start: from, end: to, ..part });
            left.extend(
                [(part.start, from), (to, part.end)]
                    .into_iter()
                    .filter(|(a, b)| a < b)
                    .map(|(start, end)| Part { start, end, ..part }),
            );
        }
        *self.0 = left;
        taken
    }

    fn add(&mut self, part: Part) {
        self.0.push(part);
    }

    /// Makes a range of the heap's as accessible as all of it; parts of others are left.
    fn open(&mut self, start: usize, end: usize) {
        for part in self.take(start, end) {
            match part.kind {
                Kind::Protected { hold, .. } => {
                    let (start, bytes) = (part.start, part.end - part.start);
                    if hold != Hold::Hidden {
                        protect(part.start, part.end, OPEN);
                    }
                    let Some(heap) = route().map(|route| &route.heap) else { continue };
                    let _ = match hold {
                        Hold::None => Ok(()),
                        Hold::Pinned => heap.unpin_protected(start, bytes),
                        Hold::Hidden => heap.show(start, bytes),
                    };
                }
                Kind::Foreign => self.add(part),
            }
        }
    }
}

impl Parts {
    /// Protects pages that are accessible; returns whether it could be done.
    fn protect(&mut self, heap: &PageHeap, start: usize, end: usize, protection: c_int) -> bool {
        if protection == OPEN {
            return true;
        }
        let bytes = end - start;
        let hold = match heap.is_managed() {
            true if protection == libc::PROT_NONE && heap.hide(start, bytes) => Hold::Hidden,
            true if needs_pin(protection) => Hold::Pinned,
            _ => Hold::None,
        };
        if hold == Hold::Pinned && heap.pin(start, bytes).is_err() {
            crate::route::say(&format!(
                "protection of {} KiB of managed memory was refused: more than can stay in RAM; give aquifer run more --ram",
                bytes >> 10
            ));
            set_errno(libc::ENOMEM);
            return false;
        }
        if hold != Hold::Hidden && !protect(start, end, protection) {
            if hold == Hold::Pinned {
                let _ = heap.unpin(start, bytes);
            }
            return false;
        }
        self.add(Part { start, end, kind: Kind::Protected { protection, hold } });
        true
    }
}

/// Whether a heap cannot fill and read pages with `protection`. Where absent pages are noticed by protection,
/// it must not change.
fn needs_pin(protection: c_int) -> bool {
    protection & OPEN != OPEN || route().is_some_and(|route| route.settings.is_fenced)
}

impl Drop for Parts {
    fn drop(&mut self) {
        COUNT.store(self.0.len(), Ordering::Release);
    }
}

fn protect(start: usize, end: usize, protection: c_int) -> bool {
    let real = real!(mprotect: unsafe extern "C" fn(*mut libc::c_void, usize, c_int) -> c_int);
    // SAFETY: whole pages of the heap's range, as the program has asked for.
    real.is_some_and(|real| unsafe { real(start as *mut libc::c_void, end - start, protection) } == 0)
}

/// Whether any part is not as the heap has made it.
pub fn is_none() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// Whether a range begins in what is mapped over managed memory.
pub fn is_foreign(address: usize) -> bool {
    let is_it = |part: &Part| part.kind == Kind::Foreign && (part.start..part.end).contains(&address);
    !is_none() && Parts::lock().0.iter().any(is_it)
}

/// As `mprotect`, of whole pages.
pub fn set(heap: &PageHeap, start: usize, end: usize, protection: c_int) -> bool {
    let mut parts = Parts::lock();
    parts.open(start, end);
    parts.protect(heap, start, end, protection)
}

/// Makes pages accessible that are freed or emptied.
pub fn open(start: usize, end: usize) {
    if !is_none() {
        Parts::lock().open(start, end);
    }
}

/// Runs `empty`, which empties pages: protected ones are as before.
pub fn while_unpinned<T>(heap: &PageHeap, start: usize, end: usize, empty: impl FnOnce() -> T) -> T {
    if is_none() {
        return empty();
    }
    let mut parts = Parts::lock();
    let before = parts.take(start, end);
    before.iter().for_each(|part| parts.add(*part));
    parts.open(start, end);
    let emptied = empty();
    for part in before {
        if let Kind::Protected { protection, .. } = part.kind {
            parts.protect(heap, part.start, part.end, protection);
        }
    }
    emptied
}

/// The kernel has mapped something else there.
pub fn add_foreign(start: usize, end: usize) {
    let mut parts = Parts::lock();
    parts.take(start, end);
    parts.add(Part { start, end, kind: Kind::Foreign });
}

/// Calls `visit` for the pieces of a range, which are foreign or not.
pub fn for_each_piece(start: usize, end: usize, visit: &mut dyn FnMut(usize, usize, bool)) {
    let mut foreign: Vec<(usize, usize)> = Vec::new();
    if !is_none() {
        let parts = Parts::lock();
        let inside = parts.0.iter().filter(|part| part.kind == Kind::Foreign);
        foreign.extend(inside.map(|p| (p.start.max(start), p.end.min(end))).filter(|(a, b)| a < b));
        foreign.sort_unstable();
    }
    let mut at = start;
    for (from, to) in foreign {
        if at < from {
            visit(at, from, false);
        }
        visit(from, to, true);
        at = to;
    }
    if at < end {
        visit(at, end, false);
    }
}

/// Runs `grow`, which may make ordinary memory a heap's: protected pages are pinned from then on, and nobody protects others meanwhile.
pub fn while_growing<T>(heap: &PageHeap, grow: impl FnOnce() -> T) -> T {
    let mut parts = Parts::lock();
    if heap.is_managed() {
        drop(parts);
        return grow();
    }
    let is_protected =
        |part: &&mut Part| matches!(part.kind, Kind::Protected { protection, .. } if needs_pin(protection));
    let range = |part: &mut Part| ProtectedRange { start: part.start, end: part.end, is_pinned: false };
    let ranges = parts.0.iter_mut().filter(is_protected).map(range).collect();
    let open = |range: &ProtectedRange| {
        protect(range.start, range.end, OPEN);
    };
    let (grown, ranges) = heap.while_protected(ranges, open, grow);
    if !heap.is_managed() {
        return grown;
    }
    for (part, range) in parts.0.iter_mut().filter(is_protected).zip(ranges) {
        let Kind::Protected { hold, protection } = &mut part.kind else { continue };
        if range.is_pinned {
            *hold = Hold::Pinned;
            // Where the heap has noticed accesses by protection, it has changed that.
            protect(part.start, part.end, *protection);
        } else if *protection == libc::PROT_NONE && heap.hide(part.start, part.end - part.start) {
            *hold = Hold::Hidden;
        } else {
            // It is the heap's again who may touch it when.
            part.end = part.start;
            crate::route::say(
                "memory that was protected before it became managed is not any more; give aquifer run more --ram",
            );
        }
    }
    parts.0.retain(|part| part.start < part.end);
    grown
}
