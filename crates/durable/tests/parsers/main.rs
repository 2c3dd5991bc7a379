//! Files against random and damaged input.

mod checkpoint;
mod heap;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use aquifer_durable::DurableHeap;

/// The beginning of the file of a small heap, in which objects of these sizes were allocated, and every third one freed.
fn sample(sizes: &[u64], bytes: usize) -> Vec<u8> {
    let memory = heap::Memory::default();
    let heap = DurableHeap::on(Box::new(memory.clone()), &heap::options(), "sample").expect("opens");
    for (n, &size) in sizes.iter().enumerate() {
        let home = heap.transaction(|tx| {
            let home = tx.alloc(size)?;
            tx.store(home, &vec![n as u8; size as usize / 2])?;
            tx.set_root(home)?;
            Ok(home)
        });
        let home = home.expect("room");
        if n % 3 == 2 {
            heap.transaction(|tx| tx.free(home)).expect("it is an object");
        }
    }
    heap::input_of(&memory, bytes)
}

#[test]
fn heaps() {
    let samples = [
        sample(&[], 400),
        sample(&[8, 8, 8], 800),
        sample(&[1, 100, 1000, 5000, 20, 20], 12_000),
        sample(&[4; 60], 6000),
    ];
    mutations::drive(&samples, 3000, heap::property);
}

#[test]
fn checkpoints() {
    let records = checkpoint::records();
    let samples = [records[..12].to_vec(), records[..records.len() / 8 * 4].to_vec(), records];
    mutations::drive(&samples, 1000, checkpoint::property);
}
