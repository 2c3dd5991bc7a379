//! The traditional way, to compare with: data have a home of their own and are written twice, to a journal and to their home.
//!
//! Nobody should keep data in it: it is the baseline of the benchmarks, with the durable heap's transactional memory, allocator and
//! persist layer. What differs is where committed bytes are.
//!
//! | | redo (Mnemosyne: Volos, Tack and Swift, ASPLOS 2011) | undo (libpmemobj; Mnemosyne-Undo in Hu et al., ATC 2017) |
//! |---|---|---|
//! | 1 | new bytes to the journal, one fence | old bytes of each range to the journal, a fence each, as a program that stores in place must |
//! | 2 | new bytes to their homes, one fence | the same |
//! | 3 | journal truncated, one fence | the same |
//!
//! | file | noun |
//! |---|---|
//! | `layout` | where home addresses and bits of allocation are in the file |
//! | `journal` | the durable record of a transaction under way |
//! | `heap` | the whole, and its recovery |
//! | `transaction` | the commit |

mod heap;
mod journal;
mod layout;
mod transaction;

pub use heap::InPlaceHeap;
pub use journal::Kind;
pub use transaction::InPlaceTransaction;
