//! Memory for packed leaves: cells of a few sizes carved from 4 KiB frames, all from one fixed budget.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use aquifer_sys::{Errno, Reservation, SpinLock};

const FRAME_BYTES: usize = 4096;
const CELLS_MAX: u32 = 128;
const NIL: u32 = u32::MAX;
/// Cell sizes; each fits its frame with little left over.
const CLASSES: [usize; 15] = [32, 64, 96, 128, 192, 256, 320, 400, 504, 680, 816, 1024, 1360, 2048, 4096];

/// A cell of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell(pub u32);

#[derive(Clone, Copy)]
struct Frame {
    used: u128,
    previous: u32,
    next: u32,
}

struct State {
    frames: Box<[Frame]>,
    free: u32,
    free_len: u32,
    fresh: u32,
    partial: [u32; CLASSES.len()],
}

/// Fixed memory divided into cells.
///
/// # Context
/// Used in fault handlers. Other callers block signals, so that a handler never waits for its own thread.
pub(crate) struct Arena {
    memory: Reservation,
    /// Class of each frame; changes only while no cell of the frame is in use.
    classes: Box<[AtomicU8]>,
    state: SpinLock<State>,
    hand: AtomicU32,
}

fn class_of(bytes: usize) -> usize {
    CLASSES.partition_point(|&size| size < bytes)
}

fn full_mask(class: usize) -> u128 {
    let cells = FRAME_BYTES / CLASSES[class];
    if cells == 128 { u128::MAX } else { (1 << cells) - 1 }
}

impl State {
    fn unlink(&mut self, frame: u32, class: usize) {
        let Frame { previous, next, .. } = self.frames[frame as usize];
        match previous {
            NIL => self.partial[class] = next,
            _ => self.frames[previous as usize].next = next,
        }
        if next != NIL {
            self.frames[next as usize].previous = previous;
        }
    }

    fn link(&mut self, frame: u32, class: usize) {
        let head = self.partial[class];
        self.frames[frame as usize].previous = NIL;
        self.frames[frame as usize].next = head;
        if head != NIL {
            self.frames[head as usize].previous = frame;
        }
        self.partial[class] = frame;
    }

    fn take_frame(&mut self, class: usize) -> Option<u32> {
        let frame = if self.free != NIL {
            let frame = self.free;
            self.free = self.frames[frame as usize].next;
            self.free_len -= 1;
            frame
        } else if (self.fresh as usize) < self.frames.len() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        self.frames[frame as usize] = Frame { used: 0, previous: NIL, next: NIL };
        self.link(frame, class);
        Some(frame)
    }
}

impl Arena {
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        let frames = (bytes / FRAME_BYTES).max(1);
        let empty = Frame { used: 0, previous: NIL, next: NIL };
        Ok(Self {
            memory: Reservation::new(frames * FRAME_BYTES, FRAME_BYTES)?,
            classes: (0..frames).map(|_| AtomicU8::new(0)).collect(),
            state: SpinLock::new(State {
                frames: vec![empty; frames].into(),
                free: NIL,
                free_len: 0,
                fresh: 0,
                partial: [NIL; CLASSES.len()],
            }),
            hand: AtomicU32::new(0),
        })
    }

    /// RAM in use, bookkeeping included.
    pub(crate) fn ram_bytes(&self) -> usize {
        let state = self.state.lock();
        state.fresh as usize * FRAME_BYTES + std::mem::size_of_val(&*state.frames)
    }

    /// Whether an eighth of the memory is free for cells of any size.
    pub(crate) fn is_roomy(&self) -> bool {
        let state = self.state.lock();
        let frames = state.frames.len() as u32;
        (frames - state.fresh + state.free_len) * 8 >= frames
    }

    /// Whether `bytes` fit the same size of cell as `cell` has.
    pub(crate) fn same_class(&self, cell: Cell, bytes: usize) -> bool {
        self.class(cell.0 / CELLS_MAX) == class_of(bytes)
    }

    fn class(&self, frame: u32) -> usize {
        usize::from(self.classes[frame as usize].load(Ordering::Relaxed))
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Option<Cell> {
        let class = class_of(bytes);
        let mut state = self.state.lock();
        let frame = match state.partial[class] {
            NIL => {
                let frame = state.take_frame(class)?;
                self.classes[frame as usize].store(class as u8, Ordering::Relaxed);
                frame
            }
            frame => frame,
        };
        let entry = &mut state.frames[frame as usize];
        let index = entry.used.trailing_ones();
        entry.used |= 1 << index;
        if entry.used == full_mask(class) {
            state.unlink(frame, class);
        }
        Some(Cell(frame * CELLS_MAX + index))
    }

    pub(crate) fn free(&self, cell: Cell) {
        let (frame, index) = (cell.0 / CELLS_MAX, cell.0 % CELLS_MAX);
        let mut state = self.state.lock();
        let class = self.class(frame);
        let used = state.frames[frame as usize].used;
        debug_assert!(used >> index & 1 == 1, "cell {cell:?} is free already");
        if used == full_mask(class) {
            state.link(frame, class);
        }
        state.frames[frame as usize].used = used & !(1 << index);
        if state.frames[frame as usize].used == 0 {
            state.unlink(frame, class);
            let free = state.free;
            state.frames[frame as usize].next = free;
            state.free = frame;
            state.free_len += 1;
        }
    }

    /// The next used cell after the one given last, round and round; `None` if there is none.
    pub(crate) fn sweep(&self) -> Option<Cell> {
        let state = self.state.lock();
        let total = state.fresh * CELLS_MAX;
        if total == 0 {
            return None;
        }
        let start = self.hand.load(Ordering::Relaxed) % total;
        let (mut frame, mut index) = (start / CELLS_MAX, start % CELLS_MAX);
        for _ in 0..=state.fresh {
            let rest = state.frames[frame as usize].used >> index;
            if rest != 0 {
                let cell = frame * CELLS_MAX + index + rest.trailing_zeros();
                self.hand.store(cell + 1, Ordering::Relaxed);
                return Some(Cell(cell));
            }
            (frame, index) = ((frame + 1) % state.fresh, 0);
        }
        None
    }

    /// Start of the cell's memory, aligned to 8, valid for the size that it was allocated with. The directory
    /// word that owns the cell says which threads may use it, and when.
    pub(crate) fn pointer(&self, cell: Cell) -> *mut u8 {
        let frame = (cell.0 / CELLS_MAX) as usize;
        let size = CLASSES[self.class(frame as u32)];
        let offset = frame * FRAME_BYTES + (cell.0 % CELLS_MAX) as usize * size;
        // SAFETY: frame and cell are within the reservation, because allocate returned them.
        unsafe { self.memory.base().add(offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_not_overlap_and_come_back() {
        let arena = Arena::new(64 << 10).unwrap();
        let mut held: Vec<(Cell, usize)> = Vec::new();
        let mut seed = 1u64;
        for round in 0..20_000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(round);
            let bytes = 1 + (seed >> 33) as usize % 3700;
            if seed >> 20 & 1 == 0 {
                if let Some(cell) = arena.allocate(bytes) {
                    held.push((cell, bytes));
                }
            } else if !held.is_empty() {
                let (cell, _) = held.swap_remove((seed >> 40) as usize % held.len());
                arena.free(cell);
            }
        }
        let mut ranges: Vec<(usize, usize)> =
            held.iter().map(|&(cell, bytes)| (arena.pointer(cell) as usize, bytes)).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        for (cell, _) in held {
            arena.free(cell);
        }
        assert!(arena.sweep().is_none());
        assert!((0..16).all(|_| arena.allocate(4096).is_some()), "all frames came back");
    }

    #[test]
    fn sweep_visits_every_used_cell() {
        let arena = Arena::new(16 << 10).unwrap();
        let cells: Vec<Cell> = (0..20).map(|_| arena.allocate(400).unwrap()).collect();
        let seen: std::collections::HashSet<u32> = (0..20).map(|_| arena.sweep().unwrap().0).collect();
        assert_eq!(seen.len(), cells.len());
    }
}
