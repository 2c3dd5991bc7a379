//! All sizes in turn, and again.

use super::options::RecoveryOptions;
use super::task::RecoveryTask;
use crate::child::Task;
use crate::durable::turns::Turns;
use crate::error::Result;

/// Measures all sizes and prints the table to standard output.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input), [`Error::Io`](crate::Error::Io), [`Error::Unavailable`](crate::Error::Unavailable) without
/// room. A sample that fails is recorded as skipped, which is the error when all others have run.
pub fn run(options: &RecoveryOptions) -> Result<()> {
    options.check()?;
    let fillings = options.fillings();
    let checkpoints = options.checkpoints();
    let kinds =
        fillings.iter().flat_map(|&filling| checkpoints.iter().map(move |&checkpoint| (filling, checkpoint)));
    let kinds: Vec<_> = kinds.collect();
    let samples = kinds.len() * options.object.len() * options.runs as usize;
    let mut turns = Turns::begin(&options.dir, options.out.as_deref(), samples as u64)?;
    turns.dir().check_room(options.capacity_bytes())?;
    for run in 1..=options.runs {
        for &(filling, checkpoint) in &kinds {
            for &object_bytes in &options.object {
                let task = RecoveryTask {
                    object_bytes,
                    filling,
                    checkpoint,
                    run,
                    log_bytes: options.log,
                    utilisation_percent: options.utilisation,
                    capacity_bytes: options.capacity_bytes(),
                    dir: turns.path(),
                };
                let what = format!("{object_bytes} bytes, {filling}, checkpoint: {checkpoint}");
                turns.take(&what, &format!("run {run}"), Task::Recovery(task))?;
            }
        }
    }
    turns.end()
}
