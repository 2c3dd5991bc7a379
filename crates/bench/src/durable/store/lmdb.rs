//! LMDB: objects by number, or keys, in the main database of an environment. The tree is its own.

use std::path::PathBuf;

use heed::byteorder::NativeEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator};

use super::{OBJECT_BYTES, OBJECTS, Store, first_bytes, updated};
use crate::durable::directory::{Setup, failed};
use crate::durable::transactions::Workload;
use crate::error::Result;

type Key = U64<NativeEndian>;

/// An open environment with its main database.
pub struct Lmdb {
    environment: Env,
    database: Database<'static, Key, Bytes, IntegerComparator>,
    path: PathBuf,
}

impl Lmdb {
    /// Makes an environment with what `workload` needs. Without `syncs` no commit waits: bytes are stored in the mapped file and left to the kernel.
    pub fn open(setup: &Setup, workload: Workload, syncs: bool) -> Result<Self> {
        let path = setup.path();
        let more = if syncs { EnvFlags::empty() } else { EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC };
        let mut options = EnvOpenOptions::new();
        options.map_size(setup.capacity_bytes as usize);
        // SAFETY: the file is new, used by nobody else, and not needed after a crash.
        let environment = unsafe { options.flags(EnvFlags::NO_SUB_DIR | more).open(&path) };
        let environment = environment.map_err(|error| failed("opening", &path, error))?;
        let wanted = if workload == Workload::TwoWords { OBJECTS as u64 } else { 0 };
        let filled = environment.write_txn().and_then(|transaction| {
            environment.create_databases_and_commit(transaction, |opener, transaction| {
                let database: Database<'_, Key, Bytes, IntegerComparator> =
                    opener.database_options().types().key_comparator().create(transaction)?;
                for index in 0..wanted {
                    database.put(transaction, &index, &first_bytes(setup.payload, index))?;
                }
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
            })
        });
        let database = filled.map_err(|error| failed("filling", &path, error))?.unwrap_commit();
        Ok(Self { environment, database, path })
    }

    fn read<T>(&self, key: u64, make: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let found = || {
            let transaction = self.environment.read_txn()?;
            Ok(self.database.get(&transaction, &key)?.map(make))
        };
        found().map_err(|error: heed::Error| failed("reading", &self.path, error))
    }
}

/// An object as it is in the database; none if it has another length.
fn object(bytes: &[u8]) -> Option<[u8; OBJECT_BYTES]> {
    bytes.try_into().ok()
}

impl Store for Lmdb {
    fn update(&self, index: u64) -> Result<()> {
        let update = || {
            let mut transaction = self.environment.write_txn()?;
            let found = self.database.get(&transaction, &index)?.and_then(object);
            let mut object = found.ok_or(heed::MdbError::NotFound)?;
            updated(&mut object, 1);
            self.database.put(&mut transaction, &index, &object)?;
            transaction.commit()
        };
        update().map_err(|error: heed::Error| failed("updating", &self.path, error))
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let insert = || {
            let mut transaction = self.environment.write_txn()?;
            self.database.put(&mut transaction, &key, &value.to_ne_bytes())?;
            transaction.commit()
        };
        insert().map_err(|error: heed::Error| failed("inserting into", &self.path, error))
    }

    fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]> {
        let found = self.read(index, object)?.flatten();
        found.ok_or_else(|| failed("reading", &self.path, format!("object {index} is not there")))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
        Ok(self.read(key, word)?.flatten())
    }
}
