//! What should be in a heap: objects, before and after the transaction under way.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use aquifer_base::HomeAddress;
use aquifer_durable::{Load, Transactional};

/// Looks that are taken at an object that should be gone.
const LOOKS: usize = 16;
/// No object is larger.
const OBJECT_BYTES_MAX: u64 = 140_000;

/// A heap that can be asked what is allocated.
pub trait Subject: Transactional {
    /// Whether nothing is allocated where an object of `bytes` was, but for what `is_taken` by other objects. Nothing of the heap changes
    /// if so.
    fn is_gone(&self, home: HomeAddress, bytes: usize, is_taken: &dyn Fn(HomeAddress) -> bool) -> bool;
}

/// Objects and what is in them.
pub type Objects = BTreeMap<HomeAddress, Vec<u8>>;

/// All bytes that objects were ever given: at each home address where, and which.
#[derive(Default)]
pub struct History(BTreeMap<u64, Vec<(Range<u64>, u8)>>);

impl History {
    /// Bytes of the object at `home` are `fill` if a transaction commits.
    pub fn add(&mut self, home: HomeAddress, range: Range<usize>, fill: u8) {
        let fills = self.0.entry(home.0).or_default();
        let range = home.0 + range.start as u64..home.0 + range.end as u64;
        // The transaction may have been run again.
        if fills.last() != Some(&(range.clone(), fill)) {
            fills.push((range, fill));
        }
    }

    /// Adds what another one has.
    pub fn join(&mut self, other: &Self) {
        for (&home, fills) in &other.0 {
            self.0.entry(home).or_default().extend(fills.iter().cloned());
        }
    }

    /// Whether each byte of an object was that at some time, if it is one of those that there is a history of.
    ///
    /// # Errors
    /// The first byte that never was.
    pub fn check(&self, home: HomeAddress, bytes: &[u8]) -> Result<(), String> {
        let end = home.0 + bytes.len() as u64;
        // Of objects of another size too, if the area was another one's before a crash.
        let objects = self.0.range(home.0.saturating_sub(OBJECT_BYTES_MAX)..end);
        let fills: Vec<_> =
            objects.flat_map(|(_, fills)| fills).filter(|(range, _)| range.end > home.0).collect();
        if fills.is_empty() {
            return Ok(());
        }
        let was = |at: u64, byte| fills.iter().any(|(range, fill)| *fill == byte && range.contains(&at));
        match (home.0..).zip(bytes).find(|&(at, &byte)| !was(at, byte)) {
            Some((at, byte)) => {
                Err(format!("byte {} of {home:?} of {} was never {byte}", at - home.0, bytes.len()))
            }
            None => Ok(()),
        }
    }
}

/// What a program knows of its objects.
#[derive(Default)]
pub struct Model {
    pub history: History,
    pub objects: Objects,
    /// The largest object that was ever at a home address, or was to be.
    pub ever: BTreeMap<HomeAddress, usize>,
    /// Other objects that may be there, and how large they are.
    others: Vec<(HomeAddress, usize)>,
    /// What the transaction under way has changed, and what was there.
    undo: Undo,
    /// The same of those that may still be lost, the newest last.
    past: VecDeque<Undo>,
}

type Undo = Vec<(HomeAddress, Option<Vec<u8>>)>;

impl Model {
    /// Another object may be there, all zeros.
    pub fn add_other(&mut self, home: HomeAddress, bytes: usize) {
        self.others.push((home, bytes));
        // The history has no objects as large as this may be.
        let most = OBJECT_BYTES_MAX as usize;
        for at in (0..bytes).step_by(most) {
            self.history.add(home.plus_bytes(at as u64), 0..most.min(bytes - at), 0);
        }
    }

    /// An object is there, or is not, if the transaction under way commits.
    pub fn put(&mut self, home: HomeAddress, bytes: Option<Vec<u8>>) {
        if let Some(bytes) = &bytes {
            let most = self.ever.entry(home).or_default();
            *most = bytes.len().max(*most);
        }
        let before = match bytes {
            Some(bytes) => self.objects.insert(home, bytes),
            None => self.objects.remove(&home),
        };
        self.undo.push((home, before));
    }

    /// The transaction has committed, and may still be lost.
    pub fn commit(&mut self) {
        self.past.push_back(std::mem::take(&mut self.undo));
    }

    /// All transactions but the newest `count` are durable.
    pub fn keep(&mut self, count: u64) {
        let durable = self.past.len().saturating_sub(count as usize);
        self.past.drain(..durable);
    }

    /// The newest transaction that has committed is lost.
    pub fn lose(&mut self) {
        assert!(self.undo.is_empty(), "a transaction is under way");
        self.undo = self.past.pop_back().expect("it was not durable");
        self.roll_back();
    }

    /// The transaction has not happened.
    pub fn roll_back(&mut self) {
        while let Some((home, before)) = self.undo.pop() {
            match before {
                Some(bytes) => self.objects.insert(home, bytes),
                None => self.objects.remove(&home),
            };
        }
    }

    /// Whether a heap has these objects, and nothing at their other places.
    pub fn check(&self, heap: &impl Subject) -> Result<(), String> {
        check_objects(heap, &self.objects)?;
        check_gone(heap, &self.ever, &|home| self.has(home))
    }

    /// Whether a byte may be one of an object.
    pub fn has(&self, home: HomeAddress) -> bool {
        let object = self.objects.range(..=home).next_back().map(|(&start, bytes)| (start, bytes.len()));
        object.iter().chain(&self.others).any(|&(start, bytes)| is_in(home, start, bytes))
    }
}

/// Whether a byte is one of an object, which has whole grains.
pub fn is_in(home: HomeAddress, start: HomeAddress, bytes: usize) -> bool {
    (start..start.plus_bytes(bytes.next_multiple_of(4) as u64)).contains(&home)
}

/// Whether a heap has these objects.
pub fn check_objects(heap: &impl Subject, objects: &Objects) -> Result<(), String> {
    for (&home, bytes) in objects {
        let mut out = vec![0; bytes.len()];
        let loaded = heap.transaction(|tx| tx.load(home, &mut out));
        loaded.map_err(|error| format!("{home:?} of {} bytes: {error}", bytes.len()))?;
        if out != *bytes {
            let at = (0..bytes.len()).find(|&at| out[at] != bytes[at]).expect("one is different");
            let (found, expected) = (out[at], bytes[at]);
            return Err(format!("byte {at} of {home:?} of {} is {found} and not {expected}", bytes.len()));
        }
        if heap.is_gone(home, bytes.len(), &|_| false) {
            return Err(format!("{home:?} of {} bytes is not allocated", bytes.len()));
        }
    }
    Ok(())
}

/// Whether a heap has nothing at the places that are not taken. An object may be in the midst of those of another size that were in its
/// area before the heap was opened.
pub fn check_gone(
    heap: &impl Subject,
    ever: &BTreeMap<HomeAddress, usize>,
    is_taken: &dyn Fn(HomeAddress) -> bool,
) -> Result<(), String> {
    match ever.iter().find(|&(&home, &bytes)| !is_taken(home) && !heap.is_gone(home, bytes, is_taken)) {
        Some((home, bytes)) => Err(format!("{home:?} of {bytes} bytes is there")),
        None => Ok(()),
    }
}

/// Some places of an object, in whole grains, the first and the last among them.
pub fn looks(bytes: usize) -> impl Iterator<Item = u64> {
    let grains = bytes.div_ceil(4).max(1);
    let step = grains.div_ceil(LOOKS);
    (0..grains).step_by(step).chain([grains - 1]).map(|grain| grain as u64 * 4)
}
