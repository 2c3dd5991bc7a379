//! How long things take, and who waits for whom.

use super::schedule::Schedule;
use super::{BlockId, Geometry};

/// Times of one operation. All zero: everything happens at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// From the array to the die's register.
    pub read_ns: u64,
    /// From the die's register to the array.
    pub program_ns: u64,
    /// Of a block.
    pub erase_ns: u64,
    /// Bytes per second of each channel; 0 for a channel that takes no time.
    pub bus_bytes_per_s: u64,
}

impl Timing {
    /// Everything happens at once.
    pub const NONE: Timing = Timing { read_ns: 0, program_ns: 0, erase_ns: 0, bus_bytes_per_s: 0 };

    /// 40, 200 and 2000 us and 800 MB/s: the figures that other emulators begin with.
    pub const COMMON: Timing =
        Timing { read_ns: 40_000, program_ns: 200_000, erase_ns: 2_000_000, bus_bytes_per_s: 800_000_000 };

    /// How long `bytes` take on a channel.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u32) -> u64 {
        match self.bus_bytes_per_s {
            0 => 0,
            rate => (u64::from(bytes) * 1_000_000_000).div_ceil(rate),
        }
    }
}

/// Whether a read goes before what is planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Somebody waits for it: it does.
    Now,
    /// It is a part of some background work: it does not.
    InTurn,
}

/// When dies and channels are taken.
#[derive(Clone, Debug)]
pub(super) struct Clockwork {
    timing: Timing,
    transfer_ns: u64,
    geometry: Geometry,
    dies: Vec<Schedule>,
    channels: Vec<Schedule>,
    /// When the last program or erase of each block ends: the next begins after it.
    blocks_ready_ns: Vec<u64>,
    /// When the last program or erase of each die ends.
    changes_until_ns: Vec<u64>,
    /// When the last urgent read of each die ends.
    urgent_until_ns: Vec<u64>,
}

impl Clockwork {
    pub(super) fn new(geometry: Geometry, timing: Timing) -> Self {
        Clockwork {
            timing,
            transfer_ns: timing.transfer_ns(geometry.page_bytes),
            geometry,
            dies: vec![Schedule::default(); geometry.dies() as usize],
            channels: vec![Schedule::default(); geometry.channels as usize],
            blocks_ready_ns: vec![0; geometry.blocks() as usize],
            changes_until_ns: vec![0; geometry.dies() as usize],
            urgent_until_ns: vec![0; geometry.dies() as usize],
        }
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    /// When a die would have programmed a page, by what it has to do itself.
    pub(super) fn program_end_ns(&self, die: u32, at_ns: u64) -> u64 {
        self.dies[die as usize].end_of(at_ns, self.transfer_ns + self.timing.program_ns)
    }

    /// The array first, then the bus; the die's register is taken until the bus is done.
    ///
    /// An urgent read waits for urgent reads before it and, where programs or erases are planned, for one program. What it overtakes was told
    /// when it would end, and ends then; the time is taken from what comes after, so that the die does no more than it can.
    pub(super) fn read(&mut self, block: BlockId, urgency: Urgency, at_ns: u64) -> u64 {
        if self.timing == Timing::NONE {
            return at_ns;
        }
        let (die, channel) = self.resources(block);
        if urgency == Urgency::InTurn {
            let loaded_ns = self.dies[die].take(at_ns, self.timing.read_ns);
            let end_ns = self.channels[channel].take(loaded_ns, self.transfer_ns);
            self.dies[die].take_all(loaded_ns, end_ns);
            return end_ns;
        }
        let is_changing = at_ns < self.changes_until_ns[die];
        let begin_ns = if is_changing { at_ns + self.timing.program_ns } else { at_ns };
        let start_ns = begin_ns.max(self.urgent_until_ns[die]);
        let end_ns = self.channels[channel].take(start_ns + self.timing.read_ns, self.transfer_ns);
        self.urgent_until_ns[die] = end_ns;
        self.dies[die].take(start_ns, end_ns - start_ns);
        end_ns
    }

    /// The bus first, then the array; the die is taken all the time.
    pub(super) fn program(&mut self, block: BlockId, at_ns: u64) -> u64 {
        if self.timing == Timing::NONE {
            return at_ns;
        }
        let (die, channel) = self.resources(block);
        let start_ns = self.dies[die].free_from(at_ns.max(self.blocks_ready_ns[block.0 as usize]));
        let loaded_ns = self.channels[channel].take(start_ns, self.transfer_ns);
        self.dies[die].take_all(start_ns, loaded_ns);
        let end_ns = self.dies[die].take(loaded_ns, self.timing.program_ns);
        self.note_change(block, die, end_ns);
        end_ns
    }

    pub(super) fn erase(&mut self, block: BlockId, at_ns: u64) -> u64 {
        if self.timing == Timing::NONE {
            return at_ns;
        }
        let (die, _) = self.resources(block);
        let end_ns =
            self.dies[die].take(at_ns.max(self.blocks_ready_ns[block.0 as usize]), self.timing.erase_ns);
        self.note_change(block, die, end_ns);
        end_ns
    }

    /// Forgets what lies before `now_ns`: nothing will be asked for earlier than that.
    pub(super) fn forget_before(&mut self, now_ns: u64) {
        for schedule in self.dies.iter_mut().chain(&mut self.channels) {
            schedule.forget_before(now_ns);
        }
    }

    fn note_change(&mut self, block: BlockId, die: usize, end_ns: u64) {
        self.blocks_ready_ns[block.0 as usize] = end_ns;
        self.changes_until_ns[die] = self.changes_until_ns[die].max(end_ns);
    }

    fn resources(&self, block: BlockId) -> (usize, usize) {
        let die = self.geometry.die_of(block);
        (die as usize, self.geometry.channel_of(die) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { read_ns: 40, program_ns: 200, erase_ns: 1000, bus_bytes_per_s: 1_000_000_000_000 };

    /// Two dies on one channel; the transfer of a page takes 5 ns.
    fn clockwork() -> Clockwork {
        let geometry = Geometry { dies_per_channel: 2, ..Geometry::single_die(4, 8, 4096) };
        Clockwork::new(geometry, TIMING)
    }

    const DIE_0: BlockId = BlockId(0);
    const DIE_1: BlockId = BlockId(4);

    #[test]
    fn dies_work_side_by_side_and_share_the_bus() {
        let mut clockwork = clockwork();
        assert_eq!(clockwork.read(DIE_0, Urgency::InTurn, 0), 45);
        assert_eq!(
            clockwork.read(DIE_1, Urgency::InTurn, 0),
            50,
            "the array works beside the other, the bus does not"
        );
        assert_eq!(clockwork.read(DIE_0, Urgency::InTurn, 0), 90, "a die does one thing after the other");
        assert_eq!(clockwork.program(DIE_1, 0), 255);
        assert_eq!(clockwork.erase(DIE_0, 0), 1090);
    }

    #[test]
    fn gaps_are_used_in_pieces() {
        let mut clockwork = clockwork();
        clockwork.program(DIE_0, 1000);
        assert_eq!(clockwork.read(DIE_0, Urgency::InTurn, 0), 45, "before the program");
        assert_eq!(clockwork.program(DIE_0, 0), 1410, "programs of a block keep their order");
        assert_eq!(clockwork.program(BlockId(1), 900), 1515, "100 before the program, 105 after it");
        assert_eq!((clockwork.program_end_ns(0, 0), clockwork.program_end_ns(0, 1000)), (250, 1720));
    }

    #[test]
    fn urgent_reads_overtake_and_their_time_is_taken_from_what_comes() {
        let mut clockwork = clockwork();
        let urgent = |clockwork: &mut Clockwork, at_ns| clockwork.read(DIE_0, Urgency::Now, at_ns);
        assert_eq!(urgent(&mut clockwork, 0), 45, "an idle die reads at once");
        assert_eq!(urgent(&mut clockwork, 0), 90, "one after the other");
        for _ in 0..4 {
            clockwork.program(DIE_0, 0);
        }
        assert_eq!(clockwork.program_end_ns(0, 0), 90 + 5 * 205);
        assert_eq!(urgent(&mut clockwork, 100), 345, "after one program of four");
        assert_eq!(clockwork.program_end_ns(0, 0), 90 + 5 * 205 + 45);
    }
}
