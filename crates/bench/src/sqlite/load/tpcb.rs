//! TPC-B-like, not TPC-B (Transaction Processing Performance Council, "TPC Benchmark B", revision 2.0): tables, sizes and the profile of
//! the transaction are the standard's; one client instead of many, no ramp, no pricing, and the history has no limit.

use super::super::connection::{Connection, Statement};
use super::insert_all;
use super::random::Pool;
use super::random::between;
use crate::error::Result;
use crate::rng::Rng;

const TELLERS_OF_BRANCH: u64 = 10;
const ACCOUNTS_OF_BRANCH: u64 = 100_000;
/// Bytes of the database for each account.
const ACCOUNT_BYTES: u64 = 106;
/// Rows of 100 bytes with their numbers.
const FILLER_BYTES: u64 = 88;
/// The history's rows have 50.
const HISTORY_FILLER_BYTES: u64 = 22;
/// Percent of the transactions whose account belongs to the teller's branch.
const HOME_PERCENT: u64 = 85;
const DELTA_MAX: u64 = 999_999;
const FILL_SEED: u64 = 0xB;

const SCHEMA: &str = "
    CREATE TABLE branches (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler TEXT NOT NULL);
    CREATE TABLE tellers (id INTEGER PRIMARY KEY, branch INTEGER NOT NULL, balance INTEGER NOT NULL, filler TEXT NOT NULL);
    CREATE TABLE accounts (id INTEGER PRIMARY KEY, branch INTEGER NOT NULL, balance INTEGER NOT NULL, filler TEXT NOT NULL);
    CREATE TABLE history (teller INTEGER NOT NULL, branch INTEGER NOT NULL, account INTEGER NOT NULL, delta INTEGER NOT NULL,
        time INTEGER NOT NULL, filler TEXT NOT NULL);";

/// How many rows there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Branches, each with ten tellers.
    pub branches: u64,
    /// Accounts of each: the standard's 100,000, or fewer of a single branch.
    accounts: u64,
}

impl Size {
    /// The size of about `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        let accounts = (bytes / ACCOUNT_BYTES).max(1);
        Self { branches: (accounts / ACCOUNTS_OF_BRANCH).max(1), accounts: accounts.min(ACCOUNTS_OF_BRANCH) }
    }
}

/// Makes and fills the tables.
///
/// # Errors
/// Those of [`Connection`].
pub fn fill(connection: &Connection, size: Size, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
    connection.execute(SCHEMA)?;
    let (pool, mut rng) = (Pool::new(FILL_SEED), Rng::new(FILL_SEED));
    let mut branch = connection.prepare("INSERT INTO branches VALUES (?, 0, ?)")?;
    insert_all(
        connection,
        size.branches,
        |n| branch.run(&[(n as i64).into(), pool.take(&mut rng, FILLER_BYTES).into()]),
        |_| (),
    )?;
    for (table, of_branch) in [("tellers", TELLERS_OF_BRANCH), ("accounts", size.accounts)] {
        let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES (?, ?, 0, ?)"))?;
        let total = size.branches * of_branch;
        let row = |n| {
            let branch = (n / of_branch) as i64;
            insert.run(&[(n as i64).into(), branch.into(), pool.take(&mut rng, FILLER_BYTES).into()])
        };
        insert_all(connection, total, row, |done| tell(done, total))?;
    }
    Ok(())
}

/// One client.
pub struct Client<'c> {
    connection: &'c Connection,
    size: Size,
    rng: Rng,
    pool: Pool,
    done: u64,
    begin: Statement<'c>,
    update_account: Statement<'c>,
    read_account: Statement<'c>,
    update_teller: Statement<'c>,
    update_branch: Statement<'c>,
    insert_history: Statement<'c>,
    commit: Statement<'c>,
}

impl<'c> Client<'c> {
    /// A client of a filled database.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn new(connection: &'c Connection, size: Size, seed: u64) -> Result<Self> {
        let update =
            |table| connection.prepare(&format!("UPDATE {table} SET balance = balance + ? WHERE id = ?"));
        Ok(Self {
            connection,
            size,
            rng: Rng::new(seed),
            pool: Pool::new(seed),
            done: 0,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            update_account: update("accounts")?,
            read_account: connection.prepare("SELECT balance FROM accounts WHERE id = ?")?,
            update_teller: update("tellers")?,
            update_branch: update("branches")?,
            insert_history: connection.prepare("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)")?,
            commit: connection.prepare("COMMIT")?,
        })
    }

    /// An account of the branch, or of another one. All accounts are as frequent over all branches.
    fn account(&mut self, branch: u64) -> u64 {
        let Size { branches, accounts } = self.size;
        let home = branches == 1 || self.rng.below(100) < HOME_PERCENT;
        let of = if home { branch } else { (branch + between(&mut self.rng, 1, branches - 1)) % branches };
        of * accounts + self.rng.below(accounts)
    }
}

impl super::Load for Client<'_> {
    fn transaction(&mut self) -> Result<()> {
        let teller = self.rng.below(self.size.branches * TELLERS_OF_BRANCH);
        let branch = teller / TELLERS_OF_BRANCH;
        let account = self.account(branch) as i64;
        let delta = self.rng.below(2 * DELTA_MAX + 1) as i64 - DELTA_MAX as i64;
        let (teller, branch) = (teller as i64, branch as i64);
        self.begin.run(&[])?;
        self.update_account.run(&[delta.into(), account.into()])?;
        self.read_account.one(&[account.into()], |row| row.int(0))?;
        self.update_teller.run(&[delta.into(), teller.into()])?;
        self.update_branch.run(&[delta.into(), branch.into()])?;
        let filler = self.pool.take(&mut self.rng, HISTORY_FILLER_BYTES);
        let time = self.done as i64;
        self.insert_history.run(&[
            teller.into(),
            branch.into(),
            account.into(),
            delta.into(),
            time.into(),
            filler.into(),
        ])?;
        self.commit.run(&[])?;
        self.done += 1;
        Ok(())
    }

    /// Tellers, branches and the history give the same sum (the standard's consistency condition, but for the accounts, which are too
    /// many to be read after each cell), and the history has a row for each transaction.
    fn wrong(&mut self) -> Result<Option<String>> {
        let sum = |sql: &str| self.connection.number(sql);
        let sums = [
            sum("SELECT sum(balance) FROM branches")?,
            sum("SELECT sum(balance) FROM tellers")?,
            sum("SELECT coalesce(sum(delta), 0) FROM history")?,
        ];
        let rows = sum("SELECT count(*) FROM history")?;
        let right = sums[0] == sums[1] && sums[1] == sums[2] && rows as u64 == self.done;
        let what = || format!("branches, tellers, history sum to {sums:?}; {rows} rows, {} done", self.done);
        Ok((!right).then(what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::tests::filled;
    use super::*;

    #[test]
    fn branches_are_as_large_as_the_standards_when_there_is_room() {
        assert_eq!(Size::of_bytes(20 * 100_000 * ACCOUNT_BYTES), Size { branches: 20, accounts: 100_000 });
        assert_eq!(Size::of_bytes(500 * ACCOUNT_BYTES), Size { branches: 1, accounts: 500 });
    }

    #[test]
    fn accounts_are_at_home_in_85_of_100_cases_and_all_of_them_are_used() {
        let Some(connection) = filled(Kind::TpcB) else { return };
        let mut client = Client::new(&connection, Size { branches: 4, accounts: 10 }, 1).expect("filled");
        let mut counts = [0_u32; 40];
        for _ in 0..20_000 {
            counts[client.account(2) as usize] += 1;
        }
        let home: u32 = counts[20..30].iter().sum();
        assert!((16_700..17_300).contains(&home), "{home}");
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}
