//! What nbdkit calls, in the order in which it does.
//!
//! The device is opened after nbdkit has gone to the background, by the process that serves it: files are locked and threads started by
//! that one. Handles of connections are pointers into [`State::connections`], which holds a connection until it is closed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aquifer_block::nbdkit::Word;
use aquifer_block::precautions::{self, Omitted};
use aquifer_block::source::device;
use aquifer_block::swaps::{Area, warn_when_swapped};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::abi::{self, FLAG_FUA, FUA_NATIVE, PARALLEL, Plugin, SERIALIZE_REQUESTS};
use crate::connection::{Connection, Served};
use crate::negotiations::Negotiations;
use crate::parent::Parent;
use crate::settings::{HELP, Settings};
use crate::version::Version;

/// Longest transfer that clients are told of, bytes; the protocol's own default.
const TRANSFER_BYTES_MAX: u32 = 32 << 20;
/// The transfer that suits a kernel best, bytes: its page.
const PREFERRED_BYTES: u32 = 4096;
/// Stack of each thread of nbdkit. Little, because a process whose memory is locked pays for all of it.
const STACK_BYTES: usize = 512 << 10;

/// What there is between two calls of nbdkit.
#[derive(Default)]
struct State {
    omitted: Vec<Omitted>,
    served: Option<Arc<Served>>,
    connections: Vec<Arc<Connection>>,
}

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
/// The settings, once all of them are there.
static SETTLED: OnceLock<Settings> = OnceLock::new();
static STATE: Mutex<State> = Mutex::new(State { omitted: Vec::new(), served: None, connections: Vec::new() });
/// The process that has started nbdkit, if that was `aquifer block`.
static PARENT: OnceLock<Parent> = OnceLock::new();
static NEGOTIATIONS: Negotiations = Negotiations::new();

static NAME: &CStr = c"aquifer";

/// A structure of constants, which nbdkit copies.
struct Registered(Plugin);
// SAFETY: its pointers are those of constants.
unsafe impl Sync for Registered {}

const UNUSED: *const c_void = ptr::null();

static PLUGIN: Registered = Registered(Plugin {
    struct_size: size_of::<Plugin>() as u64,
    api_version: abi::API_VERSION,
    thread_model: PARALLEL,
    name: NAME.as_ptr(),
    longname: c"Aquifer: flash, and RAM of other machines".as_ptr(),
    version: VERSION.as_ptr(),
    description: c"A block device on flash of this machine, and on RAM that others lend.".as_ptr(),
    load: Some(load),
    unload: None,
    config: Some(config),
    config_complete: Some(config_complete),
    config_help: HELP.as_ptr(),
    open: Some(open),
    close: Some(close),
    get_size: Some(get_size),
    can_write: UNUSED,
    can_flush: UNUSED,
    is_rotational: UNUSED,
    can_trim: UNUSED,
    version_1: [UNUSED; 5],
    errno_is_preserved: 0,
    dump_plugin: UNUSED,
    can_zero: UNUSED,
    can_fua: Some(can_fua),
    pread: Some(pread),
    pwrite: Some(pwrite),
    flush: Some(flush),
    trim: Some(trim),
    zero: Some(zero),
    magic_config_key: c"flash".as_ptr(),
    can_multi_conn: Some(can_multi_conn),
    can_extents: UNUSED,
    extents: UNUSED,
    can_cache: UNUSED,
    cache: UNUSED,
    thread_model_now: Some(thread_model),
    can_fast_zero: UNUSED,
    preconnect: Some(preconnect),
    get_ready: Some(get_ready),
    after_fork: Some(after_fork),
    list_exports: Some(list_exports),
    default_export: Some(default_export),
    export_description: UNUSED,
    cleanup: Some(cleanup),
    block_size: Some(block_size),
});

static VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zeros"),
};

/// What nbdkit looks for in a plugin.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_init() -> *const c_void {
    (&raw const PLUGIN.0).cast()
}

// ---- Before anybody is served ---------------------------------------------------------------------------------------

unsafe extern "C" {
    /// The C library's, for threads that are started with no wish of their own.
    fn pthread_setattr_default_np(attributes: *const libc::pthread_attr_t) -> c_int;
}

/// The first call: other threads inherit what it does.
extern "C" fn load() {
    limit_stacks();
    state().omitted = precautions::mark_process();
}

/// Threads of nbdkit have small stacks from now on. Where that fails they have large ones, and all goes on.
fn limit_stacks() {
    // SAFETY: attributes are initialised, changed, used and destroyed here.
    unsafe {
        let mut attributes = mem::zeroed();
        if libc::pthread_attr_init(&raw mut attributes) == 0 {
            if libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES) == 0 {
                pthread_setattr_default_np(&raw const attributes);
            }
            libc::pthread_attr_destroy(&raw mut attributes);
        }
    }
}

/// Takes one setting.
///
/// # Safety
/// Both are strings, as nbdkit gives them.
unsafe extern "C" fn config(key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    let value = PathBuf::from(std::ffi::OsStr::from_bytes(value.to_bytes()));
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = settings.get_or_insert_default().take(&key.to_string_lossy(), value);
    done(taken.map_err(|sentence| abi::error(&sentence)))
}

extern "C" fn config_complete() -> c_int {
    let settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    if let Err(sentence) = settings.check() {
        abi::error(&sentence);
        return -1;
    }
    // nbdkit calls this once.
    let _ = SETTLED.set(settings);
    0
}

/// Requests of a connection go one by one where nbdkit could not bear them otherwise.
extern "C" fn thread_model() -> c_int {
    if Version::running().is_some_and(Version::bears_early_ends) { PARALLEL } else { SERIALIZE_REQUESTS }
}

/// As many clients as the limit of this user allows: each has a descriptor, also one that only keeps silent.
extern "C" fn get_ready() -> c_int {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Otherwise the lower limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    0
}

extern "C" fn after_fork() -> c_int {
    let settings = settled();
    if let Some(parent) = settings.parent.and_then(Parent::new) {
        // nbdkit calls this once.
        let _ = PARENT.set(parent);
    }
    done(serve(settings).map_err(|sentence| match PARENT.get() {
        Some(parent) => parent.tell(Word::Error, &sentence),
        None => abi::error(&sentence),
    }))
}

/// Opens the device.
fn serve(settings: &Settings) -> Result<(), String> {
    let device = device(&settings.source, &say).map_err(|error| error.to_string())?;
    let size_bytes = device.len_bytes();
    let mut state = state();
    state.served = Some(Arc::new(Served::new(device, abi::error)));
    state.omitted.extend(precautions::lock_touched_memory());
    warn_when_swapped(mem::take(&mut state.omitted), Area::Nbd, Arc::new(say));
    if let Some(parent) = PARENT.get() {
        parent
            .watch(&NEGOTIATIONS, settings.patience)
            .map_err(|error| format!("nbdkit cannot be watched: {error}"))?;
        parent.tell(Word::Serves, &size_bytes.to_string());
    }
    Ok(())
}

/// Says something that is no error.
fn say(sentence: &str) {
    match PARENT.get() {
        Some(parent) => parent.tell(Word::Note, sentence),
        None => eprintln!("nbdkit: aquifer: {}", sentence.escape_debug()),
    }
}

// ---- Connections ----------------------------------------------------------------------------------------------------

/// A client is there; whether it is a friend nobody knows yet.
extern "C" fn preconnect(_is_read_only: c_int) -> c_int {
    // Otherwise nobody would ever take it out.
    if let (Some(_), Some(peer)) = (PARENT.get(), abi::peer()) {
        NEGOTIATIONS.begin(peer);
    }
    0
}

/// Adds the name by which clients ask for the device.
///
/// # Safety
/// `exports` is nbdkit's list.
unsafe extern "C" fn list_exports(_is_read_only: c_int, _is_tls: c_int, exports: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { abi::add_export(exports, &settled().name) }
}

extern "C" fn default_export(_is_read_only: c_int, _is_tls: c_int) -> *const c_char {
    settled().name.as_ptr()
}

/// A client has shown who it is, and begins.
extern "C" fn open(_is_read_only: c_int) -> *mut c_void {
    if let Some(peer) = abi::peer() {
        NEGOTIATIONS.end(&peer);
    }
    let asked = abi::export_name();
    let settings = settled();
    if !asked.is_empty() && asked != settings.name.as_bytes() {
        let asked = String::from_utf8_lossy(&asked);
        abi::error(&format!("the export {asked:?} is not here: there is {:?}", settings.name));
        return ptr::null_mut();
    }
    let mut state = state();
    let Some(served) = state.served.clone() else {
        abi::error("the server ends");
        return ptr::null_mut();
    };
    let connection = Arc::new(Connection::new(served, settings.buffers));
    state.connections.push(Arc::clone(&connection));
    Arc::as_ptr(&connection).cast_mut().cast()
}

/// Forgets a connection.
///
/// # Safety
/// `handle` came from [`open`], and is not used any more.
unsafe extern "C" fn close(handle: *mut c_void) {
    state().connections.retain(|connection| !ptr::eq(Arc::as_ptr(connection).cast(), handle));
}

/// Size of the device.
///
/// # Safety
/// `handle` came from [`open`].
unsafe extern "C" fn get_size(handle: *mut c_void) -> i64 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { connection(handle) }.device().len_bytes();
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Tells clients which transfers there are.
///
/// # Safety
/// `handle` came from [`open`], and the others have room for a number.
unsafe extern "C" fn block_size(
    handle: *mut c_void,
    minimum: *mut u32,
    preferred: *mut u32,
    maximum: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let block = unsafe { connection(handle) }.device().block_bytes() as u32;
    // SAFETY: the caller's promise.
    unsafe {
        *minimum = block;
        *preferred = block.max(PREFERRED_BYTES);
        *maximum = TRANSFER_BYTES_MAX;
    }
    0
}

extern "C" fn can_fua(_handle: *mut c_void) -> c_int {
    FUA_NATIVE
}

/// A flush on one connection covers what was answered on all.
extern "C" fn can_multi_conn(_handle: *mut c_void) -> c_int {
    1
}

// ---- Requests -------------------------------------------------------------------------------------------------------

/// Reads.
///
/// # Safety
/// `handle` came from [`open`], and `buf` has `count` bytes for this call alone.
unsafe extern "C" fn pread(handle: *mut c_void, buf: *mut c_void, count: u32, offset: u64, _: u32) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { connection(handle).read(buf.cast(), count, offset) }.map_err(abi::set_errno))
}

/// Writes.
///
/// # Safety
/// `handle` came from [`open`], and `buf` has `count` bytes, which nobody changes meanwhile.
unsafe extern "C" fn pwrite(
    handle: *mut c_void,
    buf: *const c_void,
    count: u32,
    offset: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let outcome = unsafe { connection(handle).write(buf.cast(), count, offset, flags & FLAG_FUA != 0) };
    done(outcome.map_err(abi::set_errno))
}

/// Makes durable what was answered.
///
/// # Safety
/// `handle` came from [`open`].
unsafe extern "C" fn flush(handle: *mut c_void, _: u32) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { connection(handle) }.flush().map_err(abi::set_errno))
}

/// Trims.
///
/// # Safety
/// `handle` came from [`open`].
unsafe extern "C" fn trim(handle: *mut c_void, count: u32, offset: u64, flags: u32) -> c_int {
    // SAFETY: the caller's promise.
    let outcome = unsafe { connection(handle) }.trim(count, offset, flags & FLAG_FUA != 0);
    done(outcome.map_err(abi::set_errno))
}

/// Writes zeros.
///
/// # Safety
/// `handle` came from [`open`].
unsafe extern "C" fn zero(handle: *mut c_void, count: u32, offset: u64, flags: u32) -> c_int {
    // SAFETY: the caller's promise.
    let outcome = unsafe { connection(handle) }.zero(count, offset, flags & FLAG_FUA != 0);
    done(outcome.map_err(abi::set_errno))
}

// ---- The end --------------------------------------------------------------------------------------------------------

/// No client is left. What was answered is durable when this returns, or somebody hears that it is not.
extern "C" fn cleanup() {
    let State { served, connections, .. } = mem::take(&mut *state());
    let outcome = served.as_ref().map_or(Ok(()), |served| served.device().sync());
    let lost = outcome.err().map(|error| format!("what was written is not durable: {error}"));
    // nbdkit closes no connections while it ends. Without them the device goes, which gives back what it has borrowed.
    drop((connections, served));
    match (lost, PARENT.get()) {
        (None, Some(parent)) => parent.tell(Word::Durable, ""),
        (None, None) => {}
        (Some(sentence), Some(parent)) => parent.tell(Word::Error, &sentence),
        (Some(sentence), None) => abi::error(&sentence),
    }
}

fn done(outcome: Result<(), ()>) -> c_int {
    if outcome.is_ok() { 0 } else { -1 }
}

/// The connection behind a handle.
///
/// # Safety
/// `handle` came from [`open`] and was not given to [`close`].
unsafe fn connection<'a>(handle: *mut c_void) -> &'a Connection {
    // SAFETY: the caller's promise: `State::connections` holds the connection until it is closed, or every thread is gone.
    unsafe { &*handle.cast::<Connection>() }
}

/// The settings, which nbdkit has let the plugin check before it calls anything else.
fn settled() -> &'static Settings {
    SETTLED.get().expect("config_complete has run")
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
