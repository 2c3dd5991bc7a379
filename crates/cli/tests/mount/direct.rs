//! Writes around the pages that the kernel keeps.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use aquifer_device::{AlignedBuffer, Device, FileDevice, WriteRequest};

use crate::ground::bytes;

const LEN: usize = 640 << 10;
const ROUNDS: u8 = 60;
const READERS: usize = 3;

/// A program that knows that its direct writes have ended finds them in what the kernel keeps, though other programs read the file meanwhile.
pub fn are_read_by_others(at: &Path) {
    let path = at.join("file");
    fs::write(&path, vec![0; LEN]).expect("a file");
    let device = FileDevice::open(&path, LEN as u64).expect("it opens");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    bytes(&path);
                }
            });
        }
        let outcome = (1..=ROUNDS).try_for_each(|round| written_and_read(&device, &path, round));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|said| panic!("{said}"));
    });
}

fn written_and_read(device: &FileDevice, path: &Path, round: u8) -> Result<(), String> {
    let mut buffer = AlignedBuffer::new(LEN);
    buffer.fill(round);
    let pieces = buffer.chunks(LEN / 4).zip((0..).step_by(LEN / 4));
    let mut writes: Vec<_> = pieces.map(|(piece, offset)| WriteRequest::new(offset, piece)).collect();
    device.write_batch(&mut writes);
    for write in writes {
        write.result.map_err(|error| error.to_string())?;
    }
    match bytes(path).iter().position(|&byte| byte != round) {
        None => Ok(()),
        Some(at) => Err(format!("round {round}: byte {at} is of an earlier round")),
    }
}
