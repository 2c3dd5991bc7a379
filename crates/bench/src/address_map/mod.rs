//! The address map of the durable heap beside the structures that it could have been: sorted arrays in partitions, with and without the
//! hot-node cache, skip lists (Pugh 1990; the choice of Hu et al., ATC 2017) and trees under locks, one for each partition or one for all.

mod candidate;
mod run;

pub use candidate::{Candidate, Kind};
pub use run::{AddressMapOptions, run};
