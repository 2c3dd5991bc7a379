//! Fills maps and a vector with numbers that only look random, in 16 threads, and says what is in them.
//!
//! Arguments: vectors in all maps together, and numbers in the vector.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::thread;

const THREADS: usize = 16;

/// The same order in each run.
type Hasher = BuildHasherDefault<DefaultHasher>;

struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some(self.0 >> 16)
    }
}

fn checksum(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf29ce484222325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

/// Vectors under every `THREADS`th key from `first`.
fn fill(first: u64, keys: u64) -> HashMap<u64, Vec<u8>, Hasher> {
    let mut numbers = Numbers(first);
    let mut map: HashMap<u64, Vec<u8>, Hasher> = HashMap::default();
    for key in (first..keys).step_by(THREADS) {
        let len = 70_000 + numbers.next().unwrap() as usize % 300_000;
        map.insert(key, numbers.by_ref().take(len).map(|n| n as u8).collect());
    }
    for key in (first..keys).step_by(3 * THREADS) {
        map.remove(&key);
        map.entry(key + THREADS as u64).or_default().extend(std::iter::repeat_n(key as u8, 90_000));
    }
    map
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (keys, count) = (arguments.next().expect("vectors"), arguments.next().expect("numbers"));
    let filling: Vec<_> = (0..THREADS as u64).map(|n| thread::spawn(move || fill(n, keys))).collect();
    let maps: Vec<_> = filling.into_iter().map(|thread| thread.join().expect("it fills")).collect();
    let vectors = || maps.iter().flat_map(HashMap::values);
    let sum = vectors().map(|v| checksum(v.iter().copied())).fold(0, u64::wrapping_add);
    println!("{} values, {} bytes, {sum:016x}", vectors().count(), vectors().map(Vec::len).sum::<usize>());

    let mut vec: Vec<u64> = Numbers(1).take(count as usize).collect();
    let part = vec.len().div_ceil(THREADS);
    thread::scope(|scope| {
        vec.chunks_mut(part).for_each(|part| drop(scope.spawn(move || part.sort())));
    });
    vec.sort();
    println!("{} {} {}", vec[0], vec[vec.len() / 2], vec[vec.len() - 1]);
    vec.dedup_by_key(|n| *n >> 26);
    vec.shrink_to_fit();
    println!("{} {:016x}", vec.len(), checksum(vec.iter().flat_map(|n| n.to_le_bytes())));
    let small: HashMap<u64, u64, Hasher> = vec.iter().take(20_000).map(|&n| (n, n * 2)).collect();
    println!("{}", vec.iter().take(20_000).all(|n| small[n] == n * 2));
}
