//! The data structures against those of the standard library, with transactions that come to nothing and heaps that are opened
//! again; many threads; and whether everything is freed.

mod bytes;
mod freed;
mod models;
mod plain;
mod threads;

use std::path::Path;

use aquifer_durable::{Backing, DurableHeap, Options, Tuning};

fn open(path: &Path) -> DurableHeap {
    open_with(path, Tuning::ALL)
}

fn open_with(path: &Path, tuning: Tuning) -> DurableHeap {
    let options = Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        tuning,
        ..Options::default()
    };
    DurableHeap::open(path, &options).expect("opens")
}

/// A number that looks random.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed >> 32
}
