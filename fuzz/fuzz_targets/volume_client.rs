//! Clients of a volume that is served.
#![no_main]

#[path = "../../crates/volume/tests/parsers/client.rs"]
mod client;

libfuzzer_sys::fuzz_target!(|input: &[u8]| client::property(input));
