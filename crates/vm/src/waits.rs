//! Waits that have become long: told of on standard error, once each, and shown to who asks for a check.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use aquifer_base::PageId;
use aquifer_map::State;
use aquifer_sys::{own, process, stderr};

use crate::error::Reason;
use crate::pages::Pages;

/// A wait that lasts longer is told of.
const SILENCE_NS: u64 = 10_000_000_000;
/// Waits of one thread that are further apart are not the same.
const GAP_NS: u64 = 1_000_000_000;
/// Long waits that are remembered.
const WAITS: usize = 32;

/// A thread that has waited for long.
struct Long {
    thread: AtomicU32,
    address: AtomicUsize,
    reason: AtomicU8,
    began_ns: AtomicU64,
    last_ns: AtomicU64,
}

static LONG: [Long; WAITS] = [const {
    Long {
        thread: AtomicU32::new(0),
        address: AtomicUsize::new(0),
        reason: AtomicU8::new(0),
        began_ns: AtomicU64::new(0),
        last_ns: AtomicU64::new(0),
    }
}; WAITS];

impl Reason {
    const ALL: [Self; 3] = [Self::Moving, Self::Used, Self::Room];

    const fn text(self) -> &'static str {
        match self {
            Self::Moving => "another thread is bringing the page in or taking it away",
            Self::Used => {
                "a reference holds the page where it is in RAM (aq_deref, aq_begin_use); end it in the thread that has it"
            }
            Self::Room => {
                "all RAM is in use by references and pins, or waits for flash; end some, or give the heap more RAM"
            }
        }
    }
}

/// Notes that a fault at `page` comes again, and tells of it if it has for long. The wait of a thread for a page goes over many faults.
pub(crate) fn note_again_in_fault(pages: &Pages, page: PageId, address: usize, reason: Reason) {
    let now_ns = process::monotonic_ns();
    let (began_ns, is_told) = own::with(|wait| {
        let is_same = wait.page.get() == page.0 && now_ns - wait.last_ns.get() < GAP_NS;
        if !is_same {
            wait.page.set(page.0);
            wait.began_ns.set(now_ns);
            wait.is_told.set(false);
        }
        wait.last_ns.set(now_ns);
        let is_long = now_ns - wait.began_ns.get() >= SILENCE_NS;
        (is_long.then(|| wait.began_ns.get()), is_long && wait.is_told.replace(true))
    });
    let Some(began_ns) = began_ns else { return };
    remember_in_fault(address, reason, began_ns, now_ns);
    if !is_told {
        let holder = pages.holds.uses.find_in_fault(page).map(|hold| hold.thread);
        tell_in_fault(address, reason, holder);
    }
}

/// The long waits of this moment for memory of this heap, a sentence each: who waits, for what, and who holds it.
pub(crate) fn long_waits(pages: &Pages) -> Vec<String> {
    let now_ns = process::monotonic_ns();
    let is_now = |long: &&Long| now_ns.saturating_sub(long.last_ns.load(Ordering::Acquire)) < GAP_NS;
    let sentence = |long: &Long| {
        let address = long.address.load(Ordering::Relaxed);
        let page = pages.mapping.page_at(address)?;
        let seconds = now_ns.saturating_sub(long.began_ns.load(Ordering::Relaxed)) / 1_000_000_000;
        let reason = Reason::ALL[usize::from(long.reason.load(Ordering::Relaxed)) % Reason::ALL.len()];
        Some(format!(
            "thread {} has waited {seconds} s for the memory at {address:#x}: {}; {}",
            long.thread.load(Ordering::Relaxed),
            reason.text(),
            holder_of(pages, page)
        ))
    };
    LONG.iter().filter(is_now).filter_map(sentence).collect()
}

/// What is known of who holds a page.
fn holder_of(pages: &Pages, page: PageId) -> String {
    let held = |what: &str, count, thread| format!("{what} {count} times, the last by thread {thread}");
    let in_books = [("referenced", &pages.holds.uses), ("pinned", &pages.holds.pins)]
        .into_iter()
        .find_map(|(what, book)| Some((what, book.find_in_fault(page)?)));
    match (in_books, pages.residence.find(page)) {
        (Some((what, hold)), _) => held(what, hold.count, hold.thread),
        (None, Some(entry)) if entry.state() == State::Cached && entry.is_pinned() => {
            "referenced once, by a thread that was not noted".into()
        }
        (None, Some(entry)) if entry.state() == State::Moving => "on its way".into(),
        (None, Some(_)) => "held by nobody at this moment".into(),
        (None, None) => "not in RAM".into(),
    }
}

fn remember_in_fault(address: usize, reason: Reason, began_ns: u64, now_ns: u64) {
    let thread = own::thread_id();
    let is_old = |long: &&Long| now_ns.saturating_sub(long.last_ns.load(Ordering::Relaxed)) > GAP_NS;
    let own = LONG.iter().find(|long| long.thread.load(Ordering::Relaxed) == thread);
    let Some(long) = own.or_else(|| LONG.iter().find(is_old)) else { return };
    long.thread.store(thread, Ordering::Relaxed);
    long.address.store(address, Ordering::Relaxed);
    long.reason.store(reason as u8, Ordering::Relaxed);
    long.began_ns.store(began_ns, Ordering::Relaxed);
    long.last_ns.store(now_ns, Ordering::Release);
}

/// One line, by one write. No formatting: runs in fault handlers.
fn tell_in_fault(address: usize, reason: Reason, holder: Option<u32>) {
    let mut line = [0u8; 320];
    let mut len = 0;
    let mut add = |bytes: &[u8]| {
        line[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    add(b"aquifer: thread ");
    add(process::digits(u64::from(own::thread_id()), 10, &mut [0; 20]));
    add(b" has waited 10 s for the memory at 0x");
    add(process::digits(address as u64, 16, &mut [0; 20]));
    add(b": ");
    add(reason.text().as_bytes());
    if let Some(holder) = holder {
        add(b"; the last was taken by thread ");
        add(process::digits(u64::from(holder), 10, &mut [0; 20]));
    }
    add(b"\n");
    stderr::write(&line[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_has_room() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(number, reason as usize);
            assert!(16 + 20 + 37 + 20 + 2 + reason.text().len() + 31 + 20 < 320);
        }
    }
}
