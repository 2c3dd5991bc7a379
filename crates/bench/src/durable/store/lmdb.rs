//! LMDB: objects by number, or keys, in the main database of an environment. The tree is its own.

use std::ffi::c_uint;
use std::path::PathBuf;
use std::ptr;

use super::heap::path;
use super::lmdb_abi::{
    Api, DatabaseId, Environment, INTEGER_KEY, NO_SUBDIRECTORY, NO_SYNC, NOT_FOUND, READ_ONLY,
    TransactionPointer, Value, WRITE_MAP,
};
use super::{OBJECT_BYTES, OBJECTS, Setup, Store, failed, first_bytes, updated, words_of};
use crate::durable::load::Workload;
use crate::error::{Error, Result};
use crate::workdir::c_path;

/// Permissions of the files.
const MODE: c_uint = 0o600;

/// When commits wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Every one.
    Always,
    /// None: bytes are stored in the mapped file and left to the kernel.
    Never,
}

/// An open environment with its main database.
pub struct Lmdb {
    api: Api,
    environment: Environment,
    database: DatabaseId,
    path: PathBuf,
}

// SAFETY: an environment may be used by many threads; writers wait for one another.
unsafe impl Send for Lmdb {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Lmdb {}

/// A transaction of this thread; aborted when dropped.
struct Transaction<'a> {
    lmdb: &'a Lmdb,
    pointer: TransactionPointer,
}

fn value<T: ?Sized>(of: &T) -> Value {
    Value { bytes: size_of_val(of), data: ptr::from_ref(of).cast_mut().cast() }
}

impl Lmdb {
    /// Makes an environment with what `workload` needs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without the library, and its errors.
    pub fn open(setup: &Setup, workload: Workload, sync: Sync) -> Result<Self> {
        let mut lmdb =
            Self { api: Api::load()?, environment: ptr::null_mut(), database: 0, path: path(setup) };
        let flags = NO_SUBDIRECTORY | if sync == Sync::Never { WRITE_MAP | NO_SYNC } else { 0 };
        let name = c_path(&lmdb.path);
        let (api, environment) = (&lmdb.api, &mut lmdb.environment);
        // SAFETY: a place for the result.
        let created = unsafe { (api.env_create)(environment) };
        lmdb.check("creating", created)?;
        // SAFETY: the environment was created.
        lmdb.check("sizing", unsafe {
            (lmdb.api.env_set_mapsize)(lmdb.environment, setup.capacity_bytes as usize)
        })?;
        // SAFETY: as above, and a terminated string.
        lmdb.check("opening", unsafe { (lmdb.api.env_open)(lmdb.environment, name.as_ptr(), flags, MODE) })?;
        lmdb.fill(workload)?;
        Ok(lmdb)
    }

    fn fill(&mut self, workload: Workload) -> Result<()> {
        let transaction = self.begin(0)?;
        let mut database = 0;
        let opened =
            // SAFETY: a live transaction; no name means the main database; a place for the result.
            unsafe { (self.api.dbi_open)(transaction.pointer, ptr::null(), INTEGER_KEY, &mut database) };
        self.check("opening the database of", opened)?;
        if workload == Workload::TwoWords {
            for index in 0..OBJECTS as u64 {
                transaction.put_in(database, index, &first_bytes(index))?;
            }
        }
        transaction.commit()?;
        self.database = database;
        Ok(())
    }

    #[inline]
    fn check(&self, doing: &'static str, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(failed(doing, &self.path, self.api.message(code))),
        }
    }

    fn begin(&self, flags: c_uint) -> Result<Transaction<'_>> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the environment is open, and there is no parent; a place for the result.
        let begun = unsafe { (self.api.txn_begin)(self.environment, ptr::null_mut(), flags, &mut pointer) };
        self.check("beginning a transaction in", begun)?;
        Ok(Transaction { lmdb: self, pointer })
    }

    fn lost(&self, index: u64) -> Error {
        failed("reading", &self.path, format!("object {index} is not there"))
    }
}

impl Transaction<'_> {
    /// The bytes under `key`, if there are so many.
    fn get<const BYTES: usize>(&self, key: u64) -> Result<Option<[u8; BYTES]>> {
        let (mut key, mut found) = (value(&key), Value { bytes: 0, data: ptr::null_mut() });
        let api = &self.lmdb.api;
        // SAFETY: a live transaction; a key, and a place for the result.
        match unsafe { (api.get)(self.pointer, self.lmdb.database, &mut key, &mut found) } {
            NOT_FOUND => return Ok(None),
            code => self.lmdb.check("reading", code)?,
        }
        // SAFETY: so many bytes are there until the transaction changes something.
        Ok((found.bytes == BYTES).then(|| unsafe { found.data.cast::<[u8; BYTES]>().read() }))
    }

    fn put(&self, key: u64, content: &[u8]) -> Result<()> {
        self.put_in(self.lmdb.database, key, content)
    }

    fn put_in(&self, database: DatabaseId, key: u64, content: &[u8]) -> Result<()> {
        let (mut key, mut content) = (value(&key), value(content));
        let api = &self.lmdb.api;
        // SAFETY: a live transaction that may write; key and content outlive the call, which does not change them.
        self.lmdb.check("writing", unsafe { (api.put)(self.pointer, database, &mut key, &mut content, 0) })
    }

    fn commit(mut self) -> Result<()> {
        let pointer = std::mem::replace(&mut self.pointer, ptr::null_mut());
        // SAFETY: a live transaction, which ends here whatever the outcome.
        self.lmdb.check("committing to", unsafe { (self.lmdb.api.txn_commit)(pointer) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: a live transaction, which has not been committed.
            unsafe { (self.lmdb.api.txn_abort)(self.pointer) };
        }
    }
}

impl Store for Lmdb {
    fn update(&self, index: u64) -> Result<()> {
        let transaction = self.begin(0)?;
        let object: [u8; OBJECT_BYTES] = transaction.get(index)?.ok_or_else(|| self.lost(index))?;
        transaction.put(index, &updated(object))?;
        transaction.commit()
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let transaction = self.begin(0)?;
        transaction.put(key, &value.to_ne_bytes())?;
        transaction.commit()
    }

    fn words(&self, index: u64) -> Result<(u64, u64)> {
        let object = self.begin(READ_ONLY)?.get(index)?.ok_or_else(|| self.lost(index))?;
        Ok(words_of(&object))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.begin(READ_ONLY)?.get(key)?.map(u64::from_ne_bytes))
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        if !self.environment.is_null() {
            // SAFETY: the environment was created, and no transaction is under way.
            unsafe { (self.api.env_close)(self.environment) };
        }
    }
}
