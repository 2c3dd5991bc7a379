//! TPC-C-like, not TPC-C (Transaction Processing Performance Council, "TPC Benchmark C", revision 5.11): the five transactions on tables
//! with the standard's rows and sizes.
//!
//! Different or left out: one client, which takes another warehouse and district for each transaction, stands for all terminals; nobody
//! types or thinks; deliveries are not deferred; the mix is drawn, not dealt; a stock's ten texts are one column; addresses are one
//! column; keys of several parts are packed into one number, because rows of SQLite are in a B+tree by one number.
//!
//! | file | noun |
//! |---|---|
//! | `schema` | tables, packed keys, how many rows |
//! | `fill` | what is in the tables at first |
//! | `terminal` | the client: mix, choice of customers, the books |
//! | `new_order`, `payment`, `delivery`, `questions` | the transactions |

mod delivery;
mod fill;
mod new_order;
mod payment;
mod questions;
mod schema;
mod terminal;

pub use fill::fill;
pub use schema::Size;
pub use terminal::Terminal;
