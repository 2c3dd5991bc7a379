//! Devices of processes that were killed: nobody serves them, and their numbers are taken.

use std::fs;
use std::path::Path;
use std::process;

use super::abi::{DeviceInfo, STATE_DEAD};
use super::control::Control;

/// The upper half of a mark says that a device is ours, the lower half whose it is.
const OURS: u64 = 0x4151_4649 << 32;

/// What a device of this process is marked with.
pub fn mark() -> u64 {
    OURS | u64::from(process::id())
}

/// Takes away what processes of ours have left. Others' devices are not touched, and failures are not ours to tell: there are more numbers.
pub fn clear(control: &mut Control) {
    let Ok(entries) = fs::read_dir("/dev") else { return };
    let number = |name: &str| name.strip_prefix("ublkc").and_then(|digits| digits.parse::<u32>().ok());
    let ids = entries.flatten().filter_map(|entry| number(&entry.file_name().to_string_lossy()));
    for id in ids {
        if control.info(id).is_ok_and(|info| is_left(&info, is_alive)) {
            // Somebody may have it open, and is not waited for.
            let _ = control.delete_at_once(id);
        }
    }
}

/// Whether no process will ever serve the device: one of ours made it and is gone. A device that is just
/// being made is not served either, but its maker lives.
fn is_left(info: &DeviceInfo, is_alive: impl Fn(u32) -> bool) -> bool {
    let is_ours = info.mark & (u64::from(u32::MAX) << 32) == OURS;
    is_ours && info.state == STATE_DEAD && !is_alive(info.mark as u32)
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_dead_is_left() {
        let info = |mark, state| DeviceInfo { mark, state, ..DeviceInfo::default() };
        assert!(is_left(&info(OURS | 7, STATE_DEAD), |_| false));
        assert!(!is_left(&info(OURS | 7, STATE_DEAD), |process| process == 7));
        assert!(!is_left(&info(OURS | 7, 1), |_| false));
        assert!(!is_left(&info(7, STATE_DEAD), |_| false));
        assert!(is_alive(process::id()));
        assert!(!is_left(&info(mark(), STATE_DEAD), is_alive));
    }
}
