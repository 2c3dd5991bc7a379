//! The contract. Each function is one clause of it, and takes any device of `DEVICE_BYTES` bytes or more.

use aquifer_device::{AlignedBuffer, Device, DeviceError, ReadRequest, WriteRequest};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fixture::{DEVICE_BYTES, pattern, read};

pub fn sizes(device: &dyn Device) {
    assert!(matches!(device.block_bytes(), 512 | 4096), "{}", device.block_bytes());
    assert_eq!(device.len_bytes() % device.block_bytes() as u64, 0);
    assert!(device.len_bytes() >= DEVICE_BYTES);
}

pub fn round_trip(device: &dyn Device) {
    let block = device.block_bytes();
    let end = device.len_bytes();
    let across_a_stripe = (1 << 20) - block as u64;
    let places = [(0, block), (across_a_stripe, 3 * block), (end - 2 * block as u64, 2 * block)];
    for (tag, (offset, len_bytes)) in places.into_iter().enumerate() {
        let written = pattern(tag as u64, len_bytes);
        device.write_at(offset, &written).unwrap();
        assert!(*read(device, offset, len_bytes) == *written, "at {offset}");
    }
    device.sync().unwrap();
    for (tag, (offset, len_bytes)) in places.into_iter().enumerate() {
        assert!(*read(device, offset, len_bytes) == *pattern(tag as u64, len_bytes), "at {offset}");
    }
    let whole = pattern(9, DEVICE_BYTES as usize);
    device.write_at(0, &whole).unwrap();
    assert!(*read(device, 0, whole.len()) == *whole);
}

pub fn keeps_neighbours(device: &dyn Device) {
    let block = device.block_bytes();
    device.write_at(0, &pattern(1, 8 * block)).unwrap();
    device.write_at(3 * block as u64, &pattern(2, block)).unwrap();
    let (before, after) = (pattern(1, 8 * block), read(device, 0, 8 * block));
    assert!(after[..3 * block] == before[..3 * block]);
    assert!(after[3 * block..4 * block] == *pattern(2, block));
    assert!(after[4 * block..] == before[4 * block..]);
}

pub fn out_of_range(device: &dyn Device) {
    let block = device.block_bytes();
    let device_bytes = device.len_bytes();
    let last = device_bytes - block as u64;
    device.write_at(last, &pattern(1, block)).unwrap();
    let mut memory = pattern(2, 2 * block);
    for offset in [last, device_bytes, u64::MAX - (block as u64 - 1)] {
        let refused = Err(DeviceError::OutOfRange { offset, len_bytes: 2 * block as u64, device_bytes });
        assert_eq!(device.write_at(offset, &memory), refused);
        assert_eq!(device.read_at(offset, &mut memory), refused);
        assert_eq!(device.discard(offset, 2 * block as u64), refused);
    }
    assert!(*read(device, last, block) == *pattern(1, block), "a refused write changes nothing");
}

pub fn misaligned(device: &dyn Device) {
    let block = device.block_bytes();
    device.write_at(0, &pattern(1, 4 * block)).unwrap();
    let mut memory = AlignedBuffer::new(4 * block);
    for (offset, start, len_bytes) in [(1, 0, block), (0, 0, block - 1), (0, 8, block), (block - 8, 0, block)]
    {
        let (offset, part) = (offset as u64, start..start + len_bytes);
        let refused = DeviceError::Misaligned { offset, len_bytes: len_bytes as u64, block_bytes: block };
        assert_eq!(device.write_at(offset, &memory[part.clone()]), Err(refused));
        assert_eq!(device.read_at(offset, &mut memory[part]), Err(refused));
    }
    assert!(matches!(device.discard(1, block as u64), Err(DeviceError::Misaligned { .. })));
    assert!(matches!(device.discard(0, 1), Err(DeviceError::Misaligned { .. })));
    assert!(*read(device, 0, 4 * block) == *pattern(1, 4 * block));
}

pub fn empty_transfers(device: &dyn Device) {
    assert_eq!(device.read_at(0, &mut []), Ok(()));
    assert_eq!(device.write_at(device.len_bytes(), &[]), Ok(()));
    assert_eq!(device.discard(0, 0), Ok(()));
    device.read_batch(&mut []);
    device.write_batch(&mut []);
}

/// Several times as many requests as a ring holds, of one, two and three blocks, written from the far end.
pub fn large_batches(device: &dyn Device) {
    let block = device.block_bytes();
    let count = DEVICE_BYTES / (4 * block as u64);
    let place = |index: u64| index * 4 * block as u64;
    let len_bytes = |index: u64| block * (1 + index as usize % 3);
    let written: Vec<_> = (0..count).map(|index| pattern(index, len_bytes(index))).collect();
    let mut writes: Vec<_> =
        written.iter().zip(0..).map(|(buf, index)| WriteRequest::new(place(index), buf)).collect();
    writes.reverse();
    device.write_batch(&mut writes);
    assert!(writes.iter().all(|request| request.result.is_ok()));
    let mut memory: Vec<_> = (0..count).map(|index| AlignedBuffer::new(len_bytes(index))).collect();
    let mut reads: Vec<_> =
        memory.iter_mut().zip(0..).map(|(buf, index)| ReadRequest::new(place(index), buf)).collect();
    device.read_batch(&mut reads);
    assert!(reads.iter().all(|request| request.result.is_ok()));
    for (index, (read, written)) in memory.iter().zip(&written).enumerate() {
        assert!(**read == **written, "request {index}");
    }
}

/// Requests that cannot work fail with their own error and leave the others alone. Results from an earlier
/// use of the request are forgotten.
pub fn mixed_batches(device: &dyn Device) {
    let block = device.block_bytes();
    let beyond = device.len_bytes();
    let written = pattern(5, block);
    let stale = Err(DeviceError::Full { offset: 0, len_bytes: 0 });
    let mut writes = [
        WriteRequest::new(0, &written),
        WriteRequest::new(beyond, &written),
        WriteRequest::new(1, &written),
        WriteRequest::new(0, &[]),
        WriteRequest { offset: block as u64, buf: &written, result: stale },
    ];
    device.write_batch(&mut writes);
    check_mixed(writes.map(|request| request.result));
    let mut memory = AlignedBuffer::new(4 * block);
    let [first, second, third, fourth] = memory.get_disjoint_mut(quarters(block)).unwrap();
    let mut reads = [
        ReadRequest::new(0, first),
        ReadRequest::new(beyond, second),
        ReadRequest::new(1, third),
        ReadRequest::new(0, &mut []),
        ReadRequest { offset: block as u64, buf: fourth, result: stale },
    ];
    device.read_batch(&mut reads);
    check_mixed(reads.map(|request| request.result));
    assert!(memory[..block] == *written);
    assert!(memory[3 * block..] == *written);
}

fn quarters(block: usize) -> [std::ops::Range<usize>; 4] {
    std::array::from_fn(|index| index * block..(index + 1) * block)
}

fn check_mixed(results: [Result<(), DeviceError>; 5]) {
    assert_eq!(results[0], Ok(()));
    assert!(matches!(results[1], Err(DeviceError::OutOfRange { .. })), "{:?}", results[1]);
    assert!(matches!(results[2], Err(DeviceError::Misaligned { .. })), "{:?}", results[2]);
    assert_eq!(results[3], Ok(()));
    assert_eq!(results[4], Ok(()));
}

/// More threads than rings, each in blocks of its own between those of the others.
pub fn concurrent_threads(device: &dyn Device) {
    const THREADS: u64 = 7;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || write_and_read_back(device, thread, THREADS));
        }
    });
}

fn write_and_read_back(device: &dyn Device, thread: u64, stride: u64) {
    let block = device.block_bytes();
    let place = |index: u64| (index * stride + thread) * block as u64;
    for round in 0..8 {
        let written: Vec<_> =
            (0..20).map(|index| pattern(thread << 8 | round << 16 | index, block)).collect();
        let mut writes: Vec<_> =
            written.iter().zip(0..).map(|(buf, index)| WriteRequest::new(place(index), buf)).collect();
        device.write_batch(&mut writes[..10]);
        for write in &mut writes[10..] {
            write.result = device.write_at(write.offset, write.buf);
        }
        assert!(writes.iter().all(|request| request.result.is_ok()));
        let mut memory: Vec<_> = (0..20).map(|_| AlignedBuffer::new(block)).collect();
        let mut reads: Vec<_> =
            memory.iter_mut().zip(0..).map(|(buf, index)| ReadRequest::new(place(index), buf)).collect();
        for read in &mut reads[..10] {
            read.result = device.read_at(read.offset, read.buf);
        }
        device.read_batch(&mut reads[10..]);
        assert!(reads.iter().all(|request| request.result.is_ok()));
        assert!(memory.iter().zip(&written).all(|(read, written)| **read == **written), "thread {thread}");
    }
}

/// A discarded range may hold anything, its neighbours may not, and it can be written again.
pub fn discarded_ranges(device: &dyn Device) {
    let block = device.block_bytes();
    let written = pattern(1, 8 * block);
    device.write_at(0, &written).unwrap();
    device.discard(2 * block as u64, 4 * block as u64).unwrap();
    let after = read(device, 0, 8 * block);
    assert!(after[..2 * block] == written[..2 * block]);
    assert!(after[6 * block..] == written[6 * block..]);
    device.write_at(2 * block as u64, &pattern(2, 4 * block)).unwrap();
    assert!(*read(device, 2 * block as u64, 4 * block) == *pattern(2, 4 * block));
}

/// One step of a random program; places and lengths in blocks.
#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, len: usize, tag: u64 },
    WriteBatch { places: Vec<usize>, tag: u64 },
    Read { at: usize, len: usize },
    ReadBatch { places: Vec<usize> },
    Sync,
}

const MODEL_BLOCKS: usize = 64;
const STEP_BLOCKS: usize = 8;

fn step() -> impl Strategy<Value = Step> {
    let at = 0..MODEL_BLOCKS - STEP_BLOCKS;
    let len = 1..=STEP_BLOCKS;
    let places = || vec(0..MODEL_BLOCKS, 0..6);
    prop_oneof![
        (at.clone(), len.clone(), any::<u16>()).prop_map(|(at, len, tag)| Step::Write {
            at,
            len,
            tag: tag.into()
        }),
        (places(), any::<u16>()).prop_map(|(mut places, tag)| {
            // The order of writes to one place in one batch is open.
            places.sort_unstable();
            places.dedup();
            Step::WriteBatch { places, tag: tag.into() }
        }),
        (at, len).prop_map(|(at, len)| Step::Read { at, len }),
        places().prop_map(|places| Step::ReadBatch { places }),
        Just(Step::Sync),
    ]
}

/// Random programs leave the device and plain memory in the same state.
pub fn agrees_with_memory(device: &dyn Device) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner
        .run(&vec(step(), 1..40), |steps| {
            let mut model = AlignedBuffer::new(MODEL_BLOCKS * device.block_bytes());
            device.write_at(0, &model).unwrap();
            for step in &steps {
                apply(device, &mut model, step);
            }
            prop_assert!(*read(device, 0, model.len()) == *model);
            Ok(())
        })
        .unwrap();
}

fn apply(device: &dyn Device, model: &mut [u8], step: &Step) {
    let block = device.block_bytes();
    let offset = |place: usize| (place * block) as u64;
    match step {
        &Step::Write { at, len, tag } => {
            let written = pattern(tag, len * block);
            device.write_at(offset(at), &written).unwrap();
            model[at * block..(at + len) * block].copy_from_slice(&written);
        }
        Step::WriteBatch { places, tag } => {
            let written = pattern(*tag, block);
            let request = |&place: &usize| WriteRequest::new(offset(place), &written);
            let mut requests: Vec<_> = places.iter().map(request).collect();
            device.write_batch(&mut requests);
            assert!(requests.iter().all(|request| request.result.is_ok()));
            places.iter().for_each(|place| model[place * block..][..block].copy_from_slice(&written));
        }
        &Step::Read { at, len } => {
            assert!(*read(device, offset(at), len * block) == model[at * block..(at + len) * block]);
        }
        Step::ReadBatch { places } => {
            let mut memory = AlignedBuffer::new(places.len() * block);
            let request = |(buf, &place)| ReadRequest::new(offset(place), buf);
            let mut requests: Vec<_> = memory.chunks_mut(block).zip(places).map(request).collect();
            device.read_batch(&mut requests);
            assert!(requests.iter().all(|request| request.result.is_ok()));
            let expected = places.iter().map(|place| &model[place * block..][..block]);
            assert!(memory.chunks(block).eq(expected));
        }
        Step::Sync => device.sync().unwrap(),
    }
}
