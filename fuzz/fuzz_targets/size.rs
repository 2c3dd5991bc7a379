//! A size is read from the environment.
#![no_main]

#[path = "../../crates/base/tests/parsers/size.rs"]
mod size;

libfuzzer_sys::fuzz_target!(|input: &[u8]| size::property(input));
