//! What a translation layer has done.

/// Since it was made or opened. Pages unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtlCounters {
    /// Programmed for the host.
    pub host_programs: u64,
    /// Programmed because their block was cleaned or retired.
    pub cleaning_programs: u64,
    /// Programmed because their block had few erases.
    pub leveling_programs: u64,
    /// Programmed for the bitmap of trimmed pages.
    pub metadata_programs: u64,
    /// Programs that failed and were repeated elsewhere.
    pub failed_programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Read for the host.
    pub host_reads: u64,
    /// Read to be moved.
    pub cleaning_reads: u64,
    /// Trimmed that held something.
    pub trims: u64,
    /// Blocks that went bad.
    pub retired_blocks: u64,
    /// Whose bytes could not be read when they were moved.
    pub lost_pages: u64,
}

impl FtlCounters {
    /// All programs.
    #[must_use]
    pub fn programs(&self) -> u64 {
        self.host_programs
            + self.cleaning_programs
            + self.leveling_programs
            + self.metadata_programs
            + self.failed_programs
    }

    /// All programs by those of the host; 1 before there were any.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_programs == 0 { 1.0 } else { self.programs() as f64 / self.host_programs as f64 }
    }

    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        FtlCounters {
            host_programs: self.host_programs - earlier.host_programs,
            cleaning_programs: self.cleaning_programs - earlier.cleaning_programs,
            leveling_programs: self.leveling_programs - earlier.leveling_programs,
            metadata_programs: self.metadata_programs - earlier.metadata_programs,
            failed_programs: self.failed_programs - earlier.failed_programs,
            erases: self.erases - earlier.erases,
            host_reads: self.host_reads - earlier.host_reads,
            cleaning_reads: self.cleaning_reads - earlier.cleaning_reads,
            trims: self.trims - earlier.trims,
            retired_blocks: self.retired_blocks - earlier.retired_blocks,
            lost_pages: self.lost_pages - earlier.lost_pages,
        }
    }
}
