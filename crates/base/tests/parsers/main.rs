//! Parsers against random and damaged input.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod profile;
mod size;

/// What the fuzzer found, and what looks like it.
const FOUND: [&str; 4] = ["4\u{a0}K", "1\u{661}", "18446744073709551616", "16777216T"];

#[test]
fn sizes() {
    let samples = ["0", "4096", "256M", " 4 GiB ", "1t", "17179869183G", "1.5G", "-1", "+1", "12 kib"];
    let samples: Vec<Vec<u8>> = samples.iter().chain(&FOUND).map(|text| text.as_bytes().to_vec()).collect();
    mutations::drive(&samples, 50_000, size::property);
}

#[test]
fn profiles() {
    let samples = [
        "aquifer-device-profile = 1\n",
        "# of a disk\naquifer-device-profile = 1\n\ndepth = 32\nread_ahead_pages = 64 # twice\nwrite_bytes = 256K\n",
        "aquifer-device-profile = 1\r\nwrite_depth=16\r\nsegment_bytes = 1048576\r\n",
        "aquifer-device-profile = 2\ndepth = 1\n",
        "aquifer-device-profile = 1\ndepth = 1\ndepth = 18446744073709551616\nsegment_bytes = 1G\n",
    ];
    let samples: Vec<Vec<u8>> = samples.iter().map(|text| text.as_bytes().to_vec()).collect();
    mutations::drive(&samples, 50_000, profile::property);
}
