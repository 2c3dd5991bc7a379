//! Emulated flash by its parameters.

use std::fmt::Write;

use aquifer_base::units::{format_size, parse_size};
use aquifer_device::ftl::{Frontiers, Ftl, FtlOptions, VictimPolicy};
use aquifer_device::nand::{Backing, Geometry, Nand, NandOptions, Timing, Wear};
use aquifer_device::queue::{Controller, Queue, SimulatedQueue};

use crate::error::ProbeError;
use crate::report::{Target, TargetKind};

/// The parameters of an emulated device. Every one has a default.
#[derive(Clone, PartialEq, Debug)]
pub struct FlashSpec {
    /// `size`: bytes of flash, spare pages included.
    size_bytes: u64,
    /// `channels`.
    channels: u32,
    /// `dies` on each channel.
    dies: u32,
    /// `pages` of a block.
    pages: u32,
    /// `page`: bytes of a page.
    page_bytes: u32,
    /// `read`, `program`, `erase`: microseconds.
    read_us: u32,
    program_us: u32,
    erase_us: u32,
    /// `bus`: megabytes (10^6) per second of each channel.
    bus_mb_per_s: u32,
    /// `op`: spare pages by user pages.
    over_provisioning: f64,
    /// `gc`: the policy.
    victim: VictimPolicy,
    /// `frontiers`.
    frontiers: Frontiers,
    /// `cache`: pages of volatile write cache.
    cache_pages: u32,
    /// `controller`: microseconds of the host's controller for each transfer.
    controller_us: f64,
    /// `limit`: erases that a block stands.
    erase_limit: u32,
    /// `seed`.
    seed: u64,
}

impl Default for FlashSpec {
    fn default() -> Self {
        FlashSpec {
            size_bytes: 1 << 30,
            channels: 4,
            dies: 2,
            pages: 128,
            page_bytes: 4096,
            read_us: 40,
            program_us: 200,
            erase_us: 2000,
            bus_mb_per_s: 800,
            over_provisioning: 0.07,
            victim: VictimPolicy::Greedy,
            frontiers: Frontiers::Separate,
            cache_pages: 256,
            controller_us: 1.0,
            erase_limit: 0,
            seed: 1,
        }
    }
}

/// Time of a write that finds room in the cache.
const CACHE_NS: u64 = 10_000;

fn bad(what: impl Into<String>) -> ProbeError {
    ProbeError::BadParameter { what: what.into() }
}

impl FlashSpec {
    /// Parameters as `key=value`, with commas between them.
    ///
    /// # Errors
    /// [`ProbeError::BadParameter`].
    pub fn parse(text: &str) -> Result<Self, ProbeError> {
        let mut spec = FlashSpec::default();
        for parameter in text.split(',').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter
                .split_once('=')
                .ok_or_else(|| bad(format!("'{}' is not key=value", parameter.escape_debug())))?;
            spec.set(key, value)?;
        }
        if spec.blocks_per_die() == 0 {
            return Err(bad(format!(
                "{} are too few for one block on each die",
                format_size(spec.size_bytes)
            )));
        }
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ProbeError> {
        let wrong = || bad(format!("{key} cannot be '{}'", value.escape_debug()));
        let number = |most: u32| value.parse().ok().filter(|&number: &u32| number <= most).ok_or_else(wrong);
        let positive =
            |most| number(most).and_then(|number| if number > 0 { Ok(number) } else { Err(wrong()) });
        let share = |most: f64| {
            value
                .parse()
                .ok()
                .filter(|share: &f64| share.is_finite() && *share >= 0.0 && *share <= most)
                .ok_or_else(wrong)
        };
        match key {
            "size" => {
                let most = 64 << 30;
                self.size_bytes = parse_size(value).ok().filter(|&size| size <= most).ok_or_else(wrong)?;
            }
            "channels" => self.channels = positive(64)?,
            "dies" => self.dies = positive(64)?,
            "pages" => self.pages = positive(4096)?,
            "page" => {
                self.page_bytes = parse_size(value)
                    .ok()
                    .filter(|&size| size > 0)
                    .and_then(|size| size.try_into().ok())
                    .ok_or_else(wrong)?
            }
            "read" => self.read_us = number(1_000_000)?,
            "program" => self.program_us = positive(1_000_000)?,
            "erase" => self.erase_us = number(10_000_000)?,
            "bus" => self.bus_mb_per_s = positive(100_000)?,
            "op" => self.over_provisioning = share(100.0)?,
            "cache" => self.cache_pages = number(1 << 20)?,
            "controller" => self.controller_us = share(1e6)?,
            "limit" => self.erase_limit = number(u32::MAX)?,
            "seed" => self.seed = value.parse().map_err(|_| wrong())?,
            "gc" => self.victim = parse_policy(value).ok_or_else(wrong)?,
            "frontiers" => {
                self.frontiers = match value {
                    "shared" => Frontiers::Shared,
                    "separate" => Frontiers::Separate,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(bad(format!("there is no parameter '{}'", key.escape_debug()))),
        }
        Ok(())
    }

    /// All parameters, as they are parsed.
    #[must_use]
    pub fn parameters(&self) -> String {
        let mut text = String::new();
        let frontiers = if self.frontiers == Frontiers::Shared { "shared" } else { "separate" };
        let _ = write!(
            text,
            "size={},channels={},dies={},pages={},page={},read={},program={},erase={},bus={},op={},gc={},frontiers={frontiers},cache={},controller={},limit={},seed={}",
            self.size_bytes,
            self.channels,
            self.dies,
            self.pages,
            self.page_bytes,
            self.read_us,
            self.program_us,
            self.erase_us,
            self.bus_mb_per_s,
            self.over_provisioning,
            policy_name(self.victim),
            self.cache_pages,
            self.controller_us,
            self.erase_limit,
            self.seed,
        );
        text
    }

    fn blocks_per_die(&self) -> u32 {
        let block_bytes = u64::from(self.pages) * u64::from(self.page_bytes);
        let dies = u64::from(self.channels) * u64::from(self.dies);
        (self.size_bytes / block_bytes / dies).try_into().unwrap_or(u32::MAX)
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            channels: self.channels,
            dies_per_channel: self.dies,
            planes_per_die: 1,
            blocks_per_plane: self.blocks_per_die(),
            pages_per_block: self.pages,
            page_bytes: self.page_bytes,
        }
    }

    /// A new device.
    ///
    /// # Errors
    /// [`ProbeError`] when there can be no such device.
    pub fn make(&self) -> Result<Ftl, ProbeError> {
        let timing = Timing {
            read_ns: u64::from(self.read_us) * 1000,
            program_ns: u64::from(self.program_us) * 1000,
            erase_ns: u64::from(self.erase_us) * 1000,
            bus_bytes_per_s: u64::from(self.bus_mb_per_s) * 1_000_000,
        };
        let wear = Wear { erase_limit: self.erase_limit, ..Wear::default() };
        let nand = Nand::new(NandOptions {
            geometry: self.geometry(),
            timing,
            wear,
            backing: Backing::OobOnly,
            seed: self.seed,
        })?;
        let options = FtlOptions {
            over_provisioning: self.over_provisioning,
            victim: self.victim,
            frontiers: self.frontiers,
            seed: self.seed,
            ..FtlOptions::default()
        };
        Ok(Ftl::open(nand, options)?)
    }

    /// Bytes that the host can use.
    #[must_use]
    pub fn user_bytes(&self) -> u64 {
        self.make().map_or(0, |ftl| ftl.len_bytes())
    }

    pub(crate) fn open(&self, count: u32, unit_bytes: u32) -> Result<Box<dyn Queue>, ProbeError> {
        let devices = (0..count).map(|_| self.make()).collect::<Result<Vec<_>, _>>()?;
        let controller = Controller {
            transfer_ns: (self.controller_us * 1000.0) as u64,
            cache_pages: self.cache_pages as usize,
            cache_ns: CACHE_NS,
        };
        Ok(Box::new(SimulatedQueue::new(devices, unit_bytes.into(), controller)))
    }

    pub(super) fn describe(&self) -> Target {
        Target {
            name: format!("nand:{}", self.parameters()),
            kind: TargetKind::Nand,
            size_bytes: self.user_bytes(),
            tested_bytes: 0,
            block_bytes: 512,
            model: Some("emulated NAND, simulated time".into()),
            file_system: None,
            queue: None,
            emulation: None,
        }
    }
}

fn parse_policy(name: &str) -> Option<VictimPolicy> {
    Some(match name {
        "random" => VictimPolicy::Random,
        "fifo" => VictimPolicy::Fifo,
        "greedy" => VictimPolicy::Greedy,
        "cost-benefit" => VictimPolicy::CostBenefit,
        _ => VictimPolicy::Choices(
            name.strip_suffix("-choices")?.parse().ok().filter(|count| (1..=1000).contains(count))?,
        ),
    })
}

fn policy_name(policy: VictimPolicy) -> String {
    match policy {
        VictimPolicy::Random => "random".into(),
        VictimPolicy::Fifo => "fifo".into(),
        VictimPolicy::Greedy => "greedy".into(),
        VictimPolicy::CostBenefit => "cost-benefit".into(),
        VictimPolicy::Choices(count) => format!("{count}-choices"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_written() {
        let text = "size=2G,channels=2,op=0.28,gc=5-choices,frontiers=shared,cache=0,page=8K";
        let spec = FlashSpec::parse(text).unwrap();
        assert_eq!(
            (spec.size_bytes, spec.page_bytes, spec.victim),
            (2 << 30, 8192, VictimPolicy::Choices(5))
        );
        assert_eq!(FlashSpec::parse(&spec.parameters()).unwrap(), spec);
        assert_eq!(FlashSpec::parse("").unwrap(), FlashSpec::default());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for text in [
            "size",
            "size=much",
            "sise=1G",
            "op=-1",
            "op=NaN",
            "gc=lazy",
            "gc=0-choices",
            "dies=0",
            "size=1M",
            "bus=0",
        ] {
            let error = FlashSpec::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("nand: ") && error.contains("--help"), "{text}: {error}");
        }
        assert!(FlashSpec::parse("op=0.001").unwrap().make().is_err());
        assert!(FlashSpec::parse("page=5000").unwrap().make().is_err());
    }
}
