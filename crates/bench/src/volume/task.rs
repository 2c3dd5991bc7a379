//! What a child is to do.

use serde::{Deserialize, Serialize};

use super::kv::task::{self as kv, KvTask};
use super::oltp::task::{self as oltp, FillTask, OltpTask};
use super::pagerank::task::{self as pagerank, PagerankTask};
use super::reads::task::{self as reads, ReadsTask};
use super::updates::task::{self as updates, UpdatesTask};
use crate::child::{Event, Parent};
use crate::error::Result;
use crate::machine::Context;
use crate::sample::Record;

/// The kinds of children.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum VolumeTask {
    /// Read for a while.
    Reads(ReadsTask),
    /// Update for a while.
    Updates(UpdatesTask),
    /// Some iterations over a graph.
    Pagerank(PagerankTask),
    /// One load of YCSB for a while.
    Kv(KvTask),
    /// Fill a database.
    OltpFill(FillTask),
    /// Transactions on it for a while.
    Oltp(OltpTask),
}

/// The child.
///
/// # Errors
/// Those of the task.
pub fn work(task: &VolumeTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let record = match task {
        VolumeTask::Reads(task) => Record::VolumeReads(Box::new(reads::work(task, context)?)),
        VolumeTask::Updates(task) => Record::VolumeUpdates(Box::new(updates::work(task, context)?)),
        VolumeTask::Pagerank(task) => {
            Record::VolumePagerank(Box::new(pagerank::work(task, context, parent)?))
        }
        VolumeTask::OltpFill(task) => return oltp::fill(task, parent),
        VolumeTask::Oltp(task) => Record::VolumeOltp(Box::new(oltp::work(task, context)?)),
        VolumeTask::Kv(task) => Record::VolumeKv(Box::new(kv::work(task, context)?)),
    };
    parent.tell(&Event::Record(Box::new(record)));
    Ok(())
}
