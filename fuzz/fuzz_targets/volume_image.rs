//! A volume with bytes changed, also where checksums agree with them.
#![no_main]

#[path = "../../crates/volume/tests/parsers/image.rs"]
mod image;

libfuzzer_sys::fuzz_target!(|input: &[u8]| image::property(input));
