//! redb: objects by number, or keys, each in a table of their own. The trees are its own.

use std::path::PathBuf;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::{OBJECT_BYTES, OBJECTS, Store, first_bytes, updated};
use crate::durable::directory::{Setup, failed};
use crate::durable::transactions::Workload;
use crate::error::Result;

const OBJECT_TABLE: TableDefinition<'_, u64, &[u8; OBJECT_BYTES]> = TableDefinition::new("objects");
const MAP_TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("map");

type Outcome<T> = std::result::Result<T, redb::Error>;

/// An open database.
pub struct Redb {
    database: Database,
    durability: Durability,
    path: PathBuf,
}

impl Redb {
    /// Makes a database with what `workload` needs.
    pub fn open(setup: &Setup, workload: Workload, durability: Durability) -> Result<Self> {
        let path = setup.path();
        let database = Database::create(&path).map_err(|error| failed("creating", &path, error))?;
        let redb = Self { database, durability, path };
        let filled = redb.write(Durability::Immediate, |transaction| {
            let mut objects = transaction.open_table(OBJECT_TABLE)?;
            let wanted = if workload == Workload::TwoWords { OBJECTS as u64 } else { 0 };
            for index in 0..wanted {
                objects.insert(index, &first_bytes(setup.payload, index))?;
            }
            transaction.open_table(MAP_TABLE)?;
            Ok(())
        });
        filled.map_err(|error| failed("filling", &redb.path, error))?;
        Ok(redb)
    }

    fn write(
        &self,
        durability: Durability,
        body: impl FnOnce(&WriteTransaction) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        body(&transaction)?;
        Ok(transaction.commit()?)
    }

    fn read(&self, index: u64) -> Outcome<[u8; OBJECT_BYTES]> {
        let objects = self.database.begin_read()?.open_table(OBJECT_TABLE)?;
        let object = objects.get(index)?.ok_or_else(|| lost(index))?;
        Ok(*object.value())
    }

    fn value(&self, key: u64) -> Outcome<Option<u64>> {
        let map = self.database.begin_read()?.open_table(MAP_TABLE)?;
        Ok(map.get(key)?.map(|value| value.value()))
    }
}

fn lost(index: u64) -> redb::Error {
    redb::Error::Io(std::io::Error::other(format!("object {index} is not there")))
}

impl Store for Redb {
    fn update(&self, index: u64) -> Result<()> {
        let written = self.write(self.durability, |transaction| {
            let mut objects = transaction.open_table(OBJECT_TABLE)?;
            let mut object = *objects.get(index)?.ok_or_else(|| lost(index))?.value();
            updated(&mut object, 1);
            objects.insert(index, &object)?;
            Ok(())
        });
        written.map_err(|error| failed("updating", &self.path, error))
    }

    fn insert(&self, key: u64, value: u64) -> Result<()> {
        let written = self.write(self.durability, |transaction| {
            transaction.open_table(MAP_TABLE)?.insert(key, value)?;
            Ok(())
        });
        written.map_err(|error| failed("inserting into", &self.path, error))
    }

    fn object(&self, index: u64) -> Result<[u8; OBJECT_BYTES]> {
        self.read(index).map_err(|error| failed("reading", &self.path, error))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.value(key).map_err(|error| failed("reading", &self.path, error))
    }
}
