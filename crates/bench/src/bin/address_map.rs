//! The `address_map` benchmark: the durable heap's map beside other structures.

use aquifer_bench::address_map::{AddressMapOptions, run};
use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  address_map
      All structures, runs of 8, 32 and 128 bytes in 16 MiB of home space, medians of 5
  address_map --structures arrays-hinted,skip-lists --run-bytes 8 --partitions 65536";

/// Measures looks and changes of the durable heap's address map, and of the structures that it could have been.
#[derive(Parser)]
#[command(name = "address_map", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    options: AddressMapOptions,
}

fn main() {
    run(&Cli::parse().options);
}
