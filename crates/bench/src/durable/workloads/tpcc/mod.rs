//! Orders and payments: TPC-C-like, not TPC-C (Transaction Processing Performance Council, "TPC Benchmark C", revision 5.11).
//!
//! Half of the transactions are new orders of 5 to 15 lines, half are payments. Records have the sizes of TPC-C's rows, tables are
//! B+trees that lead to them. Reduced: each thread has one warehouse to itself, from which all items come; nothing rolls back; orders
//! stay, and are not delivered; customers are known by number.
//!
//! | file | noun |
//! |---|---|
//! | `records` | rows of the tables |
//! | `database` | the tables, and what is in them at first |
//! | `terminal` | what one thread does to them |

mod database;
mod records;
mod terminal;

use aquifer_durable::{Result, Transactional};

use super::client::Clients;
use database::{Database, Size};
use terminal::Terminal;

/// The clients of one database, whose size goes by the number of entries.
///
/// # Errors
/// The heap's.
pub fn clients<H: Transactional>(heap: &H, entries: u64, threads: u64, seed: u64) -> Result<Clients<H>> {
    let size = Size::of_entries(entries);
    let database = Database::create(heap, size, threads)?;
    let terminal = |warehouse| Terminal::new(database, size, warehouse, seed);
    (0..threads)
        .map(|warehouse| Ok(Box::new(terminal(warehouse)) as Box<dyn super::client::Client<H>>))
        .collect()
}
