//! A memory-limit control group for one peer, version 1 or 2, made and removed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::controller::{Controller, Version};
use crate::device::Device;
use crate::disk_limit::{self, DiskLimit};
use crate::error::{Error, Result};
use crate::group_dir::GroupDir;

pub use crate::group_dir::join;

const LIMIT_V1: &str = "memory.limit_in_bytes";
/// Of version 1.
const OUT_OF_MEMORY: &str = "memory.oom_control";
const NUDGE_BYTES: u64 = 4096;

/// A group with a limit; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    dir: GroupDir,
    /// In version 1, where it is a group of its own.
    disk: Option<DiskLimit>,
}

impl Cgroup {
    /// Makes a group for `peer` whose processes, with their page cache and kernel memory, get
    /// `limit_bytes`; only with `swap` may they be swapped out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the controller, or the right to use it.
    pub fn create(peer: &str, limit_bytes: u64, swap: bool) -> Result<Self> {
        let group = Self { dir: GroupDir::make(Controller::Memory, peer)?, disk: None };
        group.limit(limit_bytes, swap)?;
        Ok(group)
    }

    /// Lets its processes, those that join from now on, do at most `iops` reads and as many writes of `device` a second.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: the controller, or the right to use it.
    pub fn limit_disk(&mut self, peer: &str, device: &Device, iops: u64) -> Result<()> {
        match self.dir.version() {
            Version::V1 => self.disk = Some(DiskLimit::create(peer, device, iops)?),
            Version::V2 => disk_limit::set_in_memory_group(&self.dir, device, iops)?,
        }
        Ok(())
    }

    /// The group's directory, to be given to [`join`] in the process that is to be limited.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Bytes that are charged to the group now: its processes, page cache and kernel memory.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`].
    pub fn used_bytes(&self) -> Result<u64> {
        used_bytes_of(self.dir.path(), self.dir.version())
    }

    /// Lets processes that find no memory wait instead of being killed: the kernel gives up too early when all pages are just being written to a swap
    /// area. [`Cgroup::nudge`] wakes the processes that wait. Version 2 cannot do it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait_for_memory(&self) -> Result<()> {
        let path = self.dir.path().join(OUT_OF_MEMORY);
        match self.dir.version() {
            Version::V1 => fs::write(&path, "1").map_err(Error::io("writing", &path)),
            Version::V2 => Ok(()),
        }
    }

    /// Wakes processes that wait for memory: they look for it again. To be called every few milliseconds.
    pub fn nudge(&self) {
        let waits = |state: String| state.lines().any(|line| line == "under_oom 1");
        if self.dir.version() == Version::V2
            || !fs::read_to_string(self.dir.path().join(OUT_OF_MEMORY)).is_ok_and(waits)
        {
            return;
        }
        let path = self.dir.path().join(LIMIT_V1);
        let Some(limit) = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok())
        else {
            return;
        };
        // A limit that grows wakes them. It cannot shrink while they hold more, and is no larger than a page the next time.
        for limit in [limit + NUDGE_BYTES, limit] {
            if fs::write(&path, limit.to_string()).is_err() {
                return;
            }
        }
    }

    /// Arranges that `command` joins the group before its program starts.
    pub fn joined_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if let Some(disk) = &self.disk {
            disk.joined_by(command);
        }
        self.dir.joined_by(command)
    }

    fn limit(&self, limit_bytes: u64, swap: bool) -> Result<()> {
        let set = |file: &str, value: &str| self.dir.set(file, value);
        let limit = limit_bytes.to_string();
        match self.dir.version() {
            Version::V1 => {
                set(LIMIT_V1, &limit)?;
                if swap { Ok(()) } else { set("memory.swappiness", "0") }
            }
            Version::V2 => {
                set("memory.max", &limit)?;
                // The file only exists in kernels with swap.
                let path = self.path().join("memory.swap.max");
                if path.exists() { set("memory.swap.max", if swap { "max" } else { "0" }) } else { Ok(()) }
            }
        }
    }
}

/// Bytes that are charged to the calling process's own group now.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`]; [`Error::Unavailable`] without the controller.
pub fn own_used_bytes() -> Result<u64> {
    let (version, groups) = Controller::Memory.parents()?;
    let own = groups.first().ok_or_else(|| Error::Unavailable("this process has no cgroup".to_owned()))?;
    used_bytes_of(own, version)
}

fn used_bytes_of(group: &Path, version: Version) -> Result<u64> {
    let path = group.join(match version {
        Version::V1 => "memory.usage_in_bytes",
        Version::V2 => "memory.current",
    });
    let text = fs::read_to_string(&path).map_err(Error::io("reading", &path))?;
    text.trim().parse().map_err(|_| Error::Input(format!("{} holds no number", path.display())))
}
