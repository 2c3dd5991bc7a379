//! Fills a map and a vector with numbers that only look random, and says what is in them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

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

fn main() {
    let mut numbers = Numbers(1);
    let mut map: HashMap<u64, Vec<u8>, Hasher> = HashMap::default();
    for key in 0..200u64 {
        let len = 70_000 + numbers.next().unwrap() as usize % 300_000;
        map.insert(key, numbers.by_ref().take(len).map(|n| n as u8).collect());
    }
    for key in (0..200).step_by(3) {
        map.remove(&key);
        map.entry(key + 1).or_default().extend(std::iter::repeat_n(key as u8, 90_000));
    }
    let sum = (0..=200).filter_map(|key| map.get(&key)).map(|v| checksum(v.iter().copied())).fold(0, u64::wrapping_add);
    println!("{} values, {} bytes, {sum:016x}", map.len(), map.values().map(Vec::len).sum::<usize>());

    let mut vec: Vec<u64> = numbers.take(4_000_000).collect();
    vec.sort();
    println!("{} {} {}", vec[0], vec[vec.len() / 2], vec[vec.len() - 1]);
    vec.dedup_by_key(|n| *n >> 26);
    vec.shrink_to_fit();
    println!("{} {:016x}", vec.len(), checksum(vec.iter().flat_map(|n| n.to_le_bytes())));
    let small: HashMap<u64, u64, Hasher> = vec.iter().take(20_000).map(|&n| (n, n * 2)).collect();
    println!("{}", vec.iter().take(20_000).all(|n| small[n] == n * 2));
}
