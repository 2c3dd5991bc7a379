//! Parsers against random and damaged input.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod size;

/// What the fuzzer found, and what looks like it.
const FOUND: [&str; 4] = ["4\u{a0}K", "1\u{661}", "18446744073709551616", "16777216T"];

#[test]
fn sizes() {
    let samples = ["0", "4096", "256M", " 4 GiB ", "1t", "17179869183G", "1.5G", "-1", "+1", "12 kib"];
    let samples: Vec<Vec<u8>> = samples.iter().chain(&FOUND).map(|text| text.as_bytes().to_vec()).collect();
    mutations::drive(&samples, 50_000, size::property);
}
