//! Buffers of system calls that are under way while memory is ordinary.
//!
//! The kernel may use a buffer until its system call returns, hours later if the call waits for a peer. A
//! takeover must keep these pages at their addresses. So each call announces its buffers before it begins,
//! and the takeover pins them. A call that finds its buffer pinned when it returns ends the pin.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use aquifer_sys::counter::{STRIPES, stripe};

/// Buffers that are told of at a time. A call that finds no place goes on without one.
const BUFFERS: usize = 4096;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const UNDER_WAY: u64 = 2;
const PINNED: u64 = 3;
const STATE: u64 = 3;
const TURN: u64 = 4;

/// A place, in two halves of a cache line.
#[repr(align(32))]
struct Buffer {
    /// How often the place was used, and its state.
    word: AtomicU64,
    address: AtomicUsize,
    bytes: AtomicUsize,
}

/// The buffers of one heap. All methods are lock-free and signal-safe.
pub(crate) struct Announced {
    buffers: Box<[Buffer]>,
}

/// A buffer that was announced.
#[derive(Debug)]
pub(crate) struct Ticket(usize);

impl Announced {
    pub(crate) fn new() -> Self {
        let buffer =
            || Buffer { word: AtomicU64::new(0), address: AtomicUsize::new(0), bytes: AtomicUsize::new(0) };
        Self { buffers: (0..BUFFERS).map(|_| buffer()).collect() }
    }

    /// Announces a buffer; `None` if there are too many.
    pub(crate) fn begin(&self, address: usize, bytes: usize) -> Option<Ticket> {
        let first = stripe() * (BUFFERS / STRIPES);
        for n in (first..BUFFERS).chain(0..first) {
            let buffer = &self.buffers[n];
            let word = buffer.word.load(Ordering::Relaxed);
            let claim =
                || buffer.word.compare_exchange(word, word + CLAIMED, Ordering::Acquire, Ordering::Relaxed);
            if word & STATE == FREE && claim().is_ok() {
                buffer.address.store(address, Ordering::Relaxed);
                buffer.bytes.store(bytes, Ordering::Relaxed);
                // The takeover sets `is_taken_over` before it reads this word; the caller reads that flag
                // after this store.
                buffer.word.store(word + UNDER_WAY, Ordering::SeqCst);
                return Some(Ticket(n));
            }
        }
        None
    }

    /// The call is over. Address and length of its buffer, if it was pinned meanwhile.
    pub(crate) fn end(&self, Ticket(n): Ticket) -> Option<(usize, usize)> {
        let buffer = &self.buffers[n];
        let range = (buffer.address.load(Ordering::Relaxed), buffer.bytes.load(Ordering::Relaxed));
        // The last turn of a place ends as its first began.
        let next = |word: u64| Some((word & !STATE).wrapping_add(TURN));
        let before = buffer.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or(FREE);
        (before & STATE == PINNED).then_some(range)
    }

    /// The buffers of all calls that are under way.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(usize, usize)) {
        self.pin_each(
            &mut |address, bytes| {
                visit(address, bytes);
                false
            },
            &mut |_, _| {},
        );
    }

    /// Pins the buffers of all calls that are under way; `pin` returns whether it did. `unpin` is for those whose call returned at
    /// that moment.
    pub(crate) fn pin_each(
        &self,
        pin: &mut dyn FnMut(usize, usize) -> bool,
        unpin: &mut dyn FnMut(usize, usize),
    ) {
        for buffer in &self.buffers {
            let word = buffer.word.load(Ordering::SeqCst);
            if word & STATE != UNDER_WAY {
                continue;
            }
            let (address, bytes) =
                (buffer.address.load(Ordering::Relaxed), buffer.bytes.load(Ordering::Relaxed));
            let pinned = (word & !STATE) | PINNED;
            let exchange = || buffer.word.compare_exchange(word, pinned, Ordering::AcqRel, Ordering::Relaxed);
            // The place may have been given to another call since: then the range is of neither, or of no call.
            if buffer.word.load(Ordering::Acquire) == word && pin(address, bytes) && exchange().is_err() {
                unpin(address, bytes);
            }
        }
    }

    /// In a child, which has none of the threads that were in calls.
    pub(crate) fn forget_all(&self) {
        for buffer in &self.buffers {
            buffer.word.fetch_and(!STATE, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_buffer_is_pinned_as_long_as_its_call_lasts() {
        let announced = Announced::new();
        let (early, late) = (announced.begin(4096, 10).unwrap(), announced.begin(8192, 20).unwrap());
        assert_eq!(announced.end(early), None);
        let mut pinned = Vec::new();
        announced.pin_each(
            &mut |address, bytes| {
                pinned.push((address, bytes));
                true
            },
            &mut |_, _| panic!("the call has not returned"),
        );
        assert_eq!(pinned, [(8192, 20)]);
        assert_eq!(announced.end(late), Some((8192, 20)));
        announced.for_each(&mut |address, _| panic!("{address} is under way"));
    }

    #[test]
    fn beyond_the_last_place_calls_go_on() {
        let announced = Announced::new();
        let tickets: Vec<_> = (0..BUFFERS).map(|n| announced.begin(n, 1).unwrap()).collect();
        assert!(announced.begin(7, 1).is_none());
        tickets.into_iter().for_each(|ticket| assert_eq!(announced.end(ticket), None));
        assert!(announced.begin(7, 1).is_some());
        announced.forget_all();
        announced.for_each(&mut |address, _| panic!("{address} is under way"));
    }

    /// Whatever the moment, each pin is ended once, by the call or by who made it.
    #[test]
    fn pins_of_calls_that_return_meanwhile_end() {
        let (announced, stop) = (Announced::new(), AtomicBool::new(false));
        let pins: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            let callers: Vec<_> = pins
                .iter()
                .enumerate()
                .map(|(n, pins)| {
                    let announced = &announced;
                    scope.spawn(move || {
                        for _ in 0..20_000 {
                            let ticket = announced.begin(n, 1).unwrap();
                            std::hint::spin_loop();
                            if let Some((address, 1)) = announced.end(ticket) {
                                assert_eq!(address, n);
                                pins.fetch_sub(1, Ordering::SeqCst);
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    announced.pin_each(
                        &mut |address, _| {
                            pins[address].fetch_add(1, Ordering::SeqCst);
                            true
                        },
                        &mut |address, _| {
                            pins[address].fetch_sub(1, Ordering::SeqCst);
                        },
                    );
                }
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            stop.store(true, Ordering::Relaxed);
        });
        assert!(pins.iter().all(|pins| pins.load(Ordering::SeqCst) == 0));
    }
}
