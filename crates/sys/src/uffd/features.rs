//! What a userfaultfd can do beyond the minimum.

use core::fmt;
use core::ops::BitOr;

/// A set of userfaultfd features.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub u64);

impl Features {
    /// No feature.
    pub const NONE: Features = Features(0);
    /// Messages tell faults on write-protected pages from others.
    pub const PAGEFAULT_FLAG_WP: Features = Features(1 << 0);
    /// A message for each fork; needs privilege.
    pub const EVENT_FORK: Features = Features(1 << 1);
    /// A message when a range is moved by `mremap`.
    pub const EVENT_REMAP: Features = Features(1 << 2);
    /// A message when pages are discarded.
    pub const EVENT_REMOVE: Features = Features(1 << 3);
    /// Absent pages of shared memory raise faults.
    pub const MISSING_SHMEM: Features = Features(1 << 5);
    /// A message when a range is unmapped.
    pub const EVENT_UNMAP: Features = Features(1 << 6);
    /// SIGBUS for the faulting thread instead of a message.
    pub const SIGBUS: Features = Features(1 << 7);
    /// Messages name the faulting thread.
    pub const THREAD_ID: Features = Features(1 << 8);
    /// Pages of shared memory that are there and not mapped raise faults. Linux 5.14.
    pub const MINOR_SHMEM: Features = Features(1 << 10);
    /// Addresses are exact, not rounded down to the page.
    pub const EXACT_ADDRESS: Features = Features(1 << 11);
    /// Shared memory can be write-protected. Linux 5.19.
    pub const WP_SHMEM: Features = Features(1 << 12);
    /// Write-protecting absent anonymous pages has an effect. Linux 6.4.
    pub const WP_UNPOPULATED: Features = Features(1 << 13);
    /// Pages can be poisoned. Linux 6.6.
    pub const POISON: Features = Features(1 << 14);
    /// The kernel resolves write-protection faults itself and remembers them. Linux 6.7.
    pub const WP_ASYNC: Features = Features(1 << 15);
    /// Pages can be moved. Linux 6.8.
    pub const MOVE: Features = Features(1 << 16);

    const NAMES: [(Features, &'static str); 15] = [
        (Features::PAGEFAULT_FLAG_WP, "PAGEFAULT_FLAG_WP"),
        (Features::EVENT_FORK, "EVENT_FORK"),
        (Features::EVENT_REMAP, "EVENT_REMAP"),
        (Features::EVENT_REMOVE, "EVENT_REMOVE"),
        (Features::MISSING_SHMEM, "MISSING_SHMEM"),
        (Features::EVENT_UNMAP, "EVENT_UNMAP"),
        (Features::SIGBUS, "SIGBUS"),
        (Features::THREAD_ID, "THREAD_ID"),
        (Features::MINOR_SHMEM, "MINOR_SHMEM"),
        (Features::EXACT_ADDRESS, "EXACT_ADDRESS"),
        (Features::WP_SHMEM, "WP_SHMEM"),
        (Features::WP_UNPOPULATED, "WP_UNPOPULATED"),
        (Features::POISON, "POISON"),
        (Features::WP_ASYNC, "WP_ASYNC"),
        (Features::MOVE, "MOVE"),
    ];

    /// Whether every feature of `other` is in the set.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({:#x}", self.0)?;
        for (_, name) in Features::NAMES.iter().filter(|(feature, _)| self.contains(*feature)) {
            write!(f, " {name}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_combine_and_print() {
        let both = Features::SIGBUS | Features::MOVE;
        assert!(both.contains(Features::MOVE) && both.contains(both) && both.contains(Features::NONE));
        assert!(!Features::MOVE.contains(both));
        assert_eq!(format!("{both:?}"), "Features(0x10080 SIGBUS MOVE)");
    }
}
