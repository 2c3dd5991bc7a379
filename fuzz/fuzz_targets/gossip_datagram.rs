//! Datagrams between donors.
#![no_main]

#[path = "../../crates/gossip/tests/parsers/datagram.rs"]
mod datagram;

libfuzzer_sys::fuzz_target!(|input: &[u8]| datagram::property(input));
