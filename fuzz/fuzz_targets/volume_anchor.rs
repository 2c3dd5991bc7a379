//! Anchors of a volume.
#![no_main]

#[path = "../../crates/volume/tests/parsers/anchor.rs"]
mod anchor;

libfuzzer_sys::fuzz_target!(|input: &[u8]| anchor::property(input));
