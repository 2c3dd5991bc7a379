//! Blocks of a volume's log, and the patches in them.
#![no_main]

#[path = "../../crates/volume/tests/parsers/block.rs"]
mod block;

libfuzzer_sys::fuzz_target!(|input: &[u8]| block::property(input));
