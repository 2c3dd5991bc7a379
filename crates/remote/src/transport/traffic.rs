//! What goes to and from a donor, and how long it takes.

use std::ops::Add;
use std::time::Duration;

use aquifer_sys::counter::{Counter, DURATION_BUCKETS, Durations};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::endpoint::Direction;

/// Counts transfers that landed.
#[derive(Debug, Default)]
pub struct Traffic {
    read_bytes: Counter,
    written_bytes: Counter,
    reads: Durations,
    writes: Durations,
}

impl Traffic {
    /// Notes a transfer that landed.
    ///
    /// # Context
    /// Signal-safe; two atomic additions.
    pub fn note(&self, direction: Direction, bytes: usize, took: Duration) {
        let (sum, durations) = match direction {
            Direction::Read => (&self.read_bytes, &self.reads),
            Direction::Write => (&self.written_bytes, &self.writes),
        };
        sum.add(bytes as u64);
        durations.add(took);
    }

    /// What has landed so far. Each number is exact; together they are no snapshot.
    #[must_use]
    pub fn so_far(&self) -> TrafficSeen {
        let (read_latency, write_latency) = (Latency::of(&self.reads), Latency::of(&self.writes));
        TrafficSeen {
            reads: read_latency.total(),
            read_bytes: self.read_bytes.sum(),
            writes: write_latency.total(),
            written_bytes: self.written_bytes.sum(),
            read_latency,
            write_latency,
        }
    }
}

/// What went to and from a donor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TrafficSeen {
    /// Reads of up to 128 KiB each.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes of up to 128 KiB each.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// How long reads took.
    pub read_latency: Latency,
    /// How long writes took.
    pub write_latency: Latency,
}

impl Add for TrafficSeen {
    type Output = TrafficSeen;

    fn add(self, other: TrafficSeen) -> TrafficSeen {
        TrafficSeen {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
            read_latency: self.read_latency + other.read_latency,
            write_latency: self.write_latency + other.write_latency,
        }
    }
}

/// Transfers by how long they took: up to 2^(n + 10) ns each; the last bucket has no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency([u64; DURATION_BUCKETS]);

impl Latency {
    fn of(durations: &Durations) -> Latency {
        let mut counts = [0; DURATION_BUCKETS];
        counts.iter_mut().zip(durations.counts()).for_each(|(sum, (_, count))| *sum = count);
        Latency(counts)
    }

    /// Transfers in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Add for Latency {
    type Output = Latency;

    fn add(mut self, other: Latency) -> Latency {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
        self
    }
}

impl Serialize for Latency {
    /// As latencies of flash: bounds in nanoseconds, and a count for each.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let upper_ns: Vec<u64> = (0..DURATION_BUCKETS).map(|n| 1 << (n + 10)).collect();
        let mut latency = serializer.serialize_struct("Latency", 2)?;
        latency.serialize_field("upper_ns", &upper_ns)?;
        latency.serialize_field("count", &self.0)?;
        latency.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_counted_apart() {
        let traffic = Traffic::default();
        traffic.note(Direction::Read, 4096, Duration::from_micros(20));
        traffic.note(Direction::Read, 8192, Duration::from_micros(20));
        traffic.note(Direction::Write, 100, Duration::from_millis(1));
        let seen = traffic.so_far();
        assert_eq!((seen.reads, seen.read_bytes, seen.writes, seen.written_bytes), (2, 12_288, 1, 100));
        assert_eq!((seen.read_latency.0[5], seen.write_latency.0[10]), (2, 1));
    }

    #[test]
    fn a_connection_goes_on_where_the_one_before_ended() {
        let traffic = Traffic::default();
        traffic.note(Direction::Write, 7, Duration::from_micros(1));
        let both = traffic.so_far() + traffic.so_far();
        assert_eq!((both.writes, both.written_bytes, both.write_latency.total()), (2, 14, 2));
    }

    #[test]
    fn latencies_are_sent_as_those_of_flash() {
        let text = serde_json::to_value(Latency::default()).expect("numbers");
        let of = |name: &str| text[name].as_array().expect("an array").len();
        assert_eq!((of("upper_ns"), of("count")), (DURATION_BUCKETS, DURATION_BUCKETS));
        assert_eq!(text["upper_ns"][0], 1024);
    }
}
