//! Does a database want small pages on flash? SQLite under two loads, with pages of several sizes and buffers of several sizes.
//!
//! Petrov, Ivanov and Buchmann ("Flash SSDs as primary database storage", 2010; with Gottstein and Bausch 2011) found that OLTP on flash
//! does better with pages of 4 KiB than of 16 KiB, reaches the same speed with smaller buffers, and uses the processor better. This asks
//! the same of the SQLite that the distribution has.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `run` | cells in a shuffled order, again and again |
//! | `files` | filled databases, and the copy that a cell works on |
//! | `task` | the children: one fills a database, one measures a cell |
//! | `database` | a connection with the settings of a cell |
//! | `connection`, `sqlite_abi` | the part of SQLite's interface that is needed |
//! | `load` | TPC-B-like and TPC-C-like transactions |
//! | `sample` | what is written for a cell |
//! | `plot` | the picture |

pub(crate) mod connection;
mod database;
mod files;
pub(crate) mod load;
mod options;
mod plot;
mod run;
pub mod sample;
mod sqlite_abi;
pub mod task;

pub use database::Journal;
pub use load::Kind;
pub use options::PageSizeOptions;
pub use plot::draw;
pub use run::run;
