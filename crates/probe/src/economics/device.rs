//! A device with its price, those of the study, and how long a page is worth its RAM beside one.

/// A device as its maker describes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PricedDevice {
    /// Its name.
    pub name: &'static str,
    /// Price in euro; `None` where the study does not say it.
    pub price_eur: Option<f64>,
    /// Gigabytes (10^9), where the study says them.
    pub gigabytes: Option<f64>,
    /// Random reads of 4 KiB per second.
    pub read_iops: f64,
    /// Random writes of 4 KiB per second.
    pub write_iops: f64,
}

/// Random transfers per second that were measured with one block size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredDevice {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
}

impl PricedDevice {
    /// Reads per second for a euro.
    #[must_use]
    pub fn read_iops_per_eur(&self) -> Option<f64> {
        Some(self.read_iops / self.price_eur?)
    }

    /// Writes per second for a euro.
    #[must_use]
    pub fn write_iops_per_eur(&self) -> Option<f64> {
        Some(self.write_iops / self.price_eur?)
    }

    /// Euro for a gigabyte.
    #[must_use]
    pub fn eur_per_gb(&self) -> Option<f64> {
        Some(self.price_eur? / self.gigabytes?)
    }
}

/// Intel X25-E, 64 GB, SLC: specification.
pub const INTEL_X25_E: PricedDevice = PricedDevice {
    name: "Intel X25-E",
    price_eur: Some(650.0),
    gigabytes: Some(64.0),
    read_iops: 35_000.0,
    write_iops: 3_300.0,
};
/// Fusion-io ioDrive Duo: specification; the study does not say which size it is.
pub const IODRIVE_DUO: PricedDevice = PricedDevice {
    name: "ioDrive Duo",
    price_eur: Some(6000.0),
    gigabytes: None,
    read_iops: 130_000.0,
    write_iops: 80_000.0,
};
/// Seagate Savvio, 146 GB, 15 000 revolutions per minute: specification.
pub const SAVVIO_15K: PricedDevice = PricedDevice {
    name: "Savvio 15k",
    price_eur: Some(180.0),
    gigabytes: Some(146.0),
    read_iops: 350.0,
    write_iops: 300.0,
};
/// RAID-0 of two X25-E behind a controller, measured. The study gives its rates per euro, but not its price.
pub const RAID0_OF_TWO: PricedDevice = PricedDevice {
    name: "RAID-0 of two X25-E",
    price_eur: None,
    gigabytes: Some(128.0),
    read_iops: 24_371.0,
    write_iops: 2_035.0,
};
/// All of them.
pub const STUDY_DEVICES: [PricedDevice; 4] = [INTEL_X25_E, IODRIVE_DUO, SAVVIO_15K, RAID0_OF_TWO];

/// The X25-E as the study measured it with 4 KiB.
pub const X25_E_AT_4K: MeasuredDevice =
    MeasuredDevice { block_bytes: 4096, read_iops: 35_500.0, write_iops: 6_000.0 };
/// The X25-E as the study measured it with 8 KiB.
pub const X25_E_AT_8K: MeasuredDevice =
    MeasuredDevice { block_bytes: 8192, read_iops: 23_000.0, write_iops: 4_800.0 };

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
