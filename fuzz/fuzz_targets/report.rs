//! A report from anybody, and everything that is made of it.
#![no_main]

#[path = "../../crates/probe/tests/parsers/report.rs"]
mod report;

libfuzzer_sys::fuzz_target!(|input: &[u8]| report::property(input));
