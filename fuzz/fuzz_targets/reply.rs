//! The command reads the answer of a socket.
#![no_main]

#[path = "../../crates/cli/tests/parsers/reply.rs"]
mod reply;

libfuzzer_sys::fuzz_target!(|input: &[u8]| reply::property(input));
