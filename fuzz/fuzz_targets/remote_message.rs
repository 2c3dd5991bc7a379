//! Messages between borrowers and donors.
#![no_main]

#[path = "../../crates/remote/tests/parsers/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|input: &[u8]| message::property(input));
