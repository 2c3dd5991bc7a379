//! The command reads what a program has left of its faults.
#![no_main]

#[path = "../../crates/cli/tests/parsers/samples.rs"]
mod samples;

libfuzzer_sys::fuzz_target!(|input: &[u8]| samples::property(input));
