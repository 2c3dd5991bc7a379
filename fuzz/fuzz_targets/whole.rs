//! The cleaner takes a block of whole pages apart.
#![no_main]

#[path = "../../crates/log/tests/parsers/whole.rs"]
mod whole;

libfuzzer_sys::fuzz_target!(|input: &[u8]| whole::property(input));
