//! What a device is worth, and what machine to build around it.
//!
//! | file | noun | source |
//! |---|---|---|
//! | `device` | a device with its price, and those of the study; how long a page is worth its RAM beside it | Petrov, Gottstein, Ivanov, Buchmann, 2010; Gray, Putzolu, SIGMOD 1987; Gray, Graefe, SIGMOD Record 1997 |
//! | `amdahl` | speed-up when a part gets faster; I/O that a processor asks for, and devices that give it | Amdahl, AFIPS 1967; Gray, Shenoy, ICDE 2000 |
//! | `study` | the study's own arithmetic, done again | Petrov, Gottstein, Ivanov, Buchmann, 2010 |
//!
//! Prices are in euro, megabytes are 10^6 bytes, MIPS are 10^6 instructions per second.

mod amdahl;
mod device;
mod study;

pub use amdahl::{Mix, Processor, arithmetic_mix, devices_for, harmonic_mix, speed_up};
pub use device::{
    INTEL_X25_E, IODRIVE_DUO, MeasuredDevice, PricedDevice, RAID0_OF_TWO, SAVVIO_15K, STUDY_DEVICES,
    X25_E_AT_4K, X25_E_AT_8K, break_even_s,
};
pub use study::study;
