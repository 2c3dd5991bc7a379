//! The records of a durable heap's checkpoint.
#![no_main]

#[path = "../../crates/durable/tests/parsers/checkpoint.rs"]
mod checkpoint;
#[path = "../../crates/durable/tests/parsers/heap.rs"]
#[allow(dead_code, reason = "its own property is another target's")]
mod heap;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checkpoint::property(input));
