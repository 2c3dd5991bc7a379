//! TATP-like, not TATP (IBM, "Telecommunication Application Transaction Processing Benchmark", 2009): tables, mix and the choice of subscribers are
//! the standard's; one client.

use super::super::connection::{Connection, Statement, Value};
use super::random::Pool;
use super::{Load, insert_all};
use crate::error::Result;
use crate::rng::Rng;

/// Bytes of the database for each subscriber.
const SUBSCRIBER_BYTES: u64 = 400;
/// Of the standard's choice of subscribers, for up to a million.
const NURAND_A: u64 = 65_535;
const FILL_SEED: u64 = 0x7A79;
/// Percent of the special facilities that are active.
const ACTIVE_PERCENT: u64 = 85;
const TYPES: u64 = 4;
/// Hours at which a call forwarding may begin.
const STARTS: u64 = 3;

const SCHEMA: &str = "
    CREATE TABLE subscriber (id INTEGER PRIMARY KEY, number TEXT NOT NULL UNIQUE, bits INTEGER NOT NULL, hexes TEXT NOT NULL,
        bytes TEXT NOT NULL, msc_location INTEGER NOT NULL, vlr_location INTEGER NOT NULL);
    CREATE TABLE access_info (subscriber INTEGER NOT NULL, type INTEGER NOT NULL, data1 INTEGER NOT NULL, data2 INTEGER NOT NULL,
        data3 TEXT NOT NULL, data4 TEXT NOT NULL, PRIMARY KEY (subscriber, type)) WITHOUT ROWID;
    CREATE TABLE special_facility (subscriber INTEGER NOT NULL, type INTEGER NOT NULL, is_active INTEGER NOT NULL,
        error_control INTEGER NOT NULL, data_a INTEGER NOT NULL, data_b TEXT NOT NULL, PRIMARY KEY (subscriber, type)) WITHOUT ROWID;
    CREATE TABLE call_forwarding (subscriber INTEGER NOT NULL, type INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
        number TEXT NOT NULL, PRIMARY KEY (subscriber, type, start)) WITHOUT ROWID;";

/// Subscribers of about `data_bytes`.
pub fn subscribers(data_bytes: u64) -> u64 {
    (data_bytes / SUBSCRIBER_BYTES).max(1)
}

fn number_of(subscriber: u64) -> String {
    format!("{subscriber:015}")
}

/// Makes and fills the tables.
///
/// # Errors
/// Those of [`Connection`].
pub fn fill(connection: &Connection, count: u64, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
    connection.execute(SCHEMA)?;
    let (pool, mut rng) = (Pool::new(FILL_SEED), Rng::new(FILL_SEED));
    let insert = |table, values| connection.prepare(&format!("INSERT INTO {table} VALUES ({values})"));
    let mut subscriber = insert("subscriber", "?, ?, ?, ?, ?, ?, ?")?;
    let mut access = insert("access_info", "?, ?, ?, ?, ?, ?")?;
    let mut facility = insert("special_facility", "?, ?, ?, ?, ?, ?")?;
    let mut forwarding = insert("call_forwarding", "?, ?, ?, ?, ?")?;
    let row = |number: u64| {
        let id = Value::Int(number as i64 + 1);
        let digits = number_of(number + 1);
        let (hexes, bytes) = (pool.take(&mut rng, 10).to_owned(), pool.take(&mut rng, 20).to_owned());
        let [bits, msc, vlr] = [1 << 10, 1 << 32, 1 << 32].map(|bound| int(rng.below(bound)));
        subscriber.run(&[
            id,
            digits.as_str().into(),
            bits,
            hexes.as_str().into(),
            bytes.as_str().into(),
            msc,
            vlr,
        ])?;
        for kind in some(&mut rng, 1, TYPES) {
            let [data1, data2] = [256, 256].map(|bound| int(rng.below(bound)));
            let (data3, data4) = (pool.take(&mut rng, 3).to_owned(), pool.take(&mut rng, 5).to_owned());
            access.run(&[id, int(kind), data1, data2, data3.as_str().into(), data4.as_str().into()])?;
        }
        for kind in some(&mut rng, 1, TYPES) {
            let is_active = int(u64::from(rng.below(100) < ACTIVE_PERCENT));
            let [control, data_a] = [256, 256].map(|bound| int(rng.below(bound)));
            let data_b = pool.take(&mut rng, 5).to_owned();
            facility.run(&[id, int(kind), is_active, control, data_a, data_b.as_str().into()])?;
            for start in some(&mut rng, 0, STARTS) {
                let start = (start - 1) * 8;
                let end = int(start + 1 + rng.below(8));
                let to = pool.take(&mut rng, 15).to_owned();
                forwarding.run(&[id, int(kind), int(start), end, to.as_str().into()])?;
            }
        }
        Ok(())
    };
    insert_all(connection, count, row, |done| tell(done, count))
}

fn int(number: u64) -> Value<'static> {
    Value::Int(number as i64)
}

/// From `least` to all of the numbers 1 to `most`, each as often.
fn some(rng: &mut Rng, least: u64, most: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (1..=most).collect();
    rng.shuffle(&mut numbers);
    numbers.truncate((least + rng.below(most - least + 1)) as usize);
    numbers
}

/// The seven transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transaction {
    GetSubscriber,
    GetDestination,
    GetAccess,
    UpdateSubscriber,
    UpdateLocation,
    InsertForwarding,
    DeleteForwarding,
}

/// The standard's mix, by a number below 100.
fn drawn(number: u64) -> Transaction {
    match number {
        0..35 => Transaction::GetSubscriber,
        35..45 => Transaction::GetDestination,
        45..80 => Transaction::GetAccess,
        80..82 => Transaction::UpdateSubscriber,
        82..96 => Transaction::UpdateLocation,
        96..98 => Transaction::InsertForwarding,
        _ => Transaction::DeleteForwarding,
    }
}

/// One client.
pub struct Client<'c> {
    connection: &'c Connection,
    count: u64,
    rng: Rng,
    /// Call forwardings that there should be.
    forwardings: i64,
    begin: Statement<'c>,
    begin_write: Statement<'c>,
    commit: Statement<'c>,
    changes: Statement<'c>,
    get_subscriber: Statement<'c>,
    get_destination: Statement<'c>,
    get_access: Statement<'c>,
    update_bits: Statement<'c>,
    update_facility: Statement<'c>,
    update_location: Statement<'c>,
    find: Statement<'c>,
    find_facility: Statement<'c>,
    insert: Statement<'c>,
    delete: Statement<'c>,
}

impl<'c> Client<'c> {
    /// A client of a filled database.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn new(connection: &'c Connection, count: u64, seed: u64) -> Result<Self> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            connection,
            count,
            rng: Rng::new(seed),
            forwardings: connection.number("SELECT count(*) FROM call_forwarding")?,
            begin: prepare("BEGIN")?,
            begin_write: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            changes: prepare("SELECT changes()")?,
            get_subscriber: prepare("SELECT * FROM subscriber WHERE id = ?")?,
            get_destination: prepare(
                "SELECT cf.number FROM special_facility sf, call_forwarding cf WHERE sf.subscriber = ? AND sf.type = ? AND sf.is_active = 1 \
                 AND cf.subscriber = sf.subscriber AND cf.type = sf.type AND cf.start <= ? AND ? < cf.end",
            )?,
            get_access: prepare(
                "SELECT data1, data2, data3, data4 FROM access_info WHERE subscriber = ? AND type = ?",
            )?,
            update_bits: prepare("UPDATE subscriber SET bits = (bits & ~1) | ? WHERE id = ?")?,
            update_facility: prepare(
                "UPDATE special_facility SET data_a = ? WHERE subscriber = ? AND type = ?",
            )?,
            update_location: prepare("UPDATE subscriber SET vlr_location = ? WHERE number = ?")?,
            find: prepare("SELECT id FROM subscriber WHERE number = ?")?,
            find_facility: prepare("SELECT type FROM special_facility WHERE subscriber = ?")?,
            insert: prepare(
                "INSERT OR IGNORE INTO call_forwarding SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS \
                 (SELECT 1 FROM special_facility WHERE subscriber = ?1 AND type = ?2)",
            )?,
            delete: prepare("DELETE FROM call_forwarding WHERE subscriber = ? AND type = ? AND start = ?")?,
        })
    }

    /// NURand of the standard.
    fn subscriber(&mut self) -> u64 {
        let either = self.rng.below(NURAND_A + 1) | (1 + self.rng.below(self.count));
        either % self.count + 1
    }

    fn kind(&mut self) -> u64 {
        1 + self.rng.below(TYPES)
    }

    fn read(&mut self, transaction: Transaction) -> Result<()> {
        let (id, kind) = (int(self.subscriber()), int(self.kind()));
        match transaction {
            Transaction::GetSubscriber => self.get_subscriber.one(&[id], |row| row.int(2)).map(drop),
            Transaction::GetAccess => self.get_access.each(&[id, kind], |row| drop(row.text(2))),
            _ => {
                let (start, end) = (self.rng.below(STARTS) * 8, 1 + self.rng.below(24));
                self.get_destination.each(&[id, kind, int(start), int(end)], |row| drop(row.text(0)))
            }
        }
    }

    fn write(&mut self, transaction: Transaction) -> Result<()> {
        let (subscriber, kind) = (self.subscriber(), int(self.kind()));
        let (id, digits) = (int(subscriber), number_of(subscriber));
        match transaction {
            Transaction::UpdateSubscriber => {
                let (bit, data) = (int(self.rng.below(2)), int(self.rng.below(256)));
                self.update_bits.run(&[bit, id])?;
                self.update_facility.run(&[data, id, kind])
            }
            Transaction::UpdateLocation => {
                let location = int(self.rng.below(1 << 32));
                self.update_location.run(&[location, digits.as_str().into()])
            }
            _ => {
                let start = self.rng.below(STARTS) * 8;
                let found = self.find.one(&[digits.as_str().into()], |row| row.int(0))?;
                let (found, start_value) = (Value::Int(found), int(start));
                if transaction == Transaction::InsertForwarding {
                    self.find_facility.each(&[found], |row| drop(row.text(0)))?;
                    let end = int(start + 1 + self.rng.below(8));
                    self.insert.run(&[found, kind, start_value, end, digits.as_str().into()])?;
                    self.forwardings += self.changes.one(&[], |row| row.int(0))?;
                } else {
                    self.delete.run(&[found, kind, start_value])?;
                    self.forwardings -= self.changes.one(&[], |row| row.int(0))?;
                }
                Ok(())
            }
        }
    }
}

impl Load for Client<'_> {
    fn transaction(&mut self) -> Result<()> {
        let transaction = drawn(self.rng.below(100));
        match transaction {
            Transaction::GetSubscriber | Transaction::GetDestination | Transaction::GetAccess => {
                self.begin.run(&[])?;
                self.read(transaction)?;
            }
            _ => {
                self.begin_write.run(&[])?;
                self.write(transaction)?;
            }
        }
        self.commit.run(&[])
    }

    /// As many call forwardings as were inserted and not deleted, and all subscribers.
    fn wrong(&mut self) -> Result<Option<String>> {
        let forwardings = self.connection.number("SELECT count(*) FROM call_forwarding")?;
        let subscribers = self.connection.number("SELECT count(*) FROM subscriber")?;
        let right = forwardings == self.forwardings && subscribers == self.count as i64;
        let what = || {
            format!(
                "{forwardings} call forwardings, {} expected; {subscribers} subscribers of {}",
                self.forwardings, self.count
            )
        };
        Ok((!right).then(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_35_10_35_2_14_2_2() {
        let count = |which| (0..100).filter(|&number| drawn(number) == which).count();
        let shares = [
            Transaction::GetSubscriber,
            Transaction::GetDestination,
            Transaction::GetAccess,
            Transaction::UpdateSubscriber,
            Transaction::UpdateLocation,
            Transaction::InsertForwarding,
            Transaction::DeleteForwarding,
        ];
        assert_eq!(shares.map(count), [35, 10, 35, 2, 14, 2, 2]);
    }

    #[test]
    fn forwardings_come_and_go() {
        let Some(connection) = super::super::tests::filled(super::super::Kind::Tatp) else { return };
        let mut client =
            Client::new(&connection, subscribers(super::super::tests::DATA_BYTES), 1).expect("filled");
        let before = client.forwardings;
        (0..5_000).for_each(|_| client.transaction().expect("room"));
        assert_ne!(client.forwardings, before, "nothing was inserted or deleted");
        assert_eq!(client.wrong().expect("readable"), None);
    }
}
