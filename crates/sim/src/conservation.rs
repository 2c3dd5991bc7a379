//! What must be equal at every moment: the books of donors and those of borrowers.

use crate::cluster::Cluster;

impl Cluster<'_> {
    /// Compares all books.
    ///
    /// # Errors
    /// The two sides that differ, with their numbers.
    pub fn check(&self) -> Result<(), String> {
        let slabs_lent: u64 = self.machines.iter().map(|machine| machine.lending.lent()).sum();
        let slabs_had: usize = self.containers.iter().map(|one| one.held.len() + one.leaving.len()).sum();
        same("slabs that donors lend and borrowers have", slabs_lent, slabs_had as u64)?;
        let held: usize = self.containers.iter().map(|one| one.held.len()).sum();
        same("slabs in the sum and in containers", self.borrowed, held as u64)?;
        let mut stored = vec![0; self.machines.len()];
        let mut own = vec![self.scenario.system_bytes; self.machines.len()];
        for container in &self.containers {
            for held in &container.held {
                let machine = &self.machines[held.machine as usize];
                if !machine.is_up || machine.epoch != held.epoch {
                    return Err(format!("a slab of machine {} that failed is in use", held.machine));
                }
                stored[held.machine as usize] += held.bytes;
            }
            let (stored_bytes, far_bytes) = (container.stored_bytes(), container.far_bytes());
            if stored_bytes > far_bytes || container.kept_bytes > container.local_bytes {
                let kept_bytes = container.kept_bytes;
                return Err(format!(
                    "a container stores {stored_bytes} of {far_bytes} bytes, keeps {kept_bytes}"
                ));
            }
            match container.machine {
                Some(machine) => own[machine as usize] += container.local_bytes,
                None if container.held.is_empty() => {}
                None => return Err("a container that does not run has slabs".to_string()),
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
}

fn same(what: &str, left: u64, right: u64) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what} differ: {left} and {right}")) }
}
