//! The random numbers of benchmarks.

pub use aquifer_base::random::{Random as Rng, mix};
