//! The file in which a program that is profiled leaves samples of its faults.
//!
//! | part | bytes | content |
//! |---|---|---|
//! | head | 4096 | magic, number of slots, seed; counters in cache lines of their own |
//! | states | 4 for each slot, in whole pages | [`EMPTY`], [`WRITING`] or [`FULL`] |
//! | modules | 1 MiB | lines of `/proc/PID/maps` of executable memory, each behind its process's number and a blank |
//! | slots | 16 KiB each | one sample: its [`SampleHead`], and the stack from the stack pointer on |
//!
//! The slots are a reservoir (Vitter, Random Sampling with a Reservoir, 1985, algorithm R): of any number of faults, each has
//! the same chance to be in it at the end. All numbers have the order of the processor.

/// Bytes of a sample with its stack.
pub const SLOT_BYTES: usize = 16 << 10;
/// Bytes for lines of executable memory.
pub const MODULES_BYTES: usize = 1 << 20;
/// Fewest and most slots.
pub const SLOTS_MIN: u32 = 64;
/// See [`SLOTS_MIN`].
pub const SLOTS_MAX: u32 = 16 << 10;

/// Offset of the number of faults so far, 8 bytes.
pub const FAULTS_AT: usize = 64;
/// Offset of the number of bytes that modules take so far, 8 bytes.
pub const MODULES_USED_AT: usize = 128;
/// Offset of the number of programs that have begun to take samples, 4 bytes.
pub const PROGRAMS_AT: usize = 192;

/// State of a slot without a sample.
pub const EMPTY: u32 = 0;
/// State of a slot that a thread is writing.
pub const WRITING: u32 = 1;
/// State of a slot with a sample.
pub const FULL: u32 = 2;

const MAGIC: u64 = u64::from_le_bytes(*b"AqSample");
const PAGE_BYTES: usize = 4096;
const SLOTS_AT: usize = 8;
const SEED_AT: usize = 16;

/// Where the parts of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    slots: u32,
}

impl Layout {
    /// A file with `slots` slots, clamped to [`SLOTS_MIN`] and [`SLOTS_MAX`].
    pub fn new(slots: u32) -> Self {
        Self { slots: slots.clamp(SLOTS_MIN, SLOTS_MAX) }
    }

    /// The layout and the seed that a file's first bytes name.
    pub fn of(head: &[u8]) -> Option<(Self, u64)> {
        let slots = word(head, SLOTS_AT)?;
        let is_known = long(head, 0)? == MAGIC && (SLOTS_MIN..=SLOTS_MAX).contains(&slots);
        is_known.then_some((Self { slots }, long(head, SEED_AT)?))
    }

    /// The first bytes of a file; zeros follow.
    pub fn head(self, seed: u64) -> [u8; 24] {
        let mut head = [0; 24];
        head[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        head[SLOTS_AT..][..4].copy_from_slice(&self.slots.to_ne_bytes());
        head[SEED_AT..][..8].copy_from_slice(&seed.to_ne_bytes());
        head
    }

    /// Number of slots.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Offset of the state of a slot.
    pub fn state_at(self, slot: u32) -> usize {
        PAGE_BYTES + slot as usize * 4
    }

    /// Offset of the modules.
    pub fn modules_at(self) -> usize {
        PAGE_BYTES + (self.slots as usize * 4).next_multiple_of(PAGE_BYTES)
    }

    /// Offset of a slot; that of the first is the length of all that is in front.
    pub fn slot_at(self, slot: u32) -> usize {
        self.modules_at() + MODULES_BYTES + slot as usize * SLOT_BYTES
    }

    /// Length of the file.
    pub fn file_bytes(self) -> usize {
        self.slot_at(self.slots)
    }
}

/// What a fault found at the address that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Found {
    /// The page was read from flash.
    Flash = 0,
    /// Its bytes were in RAM.
    Ram = 1,
    /// It was never written before.
    Zeros = 2,
    /// It was mapped, and this was its first write.
    FirstWrite = 3,
    /// Another thread had mapped it meanwhile.
    Mapped = 4,
}

impl Found {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Flash, Self::Ram, Self::Zeros, Self::FirstWrite, Self::Mapped];

    /// Its number in files.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The one with this number.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// What is known of a fault besides the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleHead {
    /// The process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// What was found.
    pub found: Found,
    /// How long the thread has waited.
    pub duration_ns: u64,
    /// What was touched.
    pub address: u64,
    /// The instruction.
    pub pc: u64,
    /// Stack pointer: where the stack's bytes begin.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Where the function returns to, on processors that keep that in a register.
    pub lr: u64,
}

impl SampleHead {
    /// Bytes of it in a slot.
    pub const BYTES: usize = 64;
    /// Where in a slot the number of the stack's bytes is, 4 bytes. It is written last.
    pub const STACK_BYTES_AT: usize = 12;

    /// As it is in a slot, without a stack.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (at, word) in [self.process, self.thread, self.found.code()].into_iter().enumerate() {
            bytes[at * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        let longs = [self.duration_ns, self.address, self.pc, self.sp, self.fp, self.lr];
        for (at, long) in longs.into_iter().enumerate() {
            bytes[16 + at * 8..][..8].copy_from_slice(&long.to_ne_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            process: word(bytes, 0)?,
            thread: word(bytes, 4)?,
            found: Found::from_code(word(bytes, 8)?)?,
            duration_ns: long(bytes, 16)?,
            address: long(bytes, 24)?,
            pc: long(bytes, 32)?,
            sp: long(bytes, 40)?,
            fp: long(bytes, 48)?,
            lr: long(bytes, 56)?,
        })
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// All but the stack.
    pub head: SampleHead,
    /// The stack from the stack pointer on, as far as there was room.
    pub stack: &'a [u8],
}

impl Sample<'_> {
    /// The eight bytes at an address of the stack.
    pub fn stack_word(&self, address: u64) -> Option<u64> {
        long(self.stack, usize::try_from(address.checked_sub(self.head.sp)?).ok()?)
    }
}

/// A file of samples. Whatever its bytes are, reading them is no harm.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> Samples<'a> {
    /// The samples in `bytes`; `None` if that is no such file.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (layout, _) = Layout::of(bytes)?;
        (bytes.len() >= layout.slot_at(0)).then_some(Self { bytes, layout })
    }

    /// Faults of which these are samples.
    pub fn faults(&self) -> u64 {
        long(self.bytes, FAULTS_AT).unwrap_or(0)
    }

    /// Programs that have begun to take samples.
    pub fn programs(&self) -> u32 {
        word(self.bytes, PROGRAMS_AT).unwrap_or(0)
    }

    /// Lines of executable memory.
    pub fn modules(&self) -> &'a [u8] {
        let used = long(self.bytes, MODULES_USED_AT).unwrap_or(0).min(MODULES_BYTES as u64) as usize;
        &self.bytes[self.layout.modules_at()..][..used]
    }

    /// The samples that are whole.
    pub fn iter(&self) -> impl Iterator<Item = Sample<'a>> + use<'a> {
        let samples = *self;
        (0..self.layout.slots()).filter_map(move |slot| samples.sample(slot))
    }

    fn sample(&self, slot: u32) -> Option<Sample<'a>> {
        if word(self.bytes, self.layout.state_at(slot))? != FULL {
            return None;
        }
        let at = self.layout.slot_at(slot);
        let bytes = self.bytes.get(at..at + SLOT_BYTES)?;
        let (head, room) = bytes.split_at(SampleHead::BYTES);
        let len = word(head, SampleHead::STACK_BYTES_AT)? as usize;
        Some(Sample { head: SampleHead::decode(head)?, stack: room.get(..len)? })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: SampleHead = SampleHead {
        process: 1,
        thread: 2,
        found: Found::Zeros,
        duration_ns: 3,
        address: 4,
        pc: 5,
        sp: 6000,
        fp: 7,
        lr: 8,
    };

    fn file() -> Vec<u8> {
        let layout = Layout::new(0);
        let mut file = vec![0; layout.file_bytes()];
        file[..24].copy_from_slice(&layout.head(9));
        let at = layout.slot_at(63);
        file[at..][..SampleHead::BYTES].copy_from_slice(&HEAD.encode());
        file[at + SampleHead::STACK_BYTES_AT] = 17;
        file[at + SampleHead::BYTES..][..17].fill(1);
        file[layout.state_at(63)] = FULL as u8;
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = file();
        assert_eq!(Layout::of(&file), Some((Layout::new(SLOTS_MIN), 9)));
        let samples: Vec<_> = Samples::parse(&file).expect("it is one").iter().collect();
        assert_eq!(samples, [Sample { head: HEAD, stack: &[1; 17] }]);
        let at = |address| samples[0].stack_word(address);
        assert_eq!((at(5999), at(6009), at(6010)), (None, Some(0x0101_0101_0101_0101), None));
        assert_eq!(at(u64::MAX), None);
    }

    #[test]
    fn a_slot_that_is_being_written_is_no_sample() {
        let mut file = file();
        file[Layout::new(0).state_at(63)] = WRITING as u8;
        assert_eq!(Samples::parse(&file).expect("it is one").iter().count(), 0);
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut file = file();
        file[MODULES_USED_AT..][..8].fill(0xFF);
        let at = Layout::new(0).slot_at(63) + SampleHead::STACK_BYTES_AT;
        file[at..][..4].fill(0xFF);
        let samples = Samples::parse(&file).expect("it is one");
        assert_eq!((samples.modules().len(), samples.iter().count()), (MODULES_BYTES, 0));
        assert!(Samples::parse(&file[..Layout::new(0).slot_at(0) - 1]).is_none());
    }

    #[test]
    fn codes_are_positions() {
        for (position, found) in (0..).zip(Found::ALL) {
            assert_eq!((found.code(), Found::from_code(position)), (position, Some(found)));
        }
        assert_eq!(Found::from_code(5), None);
    }
}
