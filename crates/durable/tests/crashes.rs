//! Crashes at every store that is made durable: what is recovered is what was acknowledged, and of the transaction under way
//! all or nothing.
//!
//! What was persisted before the crash is there. Of the bytes that were being persisted, any of the aligned words of eight bytes may
//! have landed.
//!
//! `AQUIFER_CRASHES` is the number of long programs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aquifer_base::HomeAddress;
use aquifer_durable::persist::{Counts, Persist};
use aquifer_durable::{DurableHeap, Error, Options, Result};

const CHUNK_BYTES: u32 = 64 << 10;
const CAPACITY_BYTES: u64 = 20 * CHUNK_BYTES as u64 + 4096;

/// What survives, and when the crash comes.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    /// Persists until then.
    left: Option<u64>,
    /// Which words of the last one land.
    seed: u64,
    persists: u64,
}

#[derive(Clone, Default)]
struct Crashing(Arc<Mutex<Memory>>);

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed >> 32
}

fn crashed() -> Error {
    Error::Io { what: "persisting".into(), source: std::io::Error::other("the machine has crashed") }
}

impl Memory {
    fn is_crashed(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether a word lands: all, none, a prefix, all but a prefix, or a random half of them.
    fn lands(&self, word: u64, words: u64) -> bool {
        let cut = mix(self.seed + 1) % (words + 1);
        match self.seed % 5 {
            0 => true,
            1 => false,
            2 => word < cut,
            3 => word >= cut,
            _ => mix(self.seed ^ word << 20) & 1 == 1,
        }
    }
}

struct Handle(Crashing, Counts);

impl Persist for Handle {
    fn len_bytes(&self) -> u64 {
        self.0.0.lock().expect("lock").bytes.len() as u64
    }

    fn grow(&self, len_bytes: u64) -> Result<()> {
        let mut memory = self.0.0.lock().expect("lock");
        if memory.is_crashed() {
            return Err(crashed());
        }
        let len = memory.bytes.len().max(len_bytes as usize);
        memory.bytes.resize(len, 0);
        Ok(())
    }

    fn persist(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut memory = self.0.0.lock().expect("lock");
        if memory.is_crashed() {
            return Err(crashed());
        }
        memory.persists += 1;
        memory.left = memory.left.map(|left| left - 1);
        let is_last = memory.is_crashed();
        let first = offset / 8;
        let words = (offset + bytes.len() as u64).div_ceil(8) - first;
        for (n, &byte) in bytes.iter().enumerate() {
            let at = offset + n as u64;
            if !is_last || memory.lands(at / 8 - first, words) {
                memory.bytes[at as usize] = byte;
            }
        }
        if is_last { Err(crashed()) } else { Ok(()) }
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        let memory = self.0.0.lock().expect("lock");
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = memory.bytes.get(offset as usize + n).copied().unwrap_or(0);
        }
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let mut memory = self.0.0.lock().expect("lock");
        if memory.is_crashed() {
            return Err(crashed());
        }
        memory.bytes[offset as usize..(offset + len_bytes) as usize].fill(0);
        Ok(())
    }

    fn refill(&self, _offset: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn counts(&self) -> &Counts {
        &self.1
    }
}

fn open(memory: &Crashing) -> Result<DurableHeap> {
    let options = Options {
        cleans_ahead: false,
        capacity_bytes: CAPACITY_BYTES,
        chunk_bytes: CHUNK_BYTES,
        ..Options::default()
    };
    DurableHeap::on(Box::new(Handle(memory.clone(), Counts::default())), &options, "memory")
}

type Objects = BTreeMap<HomeAddress, Vec<u8>>;

/// What the program knows when the crash comes: what was acknowledged, and what that and the transaction under way would be.
struct Program {
    rng: u64,
    objects: Objects,
    pending: Option<Objects>,
}

impl Program {
    fn below(&mut self, end: u64) -> u64 {
        self.rng += 1;
        mix(self.rng) % end
    }

    /// One transaction of up to four changes.
    fn step(&mut self, heap: &DurableHeap) -> Result<()> {
        let mut objects = self.objects.clone();
        let mut transaction = heap.begin();
        for _ in 0..1 + self.below(4) {
            let any = self.below(objects.len().max(1) as u64) as usize;
            let any = objects.keys().nth(any).copied();
            match (self.below(10), any) {
                (0..4, _) | (_, None) if objects.len() < 60 => {
                    // A few are larger than a chunk.
                    let largest = objects.values().map(Vec::len).max().unwrap_or(0);
                    let len = match self.below(40) {
                        0 if largest < CHUNK_BYTES as usize => u64::from(CHUNK_BYTES) + self.below(90_000),
                        1..4 => 1 + self.below(9000),
                        _ => 1 + self.below(300),
                    } as usize;
                    let home = transaction.alloc(len as u64)?;
                    let bytes = vec![self.below(255) as u8 + 1; len];
                    transaction.store(home, &bytes)?;
                    objects.insert(home, bytes);
                }
                (0..6, Some(home)) => {
                    transaction.free(home)?;
                    objects.remove(&home);
                }
                (_, Some(home)) => {
                    let bytes = objects.get_mut(&home).expect("any");
                    let start = self.below(bytes.len() as u64) as usize;
                    let fill = self.below(255) as u8 + 1;
                    bytes[start..].fill(fill);
                    transaction.store(home.plus_bytes(start as u64), &bytes[start..])?;
                }
                (_, None) => {}
            }
        }
        self.pending = Some(objects);
        transaction.commit()?;
        self.objects = self.pending.take().expect("set above");
        Ok(())
    }
}

fn recovered(heap: &DurableHeap, objects: &Objects, others: &Objects) -> std::result::Result<(), String> {
    for (&home, bytes) in objects {
        let mut out = vec![0; bytes.len()];
        heap.transaction(|tx| tx.load(home, &mut out)).map_err(|error| format!("{home:?}: {error}"))?;
        if out != *bytes {
            return Err(format!(
                "{home:?} of {} bytes is {:?} instead of {:?}",
                bytes.len(),
                &out[..1],
                &bytes[..1]
            ));
        }
    }
    for &home in others.keys().filter(|home| !objects.contains_key(home)) {
        if heap.transaction(|tx| tx.load(home, &mut [0])).is_ok() {
            return Err(format!("{home:?} is there"));
        }
    }
    Ok(())
}

/// Runs a program until it crashes after `persists`, recovers, and goes on; returns whether it crashed.
fn crash(seed: u64, steps: u64, persists: &[u64]) -> bool {
    let memory = Crashing::default();
    let mut program = Program { rng: mix(seed), objects: Objects::new(), pending: None };
    // Every home address that ever had an object must be right, too.
    let mut ever = Objects::new();
    let mut has_crashed = false;
    for (round, &left) in persists.iter().enumerate() {
        {
            let mut memory = memory.0.lock().expect("lock");
            (memory.left, memory.seed) = (Some(left), mix(seed ^ left << 8 ^ round as u64));
        }
        let ended = open(&memory).and_then(|heap| {
            for _ in 0..steps {
                let stepped = program.step(&heap);
                ever.extend(program.objects.clone());
                stepped?;
            }
            Ok(())
        });
        if let Err(error) = &ended {
            assert!(error.to_string().contains("crashed"), "seed {seed}, crash {persists:?}: {error}");
            has_crashed = true;
        }
        memory.0.lock().expect("lock").left = None;
        let heap = open(&memory).unwrap_or_else(|error| panic!("seed {seed}, crash {persists:?}: {error}"));
        if let Some(pending) = program.pending.take() {
            ever.extend(pending.clone());
            if recovered(&heap, &pending, &ever).is_ok() {
                program.objects = pending;
            }
        }
        recovered(&heap, &program.objects, &ever)
            .unwrap_or_else(|error| panic!("seed {seed}, crash {persists:?}: {error}"));
    }
    has_crashed
}

#[test]
fn at_every_persist_of_short_programs() {
    for seed in 0..6 {
        let mut at = 1;
        // Five ways for the last one to land, by the seed of each crash.
        while (0..5).filter(|way| crash(seed * 5 + way, 25, &[at])).count() > 0 {
            at += 1;
        }
        assert!(at > 20, "{at} persists");
    }
}

#[test]
fn in_cleaning_and_in_recovery() {
    let programs = std::env::var("AQUIFER_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut crashes = 0;
    for seed in 0..programs {
        // Long enough that chunks are cleaned, several crashes in a row, some of them early in what recovery does.
        let places: Vec<u64> = (0..6)
            .map(|n| if n % 2 == 1 { 1 + mix(seed + n) % 4 } else { 1 + mix(seed ^ n << 9) % 1500 })
            .collect();
        crashes += u32::from(crash(1000 + seed, 1200, &places));
    }
    assert!(u64::from(crashes) * 4 > programs * 3, "{crashes} of {programs} crashed");
}
