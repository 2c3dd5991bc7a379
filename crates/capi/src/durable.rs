//! Durable heaps: open, close, statistics.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the structures of the header |
//! | `failure` | numbers of a durable heap's errors |
//! | `run` | a function of the program as a transaction, again if it met another one |
//! | `transaction` | begin, commit and abort, also nested |
//! | `object` | what is done in a transaction |
//! | `roots` | roots with names |
//! | `buffer` | bytes of the program: what is put, and room for what is found |
//! | `keyed` | maps and trees |
//! | `queue` | queues |

mod abi;
mod buffer;
mod failure;
mod keyed;
mod object;
mod queue;
mod roots;
mod run;
mod transaction;

use std::ffi::{c_char, c_int};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use aquifer::ErrorCode;
use aquifer_durable::{DurableHeap, Options};
use aquifer_status::Server;
use aquifer_sys::counter::{STRIPES, stripe};

use crate::abi::path;
use crate::forks;
use crate::heap::null;
use crate::message::{self, fail_with};
use crate::sized;
use crate::status::answer_at;
use abi::{AqDurableOptions, AqDurableStats};

/// A number of transactions, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicUsize);

/// `aq_durable`
pub struct AqDurable {
    // Dropped first: it answers for the heap.
    _server: Option<Server>,
    heap: DurableHeap,
    /// Transactions under way. Each is counted at one of these for as long as it refers to the heap.
    under_way: [Count; STRIPES],
    /// Forks before it was opened.
    forks: usize,
    is_read_only: bool,
}

impl AqDurable {
    fn open(arguments: &Arguments) -> Result<Self, c_int> {
        let Arguments { path, options, is_read_only, socket } = arguments;
        let forks = forks::count();
        let heap =
            if *is_read_only { DurableHeap::open_read_only(path) } else { DurableHeap::open(path, options) };
        let heap = heap.map_err(|error| failure::fail(&error))?;
        let server = answer_at(socket.clone(), |path| heap.answer_at(path))?;
        Ok(Self { _server: server, heap, under_way: Default::default(), forks, is_read_only: *is_read_only })
    }

    /// Counts a transaction before it refers to the heap. The caller subtracts it when the transaction ends.
    fn count_transaction(&self) -> &Count {
        let count = &self.under_way[stripe()];
        count.0.fetch_add(1, Ordering::Acquire);
        count
    }

    fn has_transactions(&self) -> bool {
        self.under_way.iter().any(|count| count.0.load(Ordering::Acquire) > 0)
    }

    /// The number of an error in a child of the process that opened it: two processes must not append to the same log.
    fn ensure_not_forked(&self) -> Result<(), c_int> {
        if forks::count() == self.forks { Ok(()) } else { Err(message::fail(&aquifer::Error::Forked)) }
    }

    fn stats(&self, struct_bytes: usize) -> AqDurableStats {
        let (usage, counts) = (self.heap.usage(), self.heap.persist().counts());
        AqDurableStats {
            struct_bytes,
            capacity_bytes: self.heap.capacity_bytes(),
            file_bytes: usage.file_bytes,
            live_bytes: usage.live_bytes,
            map_bytes: usage.map_bytes,
            fences: counts.fences(),
            written_bytes: counts.bytes(),
        }
    }
}

/// The number of an outcome whose message was kept.
fn number(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(0)
}

fn fail_null(what: &str) -> c_int {
    message::fail(&null(what))
}

/// Refuses NULL in place of what the program must give.
fn ensure_given<T>(pointer: *const T, what: &str) -> Result<(), c_int> {
    if pointer.is_null() { Err(fail_null(what)) } else { Ok(()) }
}

/// How a heap is opened.
struct Arguments {
    path: PathBuf,
    options: Options,
    is_read_only: bool,
    socket: Option<PathBuf>,
}

/// # Safety
/// As the header says.
unsafe fn arguments(file: *const c_char, options: *const AqDurableOptions) -> Result<Arguments, c_int> {
    // SAFETY: NULL, or the caller's string.
    let file = unsafe { path(file) };
    let path = file.ok_or_else(|| fail_with(ErrorCode::Invalid, "path is NULL or empty"))?;
    // SAFETY: NULL, or the caller's options.
    let given = unsafe { sized::read(options) }.map_err(|error| message::fail(&error))?;
    let options = given.to_options().map_err(|error| message::fail(&error))?;
    // SAFETY: the caller's options, in which the path is NULL or a string.
    let socket = unsafe { given.socket() };
    Ok(Arguments { path, options, is_read_only: given.is_read_only(), socket })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_options_init(options: *mut AqDurableOptions, struct_bytes: usize) {
    // SAFETY: passed on to the caller.
    unsafe { sized::init(options, struct_bytes) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_open(
    path: *const c_char,
    options: *const AqDurableOptions,
    heap: *mut *mut AqDurable,
) -> c_int {
    if heap.is_null() {
        return fail_null("heap");
    }
    // SAFETY: passed on to the caller.
    let arguments = unsafe { arguments(path, options) };
    match arguments.and_then(|arguments| AqDurable::open(&arguments)) {
        Ok(opened) => {
            // SAFETY: checked above.
            unsafe { *heap = Box::into_raw(Box::new(opened)) };
            0
        }
        Err(code) => code,
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_close(heap: *mut AqDurable) -> c_int {
    // SAFETY: NULL, or made by aq_durable_open.
    let Some(opened) = (unsafe { heap.as_ref() }) else { return fail_null("heap") };
    if let Err(code) = opened.ensure_not_forked() {
        return code;
    }
    if opened.has_transactions() {
        return fail_with(
            ErrorCode::Busy,
            "a transaction on the heap is under way; commit or abort it, then close",
        );
    }
    // After an error no later try would do better: it is closed all the same, so that it can be opened again.
    let synced = opened.heap.sync();
    // SAFETY: made by aq_durable_open; no transaction refers to it, and the caller does not use it again.
    drop(unsafe { Box::from_raw(heap) });
    synced.map_or_else(|error| failure::fail(&error), |()| 0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_sync(heap: *mut AqDurable) -> c_int {
    // SAFETY: NULL, or made by aq_durable_open.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return fail_null("heap") };
    if let Err(code) = heap.ensure_not_forked() {
        return code;
    }
    heap.heap.sync().map_or_else(|error| failure::fail(&error), |()| 0)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aq_durable_stats_get(heap: *mut AqDurable, stats: *mut AqDurableStats) -> c_int {
    // SAFETY: NULL, or made by aq_durable_open.
    let Some(heap) = (unsafe { heap.as_ref() }) else { return fail_null("heap") };
    if stats.is_null() {
        return fail_null("stats");
    }
    if let Err(code) = heap.ensure_not_forked() {
        return code;
    }
    // SAFETY: the caller's structure, whose first field is its size.
    message::code(unsafe { sized::write(stats, "aq_durable_stats", |room| heap.stats(room)) })
}
