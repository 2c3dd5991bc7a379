//! What must be equal at every moment: the books of donors and those of borrowers.

use crate::cluster::Cluster;
use crate::device::Device;
use crate::machine::Container;

impl Cluster<'_> {
    /// Compares all books.
    ///
    /// # Errors
    /// The two sides that differ, with their numbers.
    pub fn check(&self) -> Result<(), String> {
        let slabs_lent: u64 = self.machines.iter().map(|machine| machine.lending.lent()).sum();
        let slabs_had: usize = self.devices.iter().map(|one| one.held.len() + one.leaving.len()).sum();
        same("slabs that donors lend and borrowers have", slabs_lent, slabs_had as u64)?;
        let held: usize = self.devices.iter().map(|one| one.held.len()).sum();
        same("slabs in the sum and in devices", self.borrowed, held as u64)?;
        let mut stored = vec![0; self.machines.len()];
        for (nth, device) in self.devices.iter().enumerate() {
            self.check_device(nth as u32, device)?;
            device.held.iter().for_each(|held| stored[held.machine as usize] += held.bytes);
        }
        let mut own = vec![self.scenario.system_bytes; self.machines.len()];
        for container in &self.containers {
            let Container { local_bytes, over_bytes, kept_bytes, .. } = container;
            match container.machine {
                Some(machine) => own[machine as usize] += local_bytes,
                None => {
                    same("bytes of a container that does not run, and none", local_bytes + over_bytes, 0)?
                }
            }
            if kept_bytes > local_bytes {
                return Err(format!("a container keeps {kept_bytes} of {local_bytes} bytes"));
            }
        }
        for (nth, machine) in self.machines.iter().enumerate() {
            same("bytes stored at a donor and by its borrowers", machine.stored_bytes, stored[nth])?;
            same("bytes of a machine and of its containers", machine.own_bytes, own[nth])?;
            let room = machine.lending.lent() * self.scenario.slab_bytes;
            if machine.stored_bytes > room {
                return Err(format!("machine {nth} stores {} bytes in {room}", machine.stored_bytes));
            }
            if machine.reserved_bytes > machine.capacity_bytes {
                return Err(format!("machine {nth} has more reserved than it has"));
            }
        }
        Ok(())
    }

    /// What a device borrows is for its containers, on machines that run.
    fn check_device(&self, nth: u32, device: &Device) -> Result<(), String> {
        let over: u64 = self.containers_of(nth).map(|one| one.over_bytes).sum();
        let kept: u64 = self.containers_of(nth).map(|one| one.kept_bytes).sum();
        same("bytes of a device and of its containers that do not fit", device.over_bytes, over)?;
        same("bytes of a device and of its containers that keep places", device.kept_bytes, kept)?;
        for held in &device.held {
            let machine = &self.machines[held.machine as usize];
            if !machine.is_up || machine.epoch != held.epoch {
                return Err(format!("a slab of machine {} that failed is in use", held.machine));
            }
        }
        let (stored_bytes, far_bytes) = (device.stored_bytes(), device.far_bytes());
        if stored_bytes > far_bytes {
            return Err(format!("device {nth} stores {stored_bytes} of {far_bytes} bytes"));
        }
        Ok(())
    }
}

fn same(what: &str, left: u64, right: u64) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what} differ: {left} and {right}")) }
}
