//! Files that the kernel knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aquifer_volume::{Ino, Result, Volume};

/// How often the kernel was told of each file, less how often it forgot.
///
/// A file that the kernel knows is held, so that neither its bytes nor its number go away under a program that has it open, has it mapped or stands in
/// it. The kernel forgets a file when nobody uses it, so nothing else needs to be counted.
#[derive(Default)]
pub struct Lookups {
    counts: Mutex<HashMap<Ino, u64>>,
}

impl Lookups {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is told of a file, which the caller holds once for this.
    pub fn add(&self, volume: &Volume, ino: Ino) -> Result<()> {
        let is_known = {
            let mut counts = self.lock();
            let count = counts.entry(ino).or_insert(0);
            *count += 1;
            *count > 1
        };
        if is_known { volume.let_go(ino) } else { Ok(()) }
    }

    /// Subtracts `times` from the kernel's references to a file. With the last of them goes what else is known of the kernel: `forget` runs before it
    /// can be told of the file again.
    pub fn forget(&self, volume: &Volume, ino: Ino, times: u64, forget: impl FnOnce()) -> Result<()> {
        {
            let mut counts = self.lock();
            let Some(count) = counts.get_mut(&ino) else { return Ok(()) };
            *count = count.saturating_sub(times);
            if *count > 0 {
                return Ok(());
            }
            counts.remove(&ino);
            forget();
        }
        volume.let_go(ino)
    }

    /// The kernel is gone.
    pub fn forget_all(&self, volume: &Volume) -> Result<()> {
        let counts = std::mem::take(&mut *self.lock());
        counts.into_keys().try_for_each(|ino| volume.let_go(ino))
    }
}
