//! The file of an emulated flash device, and the translation layer over it.
#![no_main]

#[path = "../../crates/device/tests/parsers/flash.rs"]
mod flash;

libfuzzer_sys::fuzz_target!(|input: &[u8]| flash::property(input));
