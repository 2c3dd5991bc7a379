//! What may stand behind `aquifer advise`.

use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use aquifer_probe::advice::Assumptions;
use aquifer_probe::economics::Processor;
use clap::Args;

use crate::arguments::values::latency;

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  aquifer advise report.json                     settings for the heap, and why
  aquifer advise report.json --price-eur 120 --ram-eur-per-gb 3.5 --cpu-ghz 3 --cores 16
  aquifer advise report.json --write-profile nvme.profile
  aquifer advise report.json --json | jq .settings
  aquifer run --flash /nvme --device-profile nvme.profile -- ./program
  aquifer advise report.json --donors alpha:7447 --cluster /etc/aquifer
                                                 whether borrowing there pays beside swap
  aquifer advise report.json --latency 4us       or from a network that is not there yet
  aquifer advise --study                         the study's arithmetic, done again

What was not measured is called so; nothing is guessed. Processor and load are those
of the study (3.2 GHz, CPI 2.1, pages of 8 KiB, 25 % reads) unless they are given.";

/// Arguments of `aquifer advise`.
#[derive(Args, Debug)]
pub struct AdviseArguments {
    /// The report: what --report-json of `aquifer probe` wrote
    #[arg(value_name = "REPORT", required_unless_present = "study")]
    pub report: Option<PathBuf>,
    /// Writes the settings to a file for `aquifer run --device-profile`
    #[arg(long, value_name = "FILE")]
    pub write_profile: Option<PathBuf>,
    /// Price of the device
    #[arg(long, value_name = "EUR", value_parser = positive)]
    pub price_eur: Option<f64>,
    /// Size of the device, if the report is of a file or directory on it
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<u64>,
    /// Price of 10^9 bytes of RAM
    #[arg(long, value_name = "EUR", value_parser = positive)]
    pub ram_eur_per_gb: Option<f64>,
    /// Clock of the processor
    #[arg(long, value_name = "GHZ", default_value_t = 3.2, value_parser = positive)]
    pub cpu_ghz: f64,
    /// Cycles of one instruction under the load
    #[arg(long, value_name = "CYCLES", default_value_t = 2.1, value_parser = positive)]
    pub cpi: f64,
    /// Cores of the machine [default: those of the report]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub cores: Option<u32>,
    /// Share of reads among transfers, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = share)]
    pub read_share: f64,
    /// Bytes of a transfer
    #[arg(long, value_name = "SIZE", default_value = "8K", value_parser = page)]
    pub page: u64,
    /// Share of a program's time that is I/O, for Amdahl's law
    #[arg(long, value_name = "SHARE", default_value_t = 0.6, value_parser = share)]
    pub io_share: f64,
    /// Measures donors: whether borrowing pays beside swap on the device
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    pub donors: Vec<String>,
    /// The same for a network that is not there yet: how long a read of 4 KiB would take
    #[arg(long, value_name = "DURATION", value_parser = latency)]
    pub latency: Option<Duration>,
    /// This host's folder of the cluster
    #[arg(long, value_name = "FOLDER", requires = "donors")]
    pub cluster: Option<PathBuf>,
    /// One line of JSON in place of sentences
    #[arg(short, long, conflicts_with = "study")]
    pub json: bool,
    /// Does the study's arithmetic again, in place of a report
    #[arg(long, exclusive = true)]
    pub study: bool,
}

impl AdviseArguments {
    /// What stands here and not in the report.
    #[must_use]
    pub fn assumptions(&self) -> Assumptions {
        Assumptions {
            price_eur: self.price_eur,
            capacity_bytes: self.capacity,
            ram_eur_per_gb: self.ram_eur_per_gb,
            processor: Processor { ghz: self.cpu_ghz, cycles_per_instruction: self.cpi },
            cores: self.cores,
            read_share: self.read_share,
            page_bytes: self.page,
            io_share: self.io_share,
        }
    }
}

/// A number between a millionth and a billion.
fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (1e-6..=1e9).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is not between 0.000001 and 1000000000"))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(format!("{text} is not between 0 and 1")) }
}

/// A transfer from a sector to 64 MiB.
fn page(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if (512..=64 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{text} is not between 512 and 64M"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn parse(line: &str) -> Option<AdviseArguments> {
        match Arguments::try_parse_from(line.split(' ')).ok()?.command {
            Command::Advise(arguments) => Some(arguments),
            _ => None,
        }
    }

    #[test]
    fn nothing_said_is_the_study() {
        let arguments = parse("aquifer advise r.json").expect("it parses");
        assert_eq!(arguments.assumptions(), Assumptions::default());
    }

    #[test]
    fn figures_that_make_no_sense() {
        assert!(parse("aquifer advise").is_none() && parse("aquifer advise --study").is_some());
        assert!(parse("aquifer advise --study r.json").is_none());
        for wrong in [
            "--price-eur 0",
            "--price-eur nan",
            "--price-eur inf",
            "--cpi -1",
            "--cores 0",
            "--read-share 1.1",
            "--page 100",
            "--page 1T",
            "--io-share x",
        ] {
            assert!(parse(&format!("aquifer advise r.json {wrong}")).is_none(), "{wrong}");
        }
        assert!(parse("aquifer advise r.json --read-share 1 --page 512 --capacity 1T").is_some());
    }
}
