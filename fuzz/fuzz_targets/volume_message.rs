//! Messages between a volume's owner and its clients.
#![no_main]

#[path = "../../crates/volume/tests/parsers/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|input: &[u8]| message::property(input));
