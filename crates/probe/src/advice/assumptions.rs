//! What no report can tell: prices, the processor, the load.

use crate::economics::Processor;

/// What the user adds to a report. The defaults are those of the study's balanced system (Petrov et al., 2010); there are none for prices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assumptions {
    /// Price of the device in euro.
    pub price_eur: Option<f64>,
    /// Its size in bytes, where it is not what was measured.
    pub capacity_bytes: Option<u64>,
    /// Price of 10^9 bytes of RAM in euro.
    pub ram_eur_per_gb: Option<f64>,
    /// One core.
    pub processor: Processor,
    /// Cores of the machine; those of the report if absent.
    pub cores: Option<u32>,
    /// Share of reads among transfers, 0 to 1.
    pub read_share: f64,
    /// Bytes of a transfer.
    pub page_bytes: u64,
    /// Share of the time that is spent in I/O on the study's disk, 0 to 1.
    pub io_share: f64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            price_eur: None,
            capacity_bytes: None,
            ram_eur_per_gb: None,
            processor: Processor { ghz: 3.2, cycles_per_instruction: 2.1 },
            cores: None,
            read_share: 0.25,
            page_bytes: 8192,
            io_share: 0.6,
        }
    }
}
