//! A record is looked for among bytes of the log.
#![no_main]

#[path = "../../crates/log/tests/parsers/record.rs"]
mod record;

libfuzzer_sys::fuzz_target!(|input: &[u8]| record::property(input));
