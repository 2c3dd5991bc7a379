//! Settings for a device are read from a file.
#![no_main]

#[path = "../../crates/base/tests/parsers/profile.rs"]
mod profile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| profile::property(input));
