//! What every study of the volume is told beside what all studies are.

use aquifer_base::units::parse_size;
use clap::Args;

/// The volume's part of RAM and disk.
#[derive(Clone, Debug, Args)]
pub struct VolumeOptions {
    /// What of --ram the volume is not given: the program and its buffers. A 256th of the data comes on top for page tables
    #[arg(long, value_parser = parse_size, default_value = "28M")]
    pub reserve: u64,
    /// Percent of a volume that its file takes
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(5..=90))]
    pub fill: u32,
    /// Turn the bits of this byte of the data around as it is written, to see that wrong bytes end the run
    #[arg(long)]
    pub flip_byte: Option<u64>,
}
