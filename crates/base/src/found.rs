//! What a fault found.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions() {
        for (position, found) in (0..).zip(Found::ALL) {
            assert_eq!((found.code(), Found::from_code(position)), (position, Some(found)));
        }
        assert_eq!(Found::from_code(5), None);
    }
}
