//! How long a page is worth its RAM.

/// Seconds after which a page that is not used is cheaper on the device than in RAM: (pages per megabyte of RAM / transfers per second of the
/// device) x (price of the device / price of a megabyte of RAM).
///
/// Source: Gray, Putzolu, SIGMOD 1987, in the form of Gray, Graefe, SIGMOD Record 1997.
#[must_use]
pub fn break_even_s(page_bytes: u64, device_iops: f64, device_price: f64, ram_price_per_mb: f64) -> f64 {
    let pages_per_mb = 1e6 / page_bytes as f64;
    pages_per_mb / device_iops * (device_price / ram_price_per_mb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_both_papers() {
        // 1987: pages of 1 kB, 2000 dollars for an access per second, 5 dollars for a kilobyte of RAM: 400 s.
        assert!((break_even_s(1000, 1.0, 2000.0, 5000.0) - 400.0).abs() < 1e-9);
        // 1997: 128 pages in a megabyte of RAM, 64 accesses per second, 2000 dollars a disk, 15 dollars a megabyte: 266 s.
        let s = break_even_s(1_000_000 / 128, 64.0, 2000.0, 15.0);
        assert_eq!(s.floor(), 266.0);
    }
}
