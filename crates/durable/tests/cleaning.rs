//! Churn in a small heap: what is in it is what a model says, through cleaning and opening it again.

use std::collections::BTreeMap;
use std::path::Path;

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Error, Options, Result};

const CAPACITY_BYTES: u64 = 8 << 20;

fn open(path: &Path) -> DurableHeap {
    let options = Options {
        capacity_bytes: CAPACITY_BYTES,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        ..Options::default()
    };
    DurableHeap::open(path, &options).expect("opens")
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The objects that there should be, and what is in them.
#[derive(Default)]
struct Model {
    objects: BTreeMap<HomeAddress, Vec<u8>>,
    freed: BTreeMap<HomeAddress, usize>,
    bytes: usize,
}

impl Model {
    fn any(&self, rng: &mut Rng) -> Option<HomeAddress> {
        let count = self.objects.len() as u64;
        (count > 0).then(|| *self.objects.keys().nth(rng.below(count) as usize).expect("below the count"))
    }

    fn insert(&mut self, home: HomeAddress, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        // Its place may have been that of objects of another size, before the heap was opened.
        let end = home.plus_bytes(bytes.len().next_multiple_of(4) as u64);
        self.freed.retain(|freed, _| !(home..end).contains(freed));
        assert!(self.objects.insert(home, bytes).is_none(), "the place of another object");
    }

    fn check(&self, heap: &DurableHeap) {
        for (&home, bytes) in &self.objects {
            let mut out = vec![0; bytes.len()];
            heap.transaction(|tx| tx.load(home, &mut out)).expect("allocated");
            assert!(out == *bytes, "object of {} bytes at {home:?}", bytes.len());
        }
        for &home in self.freed.keys() {
            let outcome = heap.transaction(|tx| tx.load(home, &mut [0]));
            assert!(matches!(outcome, Err(Error::NotAllocated(_))), "{home:?} was freed: {outcome:?}");
        }
    }
}

fn step(heap: &DurableHeap, model: &mut Model, rng: &mut Rng, live_max: usize) -> Result<()> {
    match rng.below(10) {
        0..5 if model.bytes < live_max => {
            let len = match rng.below(30) {
                0..15 => 1 + rng.below(100),
                15..29 => 100 + rng.below(2000),
                _ if rng.below(10) > 0 => 4000 + rng.below(20_000),
                // In parts.
                _ => 60_000 + rng.below(200_000),
            } as usize;
            let fill = rng.below(256) as u8;
            // Some are written in part, some not at all.
            let written = if rng.below(4) == 0 { rng.below(len as u64 + 1) as usize } else { len };
            let mut bytes = vec![0; len];
            bytes[len - written..].fill(fill);
            let home = heap.transaction(|tx| {
                let home = tx.alloc(len as u64)?;
                tx.store(home.plus_bytes((len - written) as u64), &bytes[len - written..])?;
                Ok(home)
            })?;
            model.insert(home, bytes);
        }
        0..7 => {
            let Some(home) = model.any(rng) else { return Ok(()) };
            let bytes = model.objects.get_mut(&home).expect("any");
            let start = rng.below(bytes.len() as u64) as usize;
            let len = 1 + rng.below((bytes.len() - start) as u64) as usize;
            bytes[start..start + len].fill(rng.below(256) as u8);
            heap.transaction(|tx| tx.store(home.plus_bytes(start as u64), &bytes[start..start + len]))?;
        }
        _ => {
            let Some(home) = model.any(rng) else { return Ok(()) };
            heap.transaction(|tx| tx.free(home))?;
            let bytes = model.objects.remove(&home).expect("any");
            model.bytes -= bytes.len();
            model.freed.insert(home, bytes.len());
        }
    }
    Ok(())
}

#[test]
fn churn() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let (mut model, mut rng, mut cleaned) = (Model::default(), Rng(seed), 0);
        for round in 0..6 {
            let heap = open(&path);
            model.check(&heap);
            let live_max = [3 << 20, 5 << 20][round % 2];
            for _ in 0..6000 {
                step(&heap, &mut model, &mut rng, live_max).expect("there is room");
            }
            model.check(&heap);
            let usage = heap.usage();
            assert!(
                usage.file_bytes <= CAPACITY_BYTES
                    && usage.live_bytes as usize <= model.bytes * 11 / 10 + (64 << 10)
            );
            cleaned += heap.cleaned().chunks;
        }
        assert!(cleaned > 100, "{cleaned} chunks");
    }
}

/// Cleaning while others read and write.
#[test]
fn churn_with_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let heap = &heap;
                scope.spawn(move || {
                    let (mut model, mut rng) = (Model::default(), Rng(seed + 100));
                    for n in 0..8000 {
                        step(heap, &mut model, &mut rng, 1 << 20).expect("there is room");
                        // What was freed may be another thread's by now.
                        model.freed.clear();
                        if n % 500 == 0 {
                            model.check(heap);
                        }
                    }
                    model
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("join")).collect()
    });
    assert!(heap.cleaned().chunks > 20, "{:?}", heap.cleaned());
    models.iter().for_each(|model| model.check(&heap));
    drop(heap);
    let heap = open(&path);
    models.iter().for_each(|model| model.check(&heap));
}
