//! A leaf of the translation table is unpacked.
#![no_main]

#[path = "../../crates/map/tests/parsers/packed.rs"]
mod packed;

libfuzzer_sys::fuzz_target!(|input: &[u8]| packed::property(input));
