//! libpmemobj's transactions as C programs use them: what changes is first added to the undo log.
//!
//! An address is an offset into the pool. Isolation is left to the callers, who take different objects.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr;

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Error as HeapError, Load, Result as HeapResult, Transactional};
use dlopen2::wrapper::{Container, WrapperApi};

use crate::durable::directory::{Setup, failed};
use crate::durable::heaps::Measured;
use crate::error::Result;
use crate::peer::load_library;
use crate::workdir::c_path;

const LIBRARY: &str = "libpmemobj.so.1";
/// What the library must be told before it is loaded: that flushing the processor's caches makes the bytes of any file durable.
const FORCE_VARIABLE: &str = "PMEM_IS_PMEM_FORCE";
/// Permissions of a pool's file.
const MODE: c_uint = 0o600;
/// Bytes of the root object: the address of the program's first object.
const ROOT_BYTES: usize = 8;
/// `TX_PARAM_NONE`.
const NO_PARAMETERS: c_int = 0;
/// `TX_STAGE_WORK`.
const STAGE_WORK: c_int = 1;

/// `PMEMobjpool`. Its address is that of the mapped pool.
type PoolPointer = *mut c_void;

/// `PMEMoid`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Oid {
    /// Which pool.
    pub pool: u64,
    /// Bytes from its start; 0 for no object.
    pub offset: u64,
}

/// `struct pobj_action`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    kind: c_int,
    data: [u32; 3],
    data2: [u64; 14],
}

/// The functions of libpmemobj.h that are measured.
#[derive(WrapperApi)]
pub struct Api {
    pmemobj_create: unsafe extern "C" fn(
        path: *const c_char,
        layout: *const c_char,
        bytes: usize,
        mode: c_uint,
    ) -> PoolPointer,
    pmemobj_close: unsafe extern "C" fn(pool: PoolPointer),
    pmemobj_root: unsafe extern "C" fn(pool: PoolPointer, bytes: usize) -> Oid,
    pmemobj_zalloc: unsafe extern "C" fn(pool: PoolPointer, made: *mut Oid, bytes: usize, kind: u64) -> c_int,
    pmemobj_persist: unsafe extern "C" fn(pool: PoolPointer, at: *const c_void, bytes: usize),
    /// The second argument is a `jmp_buf` or NULL.
    pmemobj_tx_begin: unsafe extern "C" fn(pool: PoolPointer, jump: *mut c_void, ...) -> c_int,
    pmemobj_tx_add_range_direct: unsafe extern "C" fn(at: *const c_void, bytes: usize) -> c_int,
    pmemobj_tx_zalloc: unsafe extern "C" fn(bytes: usize, kind: u64) -> Oid,
    pmemobj_tx_free: unsafe extern "C" fn(object: Oid) -> c_int,
    pmemobj_tx_stage: unsafe extern "C" fn() -> c_int,
    pmemobj_tx_abort: unsafe extern "C" fn(code: c_int),
    pmemobj_tx_commit: unsafe extern "C" fn(),
    pmemobj_tx_end: unsafe extern "C" fn() -> c_int,
    pmemobj_reserve:
        unsafe extern "C" fn(pool: PoolPointer, action: *mut Action, bytes: usize, kind: u64) -> Oid,
    pmemobj_set_value: unsafe extern "C" fn(pool: PoolPointer, action: *mut Action, at: *mut u64, value: u64),
    pmemobj_publish: unsafe extern "C" fn(pool: PoolPointer, actions: *mut Action, count: usize) -> c_int,
    pmemobj_errormsg: unsafe extern "C" fn() -> *const c_char,
}

/// An open pool.
pub struct Pool {
    /// The library, which stays loaded: threads end after the pool, and it has destructors for them.
    pub api: &'static Container<Api>,
    /// Where the pool is.
    pub pointer: PoolPointer,
    bytes: u64,
    root: Oid,
}

// SAFETY: the library's functions may be called by many threads; transactions belong to the thread that begins them.
unsafe impl Send for Pool {}
// SAFETY: as above. Bytes that several threads change at once are the callers' affair, as the library has it; they are
// copied without references to them.
unsafe impl Sync for Pool {}

impl Pool {
    /// Makes a pool. Called once in a process, before it has other threads.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) without the library, and its errors.
    pub fn create(setup: &Setup) -> Result<Self> {
        Self::make(&setup.path(), setup.capacity_bytes, setup.is_memory)
    }

    fn make(path: &Path, bytes: u64, is_memory: bool) -> Result<Self> {
        if is_memory {
            // SAFETY: no other thread reads the environment meanwhile, as the caller sees to.
            unsafe { std::env::set_var(FORCE_VARIABLE, "1") };
        }
        // SAFETY: the library's initialisers have no requirements, and the signatures are those of libpmemobj.h.
        let api = unsafe { load_library(LIBRARY, "libpmemobj1") }?;
        let api: &Container<Api> = Box::leak(Box::new(api));
        let (name, layout, size) = (c_path(path), c"aquifer-bench".as_ptr(), bytes as usize);
        // SAFETY: terminated strings; the result is looked at.
        let pointer = unsafe { api.pmemobj_create(name.as_ptr(), layout, size, MODE) };
        if pointer.is_null() {
            return Err(failed("creating", path, message(api)));
        }
        let mut pool = Self { api, pointer, bytes, root: Oid { pool: 0, offset: 0 } };
        // SAFETY: the pool is open.
        pool.root = unsafe { pool.api.pmemobj_root(pointer, ROOT_BYTES) };
        match pool.root.offset {
            0 => Err(failed("making the root of", path, pool.message())),
            _ => Ok(pool),
        }
    }

    /// The library's sentence about the calling thread's last failure.
    pub fn message(&self) -> String {
        message(self.api)
    }

    /// Where `len` bytes of the pool are in memory.
    #[inline]
    fn pointer(&self, home: HomeAddress, len: usize) -> HeapResult<*mut u8> {
        if home.0.checked_add(len as u64).is_none_or(|end| end > self.bytes) {
            return Err(HeapError::NotAllocated(home));
        }
        Ok(self.pointer.cast::<u8>().wrapping_add(home.0 as usize))
    }

    #[cold]
    fn failed(&self, what: &str) -> HeapError {
        HeapError::Io { what: what.to_owned(), source: io::Error::other(self.message()) }
    }
}

fn message(api: &Api) -> String {
    // SAFETY: the library returns a terminated string, valid until the next call, or NULL.
    unsafe {
        let message = api.pmemobj_errormsg();
        if message.is_null() {
            return "failed without a message".to_owned();
        }
        CStr::from_ptr(message).to_string_lossy().into_owned()
    }
}

impl Measured for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and nobody has a pointer into it.
        unsafe { self.api.pmemobj_close(self.pointer) };
    }
}

/// A transaction under way in this thread, which cannot go to another one. It is aborted when dropped.
pub struct UndoTransaction<'a> {
    pool: &'a Pool,
    /// The newest object of this transaction: it needs no undo log, and is flushed by the commit.
    fresh: Range<u64>,
    has_ended: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl UndoTransaction<'_> {
    /// Ends what has committed or was aborted.
    fn end(&mut self) -> c_int {
        self.has_ended = true;
        // SAFETY: the transaction has committed or was aborted.
        unsafe { self.pool.api.pmemobj_tx_end() }
    }
}

impl Drop for UndoTransaction<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // What failed in it may have aborted it already.
        // SAFETY: a plain question.
        if unsafe { self.pool.api.pmemobj_tx_stage() } == STAGE_WORK {
            // SAFETY: a transaction is under way in this thread.
            unsafe { self.pool.api.pmemobj_tx_abort(libc::ECANCELED) };
        }
        self.end();
    }
}

impl Load for UndoTransaction<'_> {
    #[inline]
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> HeapResult<()> {
        let from = self.pool.pointer(home, out.len())?;
        // SAFETY: the bytes are inside the mapped pool, which is not what `out` is in.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn root(&mut self) -> HeapResult<Option<HomeAddress>> {
        let root = self.load_u64(HomeAddress(self.pool.root.offset))?;
        Ok((root != 0).then_some(HomeAddress(root)))
    }
}

impl Access for UndoTransaction<'_> {
    #[inline]
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> HeapResult<()> {
        let to = self.pool.pointer(home, bytes.len())?;
        let is_fresh = self.fresh.start <= home.0 && home.0 + bytes.len() as u64 <= self.fresh.end;
        // SAFETY: the bytes are inside the mapped pool, and a transaction is under way.
        if !is_fresh && unsafe { self.pool.api.pmemobj_tx_add_range_direct(to.cast(), bytes.len()) } != 0 {
            return Err(self.pool.failed("pmemobj_tx_add_range_direct"));
        }
        // SAFETY: the bytes are inside the mapped pool, and their old state is in the undo log.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn alloc(&mut self, bytes: u64) -> HeapResult<HomeAddress> {
        // SAFETY: a transaction is under way.
        let object = unsafe { self.pool.api.pmemobj_tx_zalloc(bytes.max(1) as usize, 0) };
        if object.offset == 0 {
            return Err(self.pool.failed("pmemobj_tx_zalloc"));
        }
        self.fresh = object.offset..object.offset + bytes;
        Ok(HomeAddress(object.offset))
    }

    fn free(&mut self, home: HomeAddress) -> HeapResult<()> {
        let object = Oid { pool: self.pool.root.pool, offset: home.0 };
        // SAFETY: a transaction is under way, and the caller names an object of the pool.
        match unsafe { self.pool.api.pmemobj_tx_free(object) } {
            0 => Ok(()),
            _ => Err(self.pool.failed("pmemobj_tx_free")),
        }
    }

    #[inline]
    fn commit(mut self) -> HeapResult<()> {
        // SAFETY: a plain question.
        if unsafe { self.pool.api.pmemobj_tx_stage() } != STAGE_WORK {
            return Err(self.pool.failed("committing an aborted transaction"));
        }
        // SAFETY: a transaction is under way in this thread.
        unsafe { self.pool.api.pmemobj_tx_commit() };
        match self.end() {
            0 => Ok(()),
            _ => Err(self.pool.failed("pmemobj_tx_end")),
        }
    }

    fn set_root(&mut self, root: HomeAddress) -> HeapResult<()> {
        self.store_u64(HomeAddress(self.pool.root.offset), root.0)
    }
}

impl Transactional for Pool {
    type Transaction<'a> = UndoTransaction<'a>;

    /// # Panics
    /// The library cannot begin one.
    #[inline]
    fn begin(&self) -> UndoTransaction<'_> {
        let no_jump = ptr::null_mut::<c_void>();
        // SAFETY: the pool is open; without a jmp_buf errors are returned.
        let code = unsafe { (self.api.pmemobj_tx_begin)(self.pointer, no_jump, NO_PARAMETERS) };
        assert!(code == 0, "pmemobj_tx_begin: {}", self.message());
        UndoTransaction { pool: self, fresh: 0..0, has_ended: false, _of_this_thread: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Oid>(), size_of::<Action>(), align_of::<Action>()), (16, 128, 8));
    }

    #[test]
    fn what_is_not_committed_has_not_happened() {
        let dir = std::path::PathBuf::from("/dev/shm").join(format!("aquifer-pool-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        // Not told to flush caches: that is for a process that has one thread yet.
        match Pool::make(&dir.join("pool"), 64 << 20, false) {
            Ok(pool) => check_abort(&pool),
            Err(Error::Unavailable(reason)) => println!("SKIP {reason}"),
            Err(error) => panic!("{error}"),
        }
        std::fs::remove_dir_all(&dir).expect("was created");
    }

    fn check_abort(pool: &Pool) {
        let home = pool.transaction(|tx| tx.alloc(64)).expect("room");
        pool.transaction(|tx| tx.store_u64(home, 7)).expect("allocated");
        let mut tx = pool.begin();
        tx.store_u64(home, 8).expect("allocated");
        assert_eq!(tx.load_u64(home).expect("allocated"), 8, "it sees its own writes");
        drop(tx);
        assert_eq!(pool.transaction(|tx| tx.load_u64(home)).expect("allocated"), 7);
        let outside = HomeAddress(pool.bytes);
        assert!(matches!(pool.transaction(|tx| tx.load_u64(outside)), Err(HeapError::NotAllocated(_))));
        assert!(pool.transaction(|tx| tx.alloc(1 << 30)).is_err(), "the pool is smaller");
        pool.transaction(|tx| tx.set_root(home)).expect("there is a root object");
        assert_eq!(pool.transaction(|tx| tx.root()).expect("there is a root object"), Some(home));
    }
}
