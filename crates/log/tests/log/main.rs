//! Log, heads and cleaner over a device in memory, with a map as the owner of the records.

mod bench;
mod classes;
mod cleaning;
mod damage;
mod model;
mod transfers;
mod waiting;
mod whole;
