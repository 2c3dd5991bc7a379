//! Objects as values of Rust types.

mod common;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use allocator_api2::vec::Vec as VecIn;
use aquifer::typed::{Array, Ref};
use aquifer::{Blocks, Options, SharedHeap};
use common::{Rng, Watchdog};
use proptest::prelude::*;

fn heap() -> SharedHeap {
    SharedHeap::open(Options::new().ram_bytes(8 << 20).flash_bytes(128 << 20)).unwrap()
}

#[test]
fn arrays_agree_with_a_vector() {
    let heap = heap();
    let mut array: Array<[u64; 16]> = Array::new(&heap, 150_000).unwrap();
    let mut model = vec![[0u64; 16]; array.len()];
    let mut rng = Rng::new(5);
    for round in 0..3000 {
        let n = rng.below(array.len());
        let value = std::array::from_fn(|_| rng.word());
        match round % 5 {
            0 => assert_eq!(*array.read(n).unwrap(), model[n]),
            1 => {
                let mut object = array.write(n).unwrap();
                assert_eq!(*object, model[n]);
                (*object, model[n]) = (value, value);
            }
            2 => {
                let picks: Vec<usize> = (0..200).map(|_| rng.below(array.len())).collect();
                let values: Vec<_> = picks.iter().map(|_| std::array::from_fn(|_| rng.word())).collect();
                array.write_many(&picks, &values).unwrap();
                picks.iter().zip(&values).for_each(|(&pick, value)| model[pick] = *value);
            }
            3 => array.prefetch(&[n, n / 2]).unwrap(),
            _ => {
                let picks: Vec<usize> = (0..200).map(|_| rng.below(array.len())).collect();
                let later = array.read_later(picks.clone()).unwrap();
                let now = array.read_many(&picks).unwrap();
                assert!(picks.iter().zip(&now).all(|(&pick, value)| model[pick] == *value));
                assert!(now == later.wait().unwrap());
            }
        }
    }
    let all: Vec<usize> = (0..array.len()).collect();
    assert!(array.read_many(&all).unwrap() == model);
    assert!(heap.stats().ram_used_bytes <= 8 << 20);
    drop(array);
    heap.check().unwrap();
}

#[test]
fn what_is_not_there_is_an_error() {
    let heap = heap();
    let mut array: Array<u32> = Array::new(&heap, 10).unwrap();
    assert!(array.read(10).is_err() && array.write(usize::MAX).is_err());
    assert!(array.read_many(&[3, 10]).is_err() && array.write_many(&[11], &[1]).is_err());
    assert!(array.prefetch(&[10]).is_err());
    assert!(array.write_many(&[1, 2], &[1]).unwrap_err().to_string().contains("1 values for 2 objects"));
    assert!(array.read_later(vec![99]).unwrap().wait().is_err());
    assert!(array.read_many(&[]).unwrap().is_empty());
    assert!(Array::<u32>::new(&heap, 0).is_err());
    assert!(Array::<[u8; 4096]>::new(&heap, 1 << 40).is_err());
    assert_eq!(array.read(9).map(|object| *object).unwrap(), 0);
}

#[test]
fn many_objects_can_be_in_use_but_not_all() {
    let heap = heap();
    let array: Array<[u8; 4096]> = Array::new(&heap, 4000).unwrap();
    let mut used = Vec::new();
    let error = loop {
        match array.read(used.len()) {
            Ok(object) => used.push(object),
            Err(error) => break error,
        }
        assert!(used.len() < array.len(), "more than the RAM is in use");
    };
    assert!(used.len() > 50, "{}: {error}", used.len());
    drop(used);
    assert!(array.read(3999).is_ok());
}

#[test]
fn objects_live_as_long_as_their_references() {
    let heap = heap();
    let mut objects: Vec<Ref<[u64; 8]>> = (0..60_000).map(|n| Ref::new(&heap, [n; 8]).unwrap()).collect();
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let n = rng.below(objects.len());
        let (first, last) = (objects[n].read().unwrap()[0], objects[n].read().unwrap()[7]);
        assert_eq!(first, last);
        *objects[n].write().unwrap() = [n as u64, 0, 0, n as u64, 0, 0, 0, n as u64];
    }
    assert!(objects.iter().zip(0..).all(|(object, n)| object.read().unwrap()[3] == n));
    assert!(heap.stats().cache_objects > 1000);
    drop(objects);
    assert_eq!(heap.stats().cache_objects, 0);
    heap.check().unwrap();
}

/// A batch in the background reads what was there when it was begun, also when nobody waits for it.
#[test]
fn who_writes_waits_for_batches_in_the_background() {
    let _watchdog = Watchdog::new("who writes waits for ever");
    let heap = heap();
    let mut array: Array<[u64; 64]> = Array::new(&heap, 40_000).unwrap();
    let all: Vec<usize> = (0..array.len()).collect();
    for round in 1..6u64 {
        array.write_many(&all, &vec![[round; 64]; all.len()]).unwrap();
        let kept = array.read_later(all.clone()).unwrap();
        std::mem::forget(array.read_later(all.clone()).unwrap());
        drop(array.read_later(all.clone()).unwrap());
        *array.write(0).unwrap() = [99; 64];
        assert!(kept.wait().unwrap().iter().all(|object| *object == [round; 64]));
    }
    let last = array.read_later(all).unwrap();
    drop(array);
    assert_eq!(last.wait().unwrap()[39_999], [5; 64]);
}

/// The thread for batches is the parent's: a child is told so, and does not wait for it.
#[test]
fn a_child_is_refused() {
    let heap = heap();
    let mut array: Array<u64> = Array::new(&heap, 1000).unwrap();
    assert_eq!(array.read_later(vec![3]).unwrap().wait().unwrap(), [0]);
    // SAFETY: the child asks the library, which refuses, and ends; if it hangs, the alarm ends it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a call without pointers.
        unsafe { libc::alarm(20) };
        let is_refused =
            array.read_later(vec![3]).is_err() && array.read(3).is_err() && array.write(3).is_err();
        // SAFETY: ends the child without what the test's threads had to do.
        unsafe { libc::_exit(i32::from(!is_refused)) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended with {status:#x}");
    assert_eq!(*array.read(3).unwrap(), 0);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn batches_are_futures() {
    let _watchdog = Watchdog::new("a future is not woken");
    let heap = heap();
    let mut array: Array<u64> = Array::new(&heap, 100_000).unwrap();
    let all: Vec<usize> = (0..array.len()).collect();
    array.write_many(&all, &(0..100_000).collect::<Vec<u64>>()).unwrap();
    let sum = block_on(async {
        let (first, second) =
            (array.read_later(all[..50_000].to_vec()), array.read_later(all[50_000..].to_vec()));
        let first: u64 = first?.await?.iter().sum();
        let second: u64 = second?.await?.iter().sum();
        Ok::<_, aquifer::Error>(first + second)
    });
    assert_eq!(sum.unwrap(), 4_999_950_000);
}

#[test]
fn collections_lie_in_a_heap() {
    let heap = heap();
    let blocks = Blocks::new(&heap);
    let mut table = hashbrown::HashMap::new_in(blocks.clone());
    let mut model = HashMap::new();
    let mut rng = Rng::new(11);
    for _ in 0..30_000 {
        let (key, value) = (rng.below(40_000) as u64, rng.word());
        if rng.below(4) == 0 {
            assert_eq!(table.remove(&key), model.remove(&key));
        } else {
            assert_eq!(table.insert(key, [value; 40]), model.insert(key, [value; 40]));
        }
    }
    assert!(model.iter().all(|(key, value)| table.get(key) == Some(value)));
    assert!(heap.stats().ram_used_bytes <= 8 << 20);
    drop(table);
    heap.check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn vectors_in_a_heap_are_vectors(steps in proptest::collection::vec((0..6u8, 0..30_000usize), 1..60)) {
        let heap = heap();
        let mut ours: VecIn<u32, Blocks> = VecIn::new_in(Blocks::new(&heap));
        let mut model: Vec<u32> = Vec::new();
        for (step, n) in steps {
            match step {
                0 => (ours.push(n as u32), model.push(n as u32)).0,
                1 => (ours.extend(0..n as u32), model.extend(0..n as u32)).0,
                2 => (ours.truncate(n), model.truncate(n)).0,
                3 => (ours.shrink_to_fit(), model.shrink_to_fit()).0,
                4 => (ours.resize(n, 7), model.resize(n, 7)).0,
                _ => (ours.reserve(n), model.reserve(n)).0,
            }
            prop_assert!(ours[..] == model[..]);
        }
        drop(ours);
        prop_assert!(heap.check().is_ok());
    }
}
