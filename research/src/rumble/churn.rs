//! Allocating and deleting by a workload, and the memory that it takes.

use serde::Serialize;

use super::books::{Books, Object};
use super::store::{Footprint, Store};
use super::workload::{Sizes, Workload};
use aquifer_bench::error::Result;
use aquifer_bench::rng::Rng;

/// What each phase allocates, in units of the cap.
const VOLUME: u64 = 5;
/// Looks at the memory while as many bytes as the cap are allocated or freed.
const LOOKS: u64 = 128;

/// A peak is looked into if it is larger by one part in `PEAK_STEP` than the last that was.
const PEAK_STEP: u64 = 256;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Sizes and deletions.
    pub workload: Workload,
    /// Bytes of live objects at most.
    pub cap_bytes: u64,
    /// Objects that are allocated or freed together.
    pub batch: usize,
    /// Decides sizes and victims.
    pub seed: u64,
}

impl Plan {
    /// Bytes that are allocated in all phases.
    pub fn total_bytes(&self) -> u64 {
        let phases = 1 + u64::from(self.workload.definition().after.is_some());
        phases * VOLUME * self.cap_bytes
    }

    /// Objects that there can be at a time.
    pub fn objects_max(&self) -> usize {
        (self.cap_bytes / u64::from(self.workload.size_min())) as usize
    }
}

/// The largest that was seen.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Peaks {
    /// Memory, over the whole run.
    pub resident_bytes: u64,
    /// The same without what is free and can take any object.
    pub used_bytes: u64,
    /// Memory over live bytes while these were at least nine tenths of the cap.
    pub ratio_near_cap: f64,
    /// Memory for finding objects.
    pub map_bytes: u64,
    /// Memory at the end.
    pub end_bytes: u64,
    /// Bytes of all objects that were ever allocated.
    pub allocated_bytes: u64,
    /// Looks at the memory.
    pub looks: u64,
}

/// A run under way.
pub struct Churn<'a> {
    plan: Plan,
    store: &'a mut dyn Store,
    observe: &'a mut dyn FnMut(u64),
    books: Books,
    rng: Rng,
    live_bytes: u64,
    /// Allocated and freed since the last look.
    unseen_bytes: u64,
    /// The peak that was looked into last.
    explained_bytes: u64,
    peaks: Peaks,
    // Buffers of a batch, which are made once.
    sizes: Vec<u32>,
    objects: Vec<Object>,
}

impl<'a> Churn<'a> {
    /// A run that has not begun. `observe` is told the bytes allocated so far at every look.
    pub fn new(plan: Plan, books: Books, store: &'a mut dyn Store, observe: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            plan,
            store,
            observe,
            books,
            rng: Rng::new(plan.seed),
            live_bytes: 0,
            unseen_bytes: 0,
            explained_bytes: 0,
            peaks: Peaks::default(),
            sizes: Vec::with_capacity(plan.batch),
            objects: Vec::with_capacity(plan.batch),
        }
    }

    /// All phases.
    ///
    /// # Errors
    /// The store's.
    pub fn run(mut self) -> Result<Peaks> {
        let definition = self.plan.workload.definition();
        self.phase(definition.before)?;
        let rest = self.books.len() as u64 * (100 - definition.deleted_percent) / 100;
        while self.books.len() as u64 > rest {
            let count = self.plan.batch.min(self.books.len() - rest as usize);
            self.delete(count)?;
        }
        if let Some(after) = definition.after {
            self.phase(after)?;
        }
        self.look()?;
        self.peaks.end_bytes = self.store.footprint()?.resident_bytes;
        // The first time at the peak says little about the long run.
        if self.peaks.end_bytes >= self.explained_bytes {
            self.store.look_into(self.live_bytes)?;
        }
        Ok(self.peaks)
    }

    fn phase(&mut self, sizes: Sizes) -> Result<()> {
        let until = self.peaks.allocated_bytes + VOLUME * self.plan.cap_bytes;
        while self.peaks.allocated_bytes < until {
            self.sizes.clear();
            self.sizes.extend((0..self.plan.batch).map(|_| sizes.pick(&mut self.rng)));
            let needed: u64 = self.sizes.iter().copied().map(u64::from).sum();
            self.make_room(needed)?;
            self.allocate(needed)?;
        }
        Ok(())
    }

    /// Deletes random objects until there is room for `needed` bytes.
    fn make_room(&mut self, needed: u64) -> Result<()> {
        while self.live_bytes + needed > self.plan.cap_bytes {
            self.objects.clear();
            while self.live_bytes + needed > self.plan.cap_bytes && self.objects.len() < self.plan.batch {
                self.pick_one();
            }
            self.free_picked()?;
        }
        Ok(())
    }

    fn delete(&mut self, count: usize) -> Result<()> {
        self.objects.clear();
        (0..count).for_each(|_| self.pick_one());
        self.free_picked()
    }

    fn pick_one(&mut self) {
        let at = self.rng.below(self.books.len() as u64) as usize;
        let object = self.books.remove(at);
        self.live_bytes -= u64::from(object.bytes);
        self.unseen_bytes += u64::from(object.bytes);
        self.objects.push(object);
    }

    fn free_picked(&mut self) -> Result<()> {
        self.store.free(&self.objects)?;
        self.look_at_times()
    }

    fn allocate(&mut self, needed: u64) -> Result<()> {
        self.objects.clear();
        self.store.allocate(&self.sizes, &mut self.objects)?;
        self.objects.iter().for_each(|&object| self.books.insert(object));
        self.live_bytes += needed;
        self.unseen_bytes += needed;
        self.peaks.allocated_bytes += needed;
        self.look_at_times()
    }

    fn look_at_times(&mut self) -> Result<()> {
        if self.unseen_bytes * LOOKS < self.plan.cap_bytes {
            return Ok(());
        }
        self.unseen_bytes = 0;
        (self.observe)(self.peaks.allocated_bytes);
        self.look()
    }

    fn look(&mut self) -> Result<()> {
        let Footprint { resident_bytes, reserve_bytes, map_bytes } = self.store.footprint()?;
        let peaks = &mut self.peaks;
        let is_near_cap = self.live_bytes * 10 >= self.plan.cap_bytes * 9;
        if is_near_cap {
            let ratio = resident_bytes as f64 / self.live_bytes as f64;
            peaks.ratio_near_cap = peaks.ratio_near_cap.max(ratio);
        }
        peaks.used_bytes = peaks.used_bytes.max(resident_bytes - reserve_bytes);
        peaks.map_bytes = peaks.map_bytes.max(map_bytes);
        peaks.looks += 1;
        peaks.resident_bytes = peaks.resident_bytes.max(resident_bytes);
        if resident_bytes > self.explained_bytes + self.explained_bytes / PEAK_STEP {
            self.explained_bytes = resident_bytes;
            self.store.look_into(self.live_bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory is what was ever live at the same time; an object's address is its number.
    #[derive(Default)]
    struct Model {
        live_bytes: u64,
        live_bytes_max: u64,
        made: u64,
        objects: Vec<(u64, u32)>,
    }

    impl Store for Model {
        fn allocate(&mut self, sizes: &[u32], made: &mut Vec<Object>) -> Result<()> {
            for &bytes in sizes {
                made.push(Object { home: self.made, bytes });
                self.objects.push((self.made, bytes));
                self.made += 1;
                self.live_bytes += u64::from(bytes);
            }
            self.live_bytes_max = self.live_bytes_max.max(self.live_bytes);
            Ok(())
        }

        fn free(&mut self, objects: &[Object]) -> Result<()> {
            for object in objects {
                let at = self
                    .objects
                    .iter()
                    .position(|&(home, bytes)| (home, bytes) == (object.home, object.bytes));
                self.objects.swap_remove(at.expect("a live object"));
                self.live_bytes -= u64::from(object.bytes);
            }
            Ok(())
        }

        fn footprint(&mut self) -> Result<Footprint> {
            let resident_bytes = self.live_bytes_max;
            Ok(Footprint { resident_bytes, reserve_bytes: resident_bytes / 2, map_bytes: self.live_bytes })
        }
    }

    fn churned(workload: Workload) -> (Model, Peaks) {
        let plan = Plan { workload, cap_bytes: 60_000, batch: 4, seed: 1 };
        let (mut model, mut seen) = (Model::default(), 0);
        let books = Books::new(plan.objects_max()).expect("memory");
        let peaks = Churn::new(plan, books, &mut model, &mut |bytes| seen = bytes).run().expect("a model");
        assert!(peaks.allocated_bytes >= plan.total_bytes() && seen * 10 > plan.total_bytes() * 9);
        (model, peaks)
    }

    #[test]
    fn live_objects_reach_the_cap_and_stay_below() {
        for workload in [Workload::W1, Workload::W5, Workload::W7] {
            let (model, peaks) = churned(workload);
            assert!((58_000..=60_000).contains(&model.live_bytes_max), "{}", model.live_bytes_max);
            assert_eq!(peaks.used_bytes, peaks.resident_bytes.div_ceil(2));
            assert!(peaks.ratio_near_cap >= 1.0 && peaks.ratio_near_cap < 1.2, "{peaks:?}");
        }
    }

    #[test]
    fn the_second_phase_has_the_new_sizes() {
        let (model, _) = churned(Workload::W7);
        assert!(model.objects.iter().all(|&(_, bytes)| (1000..=2500).contains(&bytes)));
        assert!(model.objects.iter().any(|&(_, bytes)| bytes > 2000));
    }
}
