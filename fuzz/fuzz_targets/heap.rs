//! A file is opened as a durable heap.
#![no_main]

#[path = "../../crates/durable/tests/parsers/heap.rs"]
mod heap;

libfuzzer_sys::fuzz_target!(|input: &[u8]| heap::property(input));
