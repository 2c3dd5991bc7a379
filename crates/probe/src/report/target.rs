//! What was measured, and on what machine.

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// As `/proc/cpuinfo` has it.
    pub cpu_model: String,
    /// Processors that the probe could use.
    pub cpus: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Share of processor time that other machines on the same host took during the run, in percent.
    pub steal_percent: f64,
}

/// What sort of thing was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A whole block device.
    BlockDevice,
    /// A file that the user named and allowed to be overwritten.
    File,
    /// Files of the probe's own in a directory.
    Directory,
    /// The emulated NAND device, in simulated time.
    Nand,
}

/// What was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// As the user gave it.
    pub name: String,
    /// What sort of thing it is.
    pub kind: TargetKind,
    /// Bytes of the device, or free bytes of the file system.
    pub size_bytes: u64,
    /// Bytes that the probe used.
    pub tested_bytes: u64,
    /// Smallest transfer.
    pub block_bytes: u32,
    /// The device's own name, if it has one.
    pub model: Option<String>,
    /// Type of the file system that holds the files.
    pub file_system: Option<String>,
    /// What the kernel believes. Reported, never trusted.
    pub queue: Option<QueueFlags>,
    /// What was emulated.
    pub emulation: Option<Emulation>,
}

/// What `/sys/block/*/queue` says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueFlags {
    /// The block device below.
    pub device: String,
    /// A disk with a spindle, allegedly.
    pub rotational: Option<bool>,
    /// "write back" or "write through".
    pub write_cache: Option<String>,
    /// Whether single writes can be forced.
    pub fua: Option<bool>,
    /// Largest discard; 0 for none.
    pub discard_bytes_max: Option<u64>,
    /// Smallest transfer.
    pub logical_block_bytes: Option<u32>,
    /// Smallest transfer without read-modify-write.
    pub physical_block_bytes: Option<u32>,
    /// Requests that the queue takes.
    pub requests: Option<u32>,
    /// The scheduler in use.
    pub scheduler: Option<String>,
}

/// The parameters of an emulated device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulation {
    /// All parameters, in the form that the command line takes.
    pub parameters: String,
    /// (T - U) / U: spare pages by user pages.
    pub over_provisioning: f64,
    /// Programs of all kinds by programs of the host, over the whole run.
    pub write_amplification: f64,
    /// Pages programmed for the host.
    pub host_programs: u64,
    /// Pages programmed to free blocks.
    pub cleaning_programs: u64,
    /// Pages programmed to level wear.
    pub leveling_programs: u64,
    /// Pages programmed for the translation layer itself.
    pub metadata_programs: u64,
    /// Blocks erased.
    pub erases: u64,
}
