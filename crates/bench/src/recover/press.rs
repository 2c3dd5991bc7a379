//! A shortage of RAM on a donor's machine, from its begin until the donor has given back what it has.

use std::process::Command;
use std::thread;

use aquifer_base::units::format_size;
use serde::{Deserialize, Serialize};

use super::failing::GIVE_BACK_MAX;
use super::program::{COMMAND, say};
use crate::donors::{SLAB_BYTES, Slabs};
use crate::error::{Error, Result};
use crate::machine::available_ram_bytes;
use crate::peer::mapping::Mapping;
use crate::process::{Memory, monotonic_ns};
use crate::service::Service;
use crate::spawn::dies_with_parent;

/// Taken beyond what the donor has, so that it needs all of it back whatever else goes on here, and does not lend it again.
const MARGIN_BYTES: u64 = 256 << 20;
/// What the donor's other memory may have grown by when all its slabs are free.
const TOLERANCE_BYTES: u64 = SLAB_BYTES / 2;

/// What a donor did about it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pressed {
    /// What the other program took: more than was available above the donor's headroom.
    pub taken_bytes: u64,
    /// Seconds that it took for that.
    pub taken_s: f64,
    /// What the donor had to give back: all its slabs, those that nobody had with them.
    pub needed_bytes: u64,
    /// Bytes by which its resident memory had fallen at the end of `returned_s`.
    pub returned_bytes: u64,
    /// From when the other program had all until the donor had given back; 0 if that was before.
    pub returned_s: f64,
    /// Slabs that the donor took by ending the borrower's connection.
    pub forced_slabs: u64,
}

/// The program that takes it, and the donor that is looked at.
#[derive(Debug)]
pub struct Press {
    program: Service,
    donor_pid: u32,
    before_bytes: u64,
    taken_bytes: u64,
    needed_bytes: u64,
    held: Option<Held>,
    returned: Option<Returned>,
}

#[derive(Clone, Copy, Debug)]
struct Returned {
    at_ns: u64,
    bytes: u64,
}

impl Press {
    /// Lets a program take RAM until the donor `donor_pid`, which keeps `headroom_bytes` free, needs back all its `slabs`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the slabs are not in RAM; [`Error::Io`].
    pub fn begin(donor_pid: u32, slabs: Slabs, headroom_bytes: u64) -> Result<Self> {
        let needed_bytes = slabs.all * SLAB_BYTES;
        let before_bytes = Memory::of(donor_pid)?.rss_bytes;
        if before_bytes < needed_bytes {
            let has = format_size(before_bytes);
            let what = format!("the donor has {} slabs, and only {has} in RAM", slabs.all);
            return Err(Error::Unavailable(what));
        }
        let above_bytes = available_ram_bytes().saturating_sub(headroom_bytes);
        let taken_bytes = above_bytes + needed_bytes + MARGIN_BYTES;
        let own = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
        let mut command = Command::new(own);
        command.args([COMMAND, "hold", &taken_bytes.to_string()]);
        dies_with_parent(&mut command);
        let program = Service::start("program that takes RAM", command)?;
        Ok(Self { program, donor_pid, before_bytes, taken_bytes, needed_bytes, held: None, returned: None })
    }

    /// Looks whether the RAM is taken, and whether it is back.
    pub fn look(&mut self) {
        if self.held.is_none() {
            self.held = self.program.last_of(|line| serde_json::from_str(line).ok());
        }
        if self.returned.is_some() {
            return;
        }
        // A donor that has died gives nothing back, and its end is told elsewhere.
        let Ok(now) = Memory::of(self.donor_pid) else { return };
        let bytes = self.before_bytes.saturating_sub(now.rss_bytes);
        if bytes + TOLERANCE_BYTES >= self.needed_bytes {
            self.returned = Some(Returned { at_ns: monotonic_ns(), bytes });
        }
    }

    /// What was seen. The memory is given up.
    ///
    /// # Errors
    /// [`Error::Child`] if it was not taken, or not given back in time.
    pub fn end(self, forced_slabs: u64) -> Result<Pressed> {
        let Self { program, taken_bytes, needed_bytes, held, returned, .. } = self;
        let Some(held) = held else {
            let taken = format_size(taken_bytes);
            let what = format!("had not yet taken {taken} when the program that is measured ended");
            // Its last words say more, if it has died.
            if program.has_ended() {
                program.finish()?;
            }
            return Err(Error::Child { peer: "memory-taking".to_owned(), what });
        };
        let returned_s = |at_ns: u64| at_ns.saturating_sub(held.end_ns) as f64 / 1e9;
        let in_time = returned.filter(|returned| returned_s(returned.at_ns) <= GIVE_BACK_MAX.as_secs_f64());
        let Some(Returned { at_ns, bytes }) = in_time else {
            let (needed, limit) = (format_size(needed_bytes), GIVE_BACK_MAX.as_secs());
            let what = format!("has not given back its {needed} of RAM {limit} s after programs needed it");
            return Err(Error::Child { peer: "donor".to_owned(), what });
        };
        Ok(Pressed {
            taken_bytes,
            taken_s: (held.end_ns - held.begin_ns) as f64 / 1e9,
            needed_bytes,
            returned_bytes: bytes,
            returned_s: returned_s(at_ns),
            forced_slabs,
        })
    }
}

/// What the program that takes RAM says when it has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Before the first page, by the clock that all processes share.
    pub begin_ns: u64,
    /// After the last one.
    pub end_ns: u64,
}

/// Takes `bytes` of RAM, and holds them until the process is ended from outside.
///
/// # Errors
/// [`crate::Error::Io`] if the kernel does not give them, or nobody listens.
pub fn hold(bytes: u64) -> Result<()> {
    let begin_ns = monotonic_ns();
    let mapping = Mapping::anonymous(bytes as usize)?;
    // As a write to each page would, in pages of the ordinary size.
    mapping.advise(libc::MADV_POPULATE_WRITE)?;
    say(&Held { begin_ns, end_ns: monotonic_ns() })?;
    loop {
        thread::park();
    }
}
