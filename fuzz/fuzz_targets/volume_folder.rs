//! Pages of folders.
#![no_main]

#[path = "../../crates/volume/tests/parsers/folder.rs"]
mod folder;

libfuzzer_sys::fuzz_target!(|input: &[u8]| folder::property(input));
