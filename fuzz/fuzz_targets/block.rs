//! The cleaner takes a block of the log apart.
#![no_main]

#[path = "../../crates/log/tests/parsers/block.rs"]
mod block;

libfuzzer_sys::fuzz_target!(|input: &[u8]| block::property(input));
