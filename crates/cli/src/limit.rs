//! How much RAM there is for a program where it is started: what its memory cgroup, or the machine, has left. For `--ram auto`.

use aquifer::group::{Groups, Room, machine};
use aquifer_base::limits::RAM_BYTES_MIN;
use aquifer_base::units::format_size;

/// Margin that stays free: one part in `MARGIN_PART` of the RAM that is left, `MARGIN_BYTES_MIN` at least. It
/// holds page tables that the kernel frees late, the kernel's own memory and the page cache.
const MARGIN_PART: u64 = 8;
const MARGIN_BYTES_MIN: u64 = 16 << 20;

/// The RAM budget for a program that is started here.
///
/// # Errors
/// A sentence: there is too little, or the system does not tell.
pub fn budget() -> Result<u64, String> {
    let rooms = [Groups::of_self().tightest(), machine()];
    let least = rooms.into_iter().flatten().min_by_key(|room| room.left());
    let room = least.ok_or("the system does not tell how much RAM there is; say it, as --ram 1G does")?;
    from(room)
}

/// The same of this room.
///
/// # Errors
/// There is too little.
pub fn from(room: Room) -> Result<u64, String> {
    let left = room.left();
    let budget = left.saturating_sub((left / MARGIN_PART).max(MARGIN_BYTES_MIN));
    if budget < RAM_BYTES_MIN {
        return Err(format!(
            "of {} of RAM {} are in use, which leaves too little; raise the limit (docker run --memory, MemoryMax of systemd), or end what uses it",
            format_size(room.limit),
            format_size(room.used)
        ));
    }
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_margin_stays_free() {
        let budget = |left| from(Room { limit: 4096 * MIB, used: 4096 * MIB - left });
        assert_eq!(budget(512 * MIB), Ok(448 * MIB));
        assert_eq!(budget(64 * MIB), Ok(48 * MIB));
        assert!(budget(20 * MIB).unwrap_err().contains("4 GiB of RAM"));
    }
}
