//! libpmemobj's transactions as C programs use them: what changes is first added to the undo log.
//!
//! An address is an offset into the pool. Isolation is left to the callers, who take different objects.

use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::ptr;

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Error as HeapError, Result as HeapResult, Transactional};

use super::heap::{Heap, path};
use super::pmemobj_abi::{Api, NO_PARAMETERS, Oid, PoolPointer, STAGE_WORK};
use super::{Setup, failed};
use crate::durable::load::Workload;
use crate::error::Result;

/// Bytes of the root object: the address of the program's first object.
const ROOT_BYTES: usize = 8;

/// An open pool.
pub struct Pool {
    api: Api,
    pool: PoolPointer,
    bytes: u64,
    root: Oid,
}

// SAFETY: the library's functions may be called by many threads; transactions belong to the thread that begins them.
unsafe impl Send for Pool {}
// SAFETY: as above. Bytes that several threads change at once are the callers' affair, as the library has it; they are
// copied without references to them.
unsafe impl Sync for Pool {}

/// Makes a pool with what `workload` needs.
///
/// # Errors
/// [`crate::Error::Unavailable`] without the library, and its errors.
pub fn open(setup: &Setup, workload: Workload) -> Result<Heap<Pool>> {
    let path = path(setup);
    let pool = Pool::create(&path, setup)?;
    Heap::fill(pool, path, workload, |_| None)
}

impl Pool {
    fn create(path: &Path, setup: &Setup) -> Result<Self> {
        let api = Api::load(setup.is_memory)?;
        let pool = api.create(path, setup.capacity_bytes)?;
        let mut pool = Self { api, pool, bytes: setup.capacity_bytes, root: Oid { pool: 0, offset: 0 } };
        // SAFETY: the pool is open.
        pool.root = unsafe { (pool.api.root)(pool.pool, ROOT_BYTES) };
        match pool.root.offset {
            0 => Err(failed("making the root of", path, pool.api.message())),
            _ => Ok(pool),
        }
    }

    /// Where `len` bytes of the pool are in memory.
    #[inline]
    fn pointer(&self, home: HomeAddress, len: usize) -> HeapResult<*mut u8> {
        if home.0.checked_add(len as u64).is_none_or(|end| end > self.bytes) {
            return Err(HeapError::NotAllocated(home));
        }
        Ok(self.pool.cast::<u8>().wrapping_add(home.0 as usize))
    }

    #[cold]
    fn failed(&self, what: &str) -> HeapError {
        HeapError::Io { what: what.to_owned(), source: io::Error::other(self.api.message()) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and nobody has a pointer into it.
        unsafe { (self.api.close)(self.pool) };
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
        unsafe { (self.pool.api.tx_end)() }
    }
}

impl Drop for UndoTransaction<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // What failed in it may have aborted it already.
        // SAFETY: a plain question.
        if unsafe { (self.pool.api.tx_stage)() } == STAGE_WORK {
            // SAFETY: a transaction is under way in this thread.
            unsafe { (self.pool.api.tx_abort)(libc::ECANCELED) };
        }
        self.end();
    }
}

impl Access for UndoTransaction<'_> {
    #[inline]
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> HeapResult<()> {
        let from = self.pool.pointer(home, out.len())?;
        // SAFETY: the bytes are inside the mapped pool, which is not what `out` is in.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    #[inline]
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> HeapResult<()> {
        let to = self.pool.pointer(home, bytes.len())?;
        let is_fresh = self.fresh.start <= home.0 && home.0 + bytes.len() as u64 <= self.fresh.end;
        // SAFETY: the bytes are inside the mapped pool, and a transaction is under way.
        if !is_fresh && unsafe { (self.pool.api.tx_add_range_direct)(to.cast(), bytes.len()) } != 0 {
            return Err(self.pool.failed("pmemobj_tx_add_range_direct"));
        }
        // SAFETY: the bytes are inside the mapped pool, and their old state is in the undo log.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn alloc(&mut self, bytes: u64) -> HeapResult<HomeAddress> {
        // SAFETY: a transaction is under way.
        let object = unsafe { (self.pool.api.tx_zalloc)(bytes.max(1) as usize, 0) };
        if object.offset == 0 {
            return Err(self.pool.failed("pmemobj_tx_zalloc"));
        }
        self.fresh = object.offset..object.offset + bytes;
        Ok(HomeAddress(object.offset))
    }

    fn free(&mut self, home: HomeAddress) -> HeapResult<()> {
        let object = Oid { pool: self.pool.root.pool, offset: home.0 };
        // SAFETY: a transaction is under way, and the caller names an object of the pool.
        match unsafe { (self.pool.api.tx_free)(object) } {
            0 => Ok(()),
            _ => Err(self.pool.failed("pmemobj_tx_free")),
        }
    }

    #[inline]
    fn commit(mut self) -> HeapResult<()> {
        // SAFETY: a plain question.
        if unsafe { (self.pool.api.tx_stage)() } != STAGE_WORK {
            return Err(self.pool.failed("committing an aborted transaction"));
        }
        // SAFETY: a transaction is under way in this thread.
        unsafe { (self.pool.api.tx_commit)() };
        match self.end() {
            0 => Ok(()),
            _ => Err(self.pool.failed("pmemobj_tx_end")),
        }
    }

    fn root(&mut self) -> HeapResult<Option<HomeAddress>> {
        let root = self.load_u64(HomeAddress(self.pool.root.offset))?;
        Ok((root != 0).then_some(HomeAddress(root)))
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
        // SAFETY: the pool is open; without a jmp_buf errors are returned.
        let code = unsafe { (self.api.tx_begin)(self.pool, ptr::null_mut::<c_void>(), NO_PARAMETERS) };
        assert!(code == 0, "pmemobj_tx_begin: {}", self.api.message());
        UndoTransaction { pool: self, fresh: 0..0, has_ended: false, _of_this_thread: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn what_is_not_committed_has_not_happened() {
        let dir = std::path::PathBuf::from("/dev/shm").join(format!("aquifer-pool-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let (capacity_bytes, path) = (64 << 20, dir.join("pool"));
        // Not told to flush caches: that is for a process that has one thread yet.
        let (latency_ns, bandwidth_bytes_per_s) = (0, 0);
        let setup =
            Setup { dir: dir.clone(), is_memory: false, capacity_bytes, latency_ns, bandwidth_bytes_per_s };
        match Pool::create(&path, &setup) {
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
