//! The TPC-C-like transactions of `page-size` on a database that SQLite has in memory.
//!
//! It is in one block of memory, by SQLite's `memdb`. A database named `:memory:` has each page in a block of its own, and as long as it is smaller than
//! 1 GiB a commit that has divided a page walks along all of them (3.40): with too little RAM that is a transaction in some seconds, on anything.
//!
//! What is simplified against the standard is said where they are ([`crate::page_size`], `load/tpcc`); here besides: nothing is durable.

use std::time::Instant;

use super::super::answer::Answer;
use super::super::slots::Slots;
use super::Extent;
use crate::error::{Error, Result};
use crate::page_size::Kind;
use crate::page_size::connection::Connection;
use crate::process::Memory;

/// The block, with a buffer as small as SQLite's own, so that the data are nowhere else.
const DATABASE: &str = "file:/aquifer-bench-far?vfs=memdb";
const SETTINGS: &str = "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2000";

/// Fills the tables, warms up, and does transactions.
///
/// # Errors
/// [`Error::Unavailable`] without SQLite, its errors, and [`Error::WrongData`] if the tables do not agree in the end.
pub fn run(extent: Extent, seed: u64) -> Result<Answer> {
    let setup = Instant::now();
    let connection = Connection::open_uri(DATABASE)?;
    connection.execute(SETTINGS)?;
    Kind::TpcC.fill(&connection, extent.data_bytes, &mut |_, _| ())?;
    let mut client = Kind::TpcC.client(&connection, extent.data_bytes, seed)?;
    let warm = Instant::now();
    while warm.elapsed() < extent.warmup {
        client.transaction()?;
    }
    let (setup_s, start) = (setup.elapsed().as_secs_f64(), Instant::now());
    let mut ops = 0;
    while ops == 0 || start.elapsed() < extent.length {
        client.transaction()?;
        ops += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let slots = Slots::now()?;
    if let Some(what) = client.wrong()?.or(miscounted(&connection)?) {
        return Err(Error::WrongData { peer: "SQLite in memory".to_owned(), what });
    }
    Ok(Answer { rounds: None, ops, seconds, setup_s, digest: None, memory: Memory::default(), slots })
}

/// Whether there are other numbers of orders and lines than were counted (clauses 3.3.2.3 and 3.3.2.4).
fn miscounted(connection: &Connection) -> Result<Option<String>> {
    let number = |sql: &str| connection.number(sql);
    let orders = (number("SELECT count(*) FROM orders")?, number("SELECT sum(next_order) FROM districts")?);
    let lines = (number("SELECT count(*) FROM order_lines")?, number("SELECT sum(lines) FROM orders")?);
    let waiting = (number("SELECT count(*) FROM new_orders")?, orders.0);
    let is_right = orders.0 == orders.1 && lines.0 == lines.1 && waiting.0 <= waiting.1;
    Ok((!is_right).then(|| format!("orders {orders:?}, lines {lines:?}, not delivered {waiting:?}")))
}
