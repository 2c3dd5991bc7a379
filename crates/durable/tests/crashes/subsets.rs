//! A short program, with a crash in every operation of it and every subset of the words of the persist under way.

use std::sync::Arc;

use aquifer_base::HomeAddress;
use aquifer_durable::{DurableHeap, Result, Transaction};

use crate::durable::{How, clean, machine, open, reopen};
use crate::hits::{Hits, Kind};
use crate::landing::Landing;
use crate::machine::{Crash, Machine, is_crash};
use crate::memory::Medium;
use crate::model::Model;

/// Larger persists get some subsets that are chosen at random.
const WORDS_MAX: u64 = 8;
/// The same if it may take long.
const WORDS_MAX_LONG: u64 = 12;
const OTHERS: u64 = 100;

/// Two of them fill a chunk.
const FILLER_BYTES: usize = 36_000;

#[derive(Default)]
struct Script {
    model: Model,
    is_committing: bool,
}

impl Script {
    fn alloc(&mut self, tx: &mut Transaction<'_>, bytes: &[u8]) -> Result<HomeAddress> {
        let home = tx.alloc(bytes.len() as u64)?;
        if bytes.iter().any(|&byte| byte != 0) {
            tx.store(home, bytes)?;
        }
        self.model.put(home, Some(bytes.to_vec()));
        Ok(home)
    }

    fn store(&mut self, tx: &mut Transaction<'_>, home: HomeAddress, fill: u8) -> Result<()> {
        let bytes = vec![fill; self.model.objects[&home].len()];
        tx.store(home, &bytes)?;
        self.model.put(home, Some(bytes));
        Ok(())
    }

    fn free(&mut self, tx: &mut Transaction<'_>, home: HomeAddress) -> Result<()> {
        tx.free(home)?;
        self.model.put(home, None);
        Ok(())
    }

    fn transaction<T>(
        &mut self,
        heap: &DurableHeap,
        body: impl FnOnce(&mut Self, &mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = heap.begin();
        let value = body(self, &mut transaction)?;
        self.is_committing = true;
        transaction.commit()?;
        self.is_committing = false;
        self.model.commit();
        Ok(value)
    }

    /// A few transactions, of which the cleaner then finds bytes, zeros and a free that it must copy.
    fn run(&mut self, heap: &DurableHeap) -> Result<()> {
        let (a, b) = self
            .transaction(heap, |script, tx| Ok((script.alloc(tx, &[1; 8])?, script.alloc(tx, &[2; 8])?)))?;
        self.transaction(heap, |script, tx| script.store(tx, a, 3))?;
        let c = self.transaction(heap, |script, tx| script.alloc(tx, &[0; 24]))?;
        let filler = self.transaction(heap, |script, tx| script.alloc(tx, &[9; FILLER_BYTES]))?;
        self.transaction(heap, |script, tx| script.free(tx, b))?;
        self.transaction(heap, |script, tx| script.store(tx, filler, 8))?;
        self.transaction(heap, |script, tx| script.free(tx, filler))?;
        self.transaction(heap, |script, tx| script.alloc(tx, &[7; FILLER_BYTES]))?;
        self.transaction(heap, |script, tx| script.store(tx, a, 4))?;
        clean(heap)?;
        self.transaction(heap, |script, tx| {
            script.free(tx, c)?;
            script.alloc(tx, &[5; 8])
        })?;
        self.transaction(heap, |script, tx| script.store(tx, a, 6))
    }
}

/// Runs the program into a crash and looks at what is left. False if it ended before.
fn crash(machine: &Arc<Machine>, at: u64, landing: Landing) -> bool {
    machine.start(Some(Crash { at, of: None, under_way: 1, landing, is_kill: false }));
    let mut script = Script::default();
    match open(machine, How::default()).and_then(|heap| script.run(&heap)) {
        Ok(()) => return false,
        Err(error) => assert!(is_crash(&error), "{at}, {landing:?}: {error}"),
    }
    let heap = reopen(machine, How::default()).unwrap_or_else(|error| panic!("{at}, {landing:?}: {error}"));
    if !script.is_committing || script.model.check(&heap).is_err() {
        script.model.roll_back();
        script.model.check(&heap).unwrap_or_else(|error| panic!("{at}, {landing:?}: {error}"));
    }
    true
}

#[test]
fn every_subset_of_the_words_of_every_persist() {
    let words_max = if crate::are_many() { WORDS_MAX_LONG } else { WORDS_MAX };
    let (mut hits, mut all, mut cases, mut at) = (Hits::default(), 0, 0, 1);
    loop {
        let first = machine(Medium::Memory, false);
        if !crash(&first, at, Landing::Mask(0)) {
            break;
        }
        hits += first.hits();
        let words = first.torn_words();
        let is_all = words <= words_max;
        all += u64::from(is_all && words > 0);
        let landings: Vec<_> = if is_all {
            (1..1 << words).map(Landing::Mask).collect()
        } else {
            (0..OTHERS).map(Landing::Seed).collect()
        };
        cases += landings.len() + 1;
        // Here, not in a closure: a session is chosen by where the stack is, and another one may need more or fewer operations.
        for landing in landings {
            assert!(
                crash(&machine(Medium::Memory, false), at, landing),
                "{at}, {landing:?}: it ended before"
            );
        }
        at += 1;
    }
    println!("{cases} crashes in {} operations, {all} persists with every subset, {hits:?}", at - 1);
    assert!(all > 20, "{all} persists of at most {words_max} words");
    hits.expect(&[Kind::Superblock, Kind::Header, Kind::Commit, Kind::Copy, Kind::Removal, Kind::Grow]);
}
