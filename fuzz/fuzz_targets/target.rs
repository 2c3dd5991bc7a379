//! The parameters of an emulated device, and names of targets.
#![no_main]

#[path = "../../crates/probe/tests/parsers/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::property(input));
