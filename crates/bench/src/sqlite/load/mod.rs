//! What the transactions do, and what is in the tables at first.

pub(crate) mod random;
mod tatp;
mod tpcb;
mod tpcc;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::error::Result;

/// Rows that are inserted in one transaction while a database is filled.
const FILLED_TOGETHER: u64 = 20_000;

/// The loads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Small updates of one account each
    TpcB,
    /// Subscribers of a telephone network: 80 % reads
    Tatp,
    /// Orders, payments, deliveries and questions about them
    TpcC,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TpcB => "tpc-b",
            Self::Tatp => "tatp",
            Self::TpcC => "tpc-c",
        })
    }
}

/// One client of a filled database.
pub trait Load {
    /// One transaction, committed or, where the load wants it, rolled back.
    ///
    /// # Errors
    /// Those of [`Connection`].
    fn transaction(&mut self) -> Result<()>;

    /// What is wrong with the database, if anything, after all transactions of this client.
    ///
    /// # Errors
    /// Those of [`Connection`].
    fn wrong(&mut self) -> Result<Option<String>>;
}

impl Kind {
    /// Makes the tables and about `data_bytes` of rows; `tell` is told how many rows of how many are there.
    ///
    /// # Errors
    /// Those of `Connection`.
    pub fn fill(
        self,
        connection: &Connection,
        data_bytes: u64,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        match self {
            Self::TpcB => tpcb::fill(connection, tpcb::Size::of_bytes(data_bytes), tell),
            Self::Tatp => tatp::fill(connection, tatp::subscribers(data_bytes), tell),
            Self::TpcC => tpcc::fill(connection, tpcc::Size::of_bytes(data_bytes), tell),
        }
    }

    /// A client of a database that was filled with as many bytes.
    ///
    /// # Errors
    /// Those of `Connection`.
    pub fn client(self, connection: &Connection, data_bytes: u64, seed: u64) -> Result<Box<dyn Load + '_>> {
        Ok(match self {
            Self::TpcB => Box::new(tpcb::Client::new(connection, tpcb::Size::of_bytes(data_bytes), seed)?),
            Self::Tatp => Box::new(tatp::Client::new(connection, tatp::subscribers(data_bytes), seed)?),
            Self::TpcC => Box::new(tpcc::Terminal::new(connection, tpcc::Size::of_bytes(data_bytes), seed)?),
        })
    }

    /// What [`Kind::scale`] counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::TpcB => "branches",
            Self::Tatp => "subscribers",
            Self::TpcC => "warehouses",
        }
    }

    /// Branches, subscribers or warehouses of `data_bytes`.
    pub fn scale(self, data_bytes: u64) -> u64 {
        match self {
            Self::TpcB => tpcb::Size::of_bytes(data_bytes).branches,
            Self::Tatp => tatp::subscribers(data_bytes),
            Self::TpcC => tpcc::Size::of_bytes(data_bytes).warehouses,
        }
    }
}

/// Inserts rows `0..count`, in transactions of many; `insert` makes one of them.
///
/// # Errors
/// Those of [`Connection`].
pub fn insert_all(
    connection: &Connection,
    count: u64,
    mut insert: impl FnMut(u64) -> Result<()>,
    mut tell: impl FnMut(u64),
) -> Result<()> {
    for first in (0..count).step_by(FILLED_TOGETHER as usize) {
        let end = count.min(first + FILLED_TOGETHER);
        connection.execute("BEGIN")?;
        (first..end).try_for_each(&mut insert)?;
        connection.execute("COMMIT")?;
        tell(end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::Error;

    /// Enough for every table to have several pages.
    pub(super) const DATA_BYTES: u64 = 2 << 20;

    /// A filled database in memory; none, with the reason printed, where SQLite is missing.
    pub(super) fn filled(kind: Kind) -> Option<Connection> {
        let connection = match Connection::open(Path::new(":memory:")) {
            Err(Error::Unavailable(reason)) => {
                println!("SKIP {reason}");
                return None;
            }
            opened => opened.expect("memory is there"),
        };
        let mut told = (0, 0);
        kind.fill(&connection, DATA_BYTES, &mut |done, total| told = (done, total)).expect("room");
        assert_eq!(told.0, told.1, "the last step is the end");
        Some(connection)
    }

    #[test]
    fn databases_have_about_the_size_that_was_asked_for() {
        for &kind in Kind::value_variants() {
            let Some(connection) = filled(kind) else { return };
            let pages = connection.number("PRAGMA page_count").expect("a number");
            let bytes = pages as f64 * connection.number("PRAGMA page_size").expect("a number") as f64;
            assert!((0.85..1.25).contains(&(bytes / DATA_BYTES as f64)), "{kind}: {bytes}");
        }
    }

    #[test]
    fn the_books_are_right_after_many_transactions_and_wrong_after_a_theft() {
        for (kind, theft) in [
            (Kind::TpcB, "UPDATE tellers SET balance = balance + 1 WHERE id = 3"),
            (Kind::Tatp, "DELETE FROM subscriber WHERE id = 3"),
            (Kind::TpcC, "UPDATE districts SET ytd = ytd + 1 WHERE id = 3"),
        ] {
            let Some(connection) = filled(kind) else { return };
            let mut client = kind.client(&connection, DATA_BYTES, 1).expect("filled");
            for _ in 0..2_000 {
                client.transaction().expect("room");
            }
            assert_eq!(client.wrong().expect("readable"), None, "{kind}");
            connection.execute(theft).expect("the row is there");
            assert!(client.wrong().expect("readable").is_some(), "{kind}");
        }
    }
}
