//! What is said when memory of this machine is swapped to this process, and a precaution is missing.

use std::thread;

use super::{Area, wait_for};
use crate::Report;
use crate::precautions::Omitted;

/// Stack of the thread that waits. Little, because a process whose memory is locked pays for all of it.
const STACK_BYTES: usize = 128 << 10;

/// Warns of precautions that could not be taken, once memory is swapped to `area`. Clients that are other machines, and file systems, need none of them.
pub fn warn_when_swapped(omitted: Vec<Omitted>, area: Area, report: Report) {
    if omitted.is_empty() {
        return;
    }
    let wait = move || {
        // A process that may not read the kernel's list has no swap areas of its own.
        if let Ok(name) = wait_for(&area) {
            report(&format!(
                "warning: memory of this machine is swapped to {}, and can hang it:",
                name.display()
            ));
            omitted.iter().for_each(|precaution| report(&format!("warning: {precaution}")));
        }
    };
    let builder = thread::Builder::new().name("aq-block-swaps".into()).stack_size(STACK_BYTES);
    // Without the thread nobody is warned, and all is served.
    drop(builder.spawn(wait));
}
