//! What to compare, at which points, how often and how long.

use clap::Args;

use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::measure::Flip;
use crate::peer::Kind;
use crate::scale::Scale;
use crate::workload::Point;

/// Options of `micro`.
#[derive(Clone, Debug, Args)]
#[command(after_help = PROOF)]
pub struct MicroOptions {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scale: Scale,
    /// Systems to compare
    #[arg(long, value_enum, value_delimiter = ',', default_value = "swap,mmap,memkind,aquifer,fio")]
    pub peer: Vec<Kind>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "32")]
    pub threads: Vec<usize>,
    /// Percentages of reads
    #[arg(long, value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub reads: Vec<u32>,
    /// Distributions of the accesses
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    pub dist: Vec<Distribution>,
    /// Points DIST:READS:THREADS instead of all combinations of --dist, --reads and --threads
    #[arg(long, value_delimiter = ',', value_parser = parse_point)]
    pub point: Vec<Point>,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds of warm-up before the first run of a point
    #[arg(long, default_value_t = 10.0)]
    pub warmup: f64,
    /// Seconds of warm-up before each later run of the same point
    #[arg(long, default_value_t = 1.0)]
    pub rewarm: f64,
    /// Runs of each point
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
    /// Size of the swap file as a multiple of --data; below 3 the kernel rewrites clean pages
    #[arg(long, default_value_t = 3)]
    pub swap_factor: u64,
    /// Turn the bits of a byte around once each peer is filled, to see that wrong bytes end the run: OBJECT:BYTE
    #[arg(long, value_parser = parse_flip)]
    pub flip_byte: Option<Flip>,
}

/// What every read is proven to be.
pub const PROOF: &str = "\
Every word of an object says which object and place it belongs to and which write made it, and every word that is read is
looked at: bytes of another object or of nobody end the run with status 1. Of up to 4096 objects the last write is known
too, so that a lost one shows; of the others it would take RAM that is being measured. What proving costs is in each
sample and under the table.";

impl MicroOptions {
    /// The points to measure, in order.
    pub fn points(&self) -> Vec<Point> {
        if !self.point.is_empty() {
            return self.point.clone();
        }
        let mut points = Vec::new();
        for &distribution in &self.dist {
            for &threads in &self.threads {
                let point = |&read_percent| Point { distribution, read_percent, threads };
                points.extend(self.reads.iter().map(point));
            }
        }
        points
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Input`] with the rule.
    pub fn check(&self) -> Result<()> {
        let sensible = |seconds: f64| (0.0..86_400.0).contains(&seconds);
        if !sensible(self.warmup) || !sensible(self.rewarm) || !sensible(self.seconds) || self.seconds < 0.1 {
            return Err(Error::Input(
                "--seconds is at least 0.1; no time is negative or over a day".to_owned(),
            ));
        }
        if self.points().iter().any(|point| !(1..=1024).contains(&point.threads)) || self.runs == 0 {
            return Err(Error::Input("--threads is 1 to 1024 and --runs at least 1".to_owned()));
        }
        Ok(())
    }
}

/// `OBJECT:BYTE`, as in `1000:5`.
///
/// # Errors
/// A sentence with the form.
pub fn parse_flip(text: &str) -> std::result::Result<Flip, String> {
    let parse = || {
        let (object, byte) = text.split_once(':')?;
        Some(Flip { object: object.parse().ok()?, byte: byte.parse().ok()? })
    };
    parse().ok_or_else(|| format!("'{text}' is not OBJECT:BYTE, as in 1000:5"))
}

/// `DIST:READS:THREADS`, as in `zipf:50:8`.
///
/// # Errors
/// A sentence with the form.
pub fn parse_point(text: &str) -> std::result::Result<Point, String> {
    let parse = || {
        let mut parts = text.split(':');
        let distribution = clap::ValueEnum::from_str(parts.next()?, false).ok()?;
        let read_percent = parts.next()?.parse().ok().filter(|percent| *percent <= 100)?;
        let threads = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Point { distribution, read_percent, threads })
    };
    parse().ok_or_else(|| format!("'{text}' is not DIST:READS:THREADS, as in zipf:50:8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_parsed() {
        let point = Point { distribution: Distribution::ScatteredHot, read_percent: 0, threads: 8 };
        assert_eq!(parse_point("scattered-hot:0:8"), Ok(point));
        assert_eq!(parse_flip("1000:5"), Ok(Flip { object: 1000, byte: 5 }));
        assert!(["1000", "1000:", "a:1", ":"].iter().all(|text| parse_flip(text).is_err()));
        for text in ["zipf", "zipf:101:8", "zipf:50", "zipf:50:8:1", "pareto:50:8"] {
            assert!(parse_point(text).is_err(), "{text}");
        }
    }
}
