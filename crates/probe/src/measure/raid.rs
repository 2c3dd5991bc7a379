//! Several devices side by side, with several stripe units.

use super::{DEPTH, Probe};
use crate::control::Stop;
use crate::report::{Pattern, RaidMeasurement, TargetKind};
use crate::target::SPAN_BYTES_MIN;

/// Block of sequential transfers of a stripe: large enough for all devices.
const SEQUENTIAL_BYTES: u32 = 1 << 20;

impl Probe<'_> {
    pub(super) fn raid_scaling(&mut self) -> Result<(), Stop> {
        let bytes = self.budget.raid_device_bytes;
        match (self.report.target.kind, self.ground.places()) {
            (TargetKind::Nand, _) | (_, 2..) => {}
            (TargetKind::Directory, _) if bytes < SPAN_BYTES_MIN => {
                self.report.notes.push("RAID-0 was not measured: there is no room for more files.".into());
                return Ok(());
            }
            (TargetKind::Directory, _) => {
                let text = "The devices of the RAID-0 are files on one and the same device: it shows what striping costs, not what more devices bring.";
                self.report.notes.push(text.into());
            }
            (TargetKind::File | TargetKind::BlockDevice, _) => {
                self.report.notes.push(
                    "RAID-0 was not measured: the target is one device, and --beside named no other.".into(),
                );
                return Ok(());
            }
        }
        for unit_bytes in self.plan.raid_units.clone() {
            for devices in self.plan.raid_devices.clone() {
                self.measure_raid(devices, unit_bytes, bytes)?;
            }
        }
        Ok(())
    }

    fn measure_raid(&mut self, devices: u32, stripe_bytes: u32, bytes: u64) -> Result<(), Stop> {
        let queue = match self.ground.open(devices, stripe_bytes, bytes) {
            Ok(queue) => queue,
            Err(error) => {
                self.report.notes.push(format!("RAID-0 over {devices} devices was not measured: {error}."));
                return Ok(());
            }
        };
        let single = std::mem::replace(&mut self.queue, queue);
        let outcome = self.measure_open_raid(devices, stripe_bytes);
        self.queue = single;
        outcome
    }

    fn measure_open_raid(&mut self, devices: u32, stripe_bytes: u32) -> Result<(), Stop> {
        let length = self.queue.len_bytes() / (1 << 20) * (1 << 20);
        self.write_once(length)?;
        let loads = [
            (Pattern::Sequential, 100, SEQUENTIAL_BYTES),
            (Pattern::Random, 100, self.page_bytes()),
            (Pattern::Sequential, 0, SEQUENTIAL_BYTES),
            (Pattern::Random, 0, self.page_bytes()),
        ];
        for (pattern, read_percent, block_bytes) in loads {
            let mut job = self.job(pattern, read_percent, block_bytes, DEPTH * devices);
            job.span_bytes = length;
            let measurement = self.measure(job, 1.0)?;
            self.report.raid.push(RaidMeasurement { devices, stripe_bytes, measurement });
        }
        Ok(())
    }
}
