//! A small log with its two heads, and a map that owns the records.

use std::collections::BTreeMap;
use std::sync::Arc;

use aquifer_base::LogAddress;
use aquifer_device::{AlignedBuffer, Counted, Device, FaultPlan, Faulty, MemoryDevice};
use aquifer_log::cleaner::{CleanError, Found, Owner, clean};
use aquifer_log::geometry::SegmentId;
use aquifer_log::log::reserve_segments;
use aquifer_log::record::{lone_record_bytes, record_bytes};
use aquifer_log::segment::State;
use aquifer_log::victim::{Greedy, VictimPolicy, choose};
use aquifer_log::{AppendError, Geometry, Head, Kind, Log, ReadError, RecordId};

pub const BLOCK_BYTES: usize = 4096;
pub const SEGMENTS: u32 = 24;
pub const GEOMETRY: Geometry =
    Geometry { block_bytes: BLOCK_BYTES, segment_bytes: 2 * BLOCK_BYTES, segments: SEGMENTS };

pub type TestDevice = Counted<Faulty<MemoryDevice>>;

/// Where the newest version of each key is, and nothing else.
#[derive(Default)]
pub struct Places(BTreeMap<u64, (LogAddress, usize)>);

/// The log, its heads, and who owns its records.
pub struct Bench {
    pub device: Arc<TestDevice>,
    pub log: Arc<Log>,
    pub fresh: Head,
    pub survivor: Head,
    pub places: Places,
    buffer: AlignedBuffer,
}

pub fn id(key: u64) -> RecordId {
    RecordId { kind: Kind::Page, number: key }
}

impl Places {
    pub fn get(&self, key: u64) -> Option<(LogAddress, usize)> {
        self.0.get(&key).copied()
    }

    pub fn keys(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// Bytes of all records that are needed.
    pub fn live_bytes(&self) -> u64 {
        self.0.values().map(|&(_, len)| record_bytes(len) as u64).sum()
    }

    /// Points `key` to a new record and releases the one before.
    pub fn set(&mut self, log: &Log, key: u64, place: Option<(LogAddress, usize)>) {
        let before = match place {
            Some(place) => self.0.insert(key, place),
            None => self.0.remove(&key),
        };
        if let Some((address, len)) = before {
            log.release(address, record_bytes(len));
        }
    }
}

impl Owner for Places {
    fn relocate(&mut self, records: &[Found<'_>], head: &mut Head) -> Result<(), AppendError> {
        for found in records {
            let key = found.id.number;
            if self.get(key) != Some((found.address, found.payload.len())) {
                continue;
            }
            head.make_room(found.id.kind, lone_record_bytes(found.payload.len()))?;
            let address = head.append(found.id, found.payload);
            let log = head.log().clone();
            self.set(&log, key, Some((address, found.payload.len())));
        }
        Ok(())
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(GEOMETRY, FaultPlan::new(0))
    }

    pub fn with(geometry: Geometry, plan: FaultPlan) -> Self {
        let len = geometry.block_bytes as u64 + geometry.capacity_bytes();
        let device = Arc::new(Counted::new(Faulty::new(MemoryDevice::new(len, 512), plan)));
        let (log, fresh, survivor) = Log::new(device.clone(), geometry);
        let buffer = AlignedBuffer::new(geometry.block_bytes);
        Self { device, log, fresh, survivor, places: Places::default(), buffer }
    }

    /// Appends a version of `key` to the fresh head.
    pub fn write(&mut self, key: u64, payload: &[u8]) -> Result<LogAddress, AppendError> {
        let id = RecordId::of_page(key, payload.len());
        self.fresh.make_room(id.kind, lone_record_bytes(payload.len()))?;
        let address = self.fresh.append(id, payload);
        self.places.set(&self.log, key, Some((address, payload.len())));
        Ok(address)
    }

    pub fn free(&mut self, key: u64) {
        self.places.set(&self.log, key, None);
    }

    /// The newest version of `key`, which must exist.
    pub fn read(&self, key: u64) -> Result<Vec<u8>, ReadError> {
        let (address, len) = self.places.get(key).expect("the key was written");
        self.read_at(address, key, len)
    }

    pub fn read_at(&self, address: LogAddress, key: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut scratch = AlignedBuffer::new(BLOCK_BYTES + 512);
        let id = RecordId::of_page(key, len);
        let range = self.log.read_in_fault(address, record_bytes(len), id, &mut scratch)?;
        Ok(scratch[range].to_vec())
    }

    /// Cleans the segment that `policy` chooses; `None` if nothing is garbage.
    pub fn clean_one(&mut self, policy: &dyn VictimPolicy) -> Option<Result<SegmentId, CleanError>> {
        let victim = choose(
            policy,
            self.log.segments(),
            |kind| self.log.geometry().segment_room(kind),
            self.log.now(),
        )?;
        Some(self.clean(victim).map(|()| victim))
    }

    pub fn clean(&mut self, victim: SegmentId) -> Result<(), CleanError> {
        clean(&self.log, victim, &mut self.places, &mut self.survivor, &mut self.buffer)
    }

    /// Cleans until the fresh head can open a segment without waiting.
    pub fn make_segments_free(&mut self, policy: &dyn VictimPolicy) -> Result<(), CleanError> {
        while self.log.free_segments() <= reserve_segments(SEGMENTS) + 1 {
            self.clean_one(policy).expect("more is garbage than the reserve holds")?;
        }
        Ok(())
    }

    /// Cleans every sealed segment that has any garbage.
    pub fn clean_all(&mut self) {
        let sealed: Vec<SegmentId> = self.log.segments().in_state(State::Sealed).collect();
        for segment in sealed {
            self.clean(segment).expect("an intact segment can be cleaned");
        }
    }

    /// Appends filler until `count` segments were sealed since now; returns the keys written.
    pub fn fill_segments(&mut self, count: u32, first_key: u64) -> Vec<u64> {
        let end = self.log.now() + count;
        let mut key = first_key;
        while self.log.now() < end {
            self.write(key, &payload(key, 500)).expect("there is room");
            key += 1;
        }
        (first_key..key).collect()
    }

    /// Every key can be read and has the payload that [`payload`] makes for it.
    pub fn check_all(&self) {
        for key in self.places.keys() {
            let (_, len) = self.places.get(key).expect("a key of the map");
            assert_eq!(self.read(key).expect("the record is there"), payload(key, len), "key {key}");
        }
        assert_eq!(self.log.segments().live_bytes_total(), self.places.live_bytes());
    }

    pub fn greedy(&mut self) -> Option<Result<SegmentId, CleanError>> {
        self.clean_one(&Greedy)
    }

    /// Overwrites part of the device behind the log's back.
    pub fn damage(&self, address: LogAddress, byte: u8) {
        let offset = address.offset_bytes() / 512 * 512;
        let mut block = AlignedBuffer::new(512);
        self.device.read_at(offset, &mut block).expect("memory");
        block[(address.offset_bytes() - offset) as usize] ^= byte;
        self.device.write_at(offset, &block).expect("memory");
    }
}

/// Bytes that tell keys and lengths apart.
pub fn payload(key: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (key.wrapping_mul(31) ^ n.wrapping_mul(7) ^ len as u64) as u8).collect()
}
