//! What it takes to use objects through typed guards, beside a plain vector.
//!
//! ```sh
//! cargo run --release -p aquifer --example handles
//! ```
//! `tests/cpp/handles.cpp` is the same in C++.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use aquifer::typed::{Array, Ref};
use aquifer::{Options, SharedHeap};

const OBJECTS: usize = 100_000;
const ROUNDS: usize = 20;

type Object = [u64; 8];

/// Nanoseconds for each object, the median of five.
fn measure(mut one: impl FnMut(usize) -> Result<u64, aquifer::Error>) -> Result<f64, aquifer::Error> {
    let mut runs = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for n in 0..OBJECTS {
                black_box(one(n)?);
            }
        }
        runs.push(start.elapsed().as_nanos() as f64 / (ROUNDS * OBJECTS) as f64);
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs[2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::from_env()?.ram_bytes(256 << 20).flash_bytes(1 << 30).object_bytes(64);
    let heap = SharedHeap::open(options)?;
    let plain: Vec<Box<Object>> = (0..OBJECTS as u64).map(|n| Box::new([n; 8])).collect();
    let mut array: Array<Object> = Array::new(&heap, OBJECTS)?;
    let values: Vec<Object> = (0..OBJECTS as u64).map(|n| [n; 8]).collect();
    array.write_many(&(0..OBJECTS).collect::<Vec<_>>(), &values)?;
    let mut objects: Vec<Ref<Object>> =
        values.iter().map(|&value| Ref::new(&heap, value)).collect::<Result<_, _>>()?;

    println!("{OBJECTS} objects of 64 bytes in turn, all in RAM, nanoseconds each:");
    println!("  Vec<Box<_>>   {:6.1}", measure(|n| Ok(black_box(&plain)[n][3]))?);
    println!("  Array::read   {:6.1}", measure(|n| Ok(array.read(n)?[3]))?);
    println!(
        "  Array::write  {:6.1}",
        measure(|n| Ok({
            array.write(n)?[3] += 1;
            0
        }))?
    );
    println!("  Ref::read     {:6.1}", measure(|n| Ok(objects[n].read()?[3]))?);
    println!(
        "  Ref::write    {:6.1}",
        measure(|n| Ok({
            objects[n].write()?[3] += 1;
            0
        }))?
    );
    Ok(())
}
