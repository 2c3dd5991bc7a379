//! What one caller has under way.

use std::time::Instant;

use super::endpoint::{Direction, Place};
use super::slots::{LARGE_BYTES, Slot};

/// At once by one caller.
const FLIGHTS_MAX: usize = 32;

/// A part of a request that one transfer carries, or several requests that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Which request of many, the first one if there are several.
    pub nth: usize,
    /// First byte in the request.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// Where in the donor's memory.
    pub place: Place,
}

/// Cuts a request.
pub fn pieces(nth: usize, place: Place, len: usize) -> impl Iterator<Item = Piece> {
    (0..len).step_by(LARGE_BYTES).map(move |start| Piece {
        nth,
        start,
        len: (len - start).min(LARGE_BYTES),
        place: place.at(start as u64),
    })
}

/// How many of these requests, from the first one on, one transfer carries, because they follow each other in the donor's memory; and their bytes. A request
/// that is too long for a transfer is alone.
pub fn run_of(mut requests: impl Iterator<Item = (Place, usize)>) -> (usize, usize) {
    let Some((first, mut len)) = requests.next() else { return (0, 0) };
    let mut count = 1;
    for (place, more) in requests {
        if place != first.at(len as u64) || len + more > LARGE_BYTES {
            break;
        }
        len += more;
        count += 1;
    }
    (count, len)
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Which way.
    pub direction: Direction,
    /// Whose memory it uses.
    pub slot: Slot,
    /// What it carries.
    pub piece: Piece,
    /// When it began.
    pub since: Instant,
}

/// Transfers under way, the oldest first. A ring of fixed size: faults make one on their stack.
#[derive(Default)]
pub struct Flights {
    ring: [Option<Flight>; FLIGHTS_MAX],
    first: usize,
    len: usize,
}

impl Flights {
    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.len == FLIGHTS_MAX
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one.
    ///
    /// # Panics
    /// There is no room.
    pub fn push(&mut self, flight: Flight) {
        assert!(!self.is_full(), "no room for a transfer");
        self.ring[(self.first + self.len) % FLIGHTS_MAX] = Some(flight);
        self.len += 1;
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Flight> {
        self.len = self.len.checked_sub(1)?;
        let flight = self.ring[self.first].take();
        self.first = (self.first + 1) % FLIGHTS_MAX;
        flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_without_a_gap() {
        let place = Place { address: 1000, key: 7 };
        let cut: Vec<_> = pieces(3, place, 2 * LARGE_BYTES + 5).collect();
        assert_eq!(cut.iter().map(|piece| piece.len).collect::<Vec<_>>(), [LARGE_BYTES, LARGE_BYTES, 5]);
        assert!(cut.iter().all(|piece| piece.place.address == 1000 + piece.start as u64 && piece.nth == 3));
        assert_eq!(pieces(0, place, 0).count(), 0);
    }

    #[test]
    fn requests_that_follow_each_other_are_one_transfer() {
        let at = |page: u64, key| Place { address: 4096 * page, key };
        let run = |requests: &[(Place, usize)]| run_of(requests.iter().copied());
        assert_eq!(run(&[(at(1, 7), 4096), (at(2, 7), 8192), (at(4, 8), 4096)]), (2, 12288));
        assert_eq!(run(&[(at(1, 7), 4096), (at(3, 7), 4096)]), (1, 4096));
        assert_eq!(run(&[(at(1, 7), LARGE_BYTES), (at(33, 7), 4096)]), (1, LARGE_BYTES));
        let many: Vec<_> = (0..40).map(|page| (at(page, 1), 4096)).collect();
        assert_eq!((run(&many), run(&many[32..]), run(&[])), ((32, LARGE_BYTES), (8, 32768), (0, 0)));
    }

    #[test]
    fn the_oldest_flight_comes_first() {
        let mut flights = Flights::default();
        let flight = |n| {
            let piece = Piece { nth: n, start: 0, len: 1, place: Place { address: 0, key: 0 } };
            Flight { direction: Direction::Read, slot: Slot(0), piece, since: Instant::now() }
        };
        for n in 0..100 {
            if flights.is_full() {
                assert_eq!(flights.pop().map(|flight| flight.piece.nth), Some(n - FLIGHTS_MAX));
            }
            flights.push(flight(n));
        }
        assert_eq!(flights.pop().map(|flight| flight.piece.nth), Some(100 - FLIGHTS_MAX));
    }
}
