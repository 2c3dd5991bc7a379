//! `aquifer doctor`: how a program would run here, and what would be better.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use aquifer::device::{FileDevice, OpenError, Site, try_ring};
use aquifer::group::{Groups, Room, machine};
use aquifer::units::format_size;
use aquifer::{Faults, Options};
use aquifer_sys::process;
use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::arguments::MemoryArguments;
use crate::error::{Error, printable};
use crate::version::{Part, kernel_release, libraries, memory, table};
use crate::{limit, remedy};

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer doctor                                 how aquifer run would work here
  aquifer doctor --ram auto --flash /nvme        with these options
  aquifer doctor --json | jq -r '.parts[] | select(.is_ready | not) | .remedy'

What could be better has a line with what makes it so.

Exit status: 0 if programs can be run so, 1 if they cannot.";

/// Open files that a heap needs beside those of the program.
const FILES_MIN: u64 = 64;
/// What is told as enough for both.
const FILES_ENOUGH: u64 = 1024;
/// Mappings below which many absent pages get a coarser grain.
const MAPPINGS_MIN: usize = 65_530;

/// Arguments of `aquifer doctor`.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// As `aquifer run` takes it.
    #[command(flatten)]
    pub memory: MemoryArguments,
    /// One line of JSON in place of the table
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    can_run: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    parts: Vec<Part>,
}

impl Report {
    fn of(arguments: &MemoryArguments) -> Self {
        let refusal = arguments.check(arguments.options());
        let refusal = refusal.and_then(|()| crate::library::find(crate::library::PRELOAD)).err();
        let mut parts = parts(arguments);
        if let Some(Error::Machine { error }) = &refusal {
            tell_of(error, &mut parts);
        }
        Self {
            version: aquifer::VERSION,
            can_run: refusal.is_none(),
            refusal: refusal.map(|error| error.to_string()),
            parts,
        }
    }

    fn text(&self) -> String {
        let end = match &self.refusal {
            None => "aquifer run works here with these options.\n".into(),
            Some(why) => format!("aquifer run does not work here with these options: {}\n", printable(why)),
        };
        format!("{}\n{end}", table(&self.parts))
    }
}

/// Says how a program would run here.
///
/// # Errors
/// The output cannot be written.
pub fn doctor(arguments: &DoctorArguments) -> Result<ExitCode, Error> {
    let report = Report::of(&arguments.memory);
    let text = if arguments.json {
        serde_json::to_string(&report).map_err(io::Error::from)? + "\n"
    } else {
        report.text()
    };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::from(u8::from(!report.can_run))),
    }
}

/// What is refused is not ready, though it may be there. Sentences say what is wrong, and behind a semicolon what to do.
fn tell_of(error: &aquifer::Error, parts: &mut [Part]) {
    let Some(name) = remedy::part(error) else { return };
    let said = format!("{error}{}", remedy::behind(error));
    let (state, remedy) = said.split_once("; ").unwrap_or((&said, "other options"));
    for part in parts.iter_mut().filter(|part| part.name == name && part.is_ready) {
        *part = Part::missing(part.name, part.serves, state, remedy);
    }
}

/// The same in two lines, for who wants a report: how absent memory is noticed and flash is read, and what RAM and flash there are.
pub fn two_lines(arguments: &MemoryArguments) -> [String; 2] {
    let flash = arguments.options().flash_path_here().unwrap_or_default();
    let room = tightest().map_or_else(String::new, |(whose, room)| {
        format!(", {} of {} left in {whose}", format_size(room.left()), format_size(room.limit))
    });
    [
        format!(
            "absent memory is noticed by {}; flash is read and written by {}",
            faults(arguments),
            transfers()
        ),
        format!(
            "RAM {}{room}; flash {} in {}",
            format_size(arguments.ram),
            format_size(arguments.flash_bytes()),
            printable(&flash.display().to_string())
        ),
    ]
}

fn faults(arguments: &MemoryArguments) -> &'static str {
    match Options::new().faults(arguments.faults.into()).faults_here() {
        Faults::Signal => "userfaultfd, in the thread that touches it",
        Faults::Thread => "userfaultfd, by a thread of the library",
        Faults::Fence => "its protection (three times slower than userfaultfd)",
    }
}

fn transfers() -> &'static str {
    if try_ring().is_ok() { "io_uring" } else { "plain calls, those of a batch by eight threads" }
}

fn parts(arguments: &MemoryArguments) -> Vec<Part> {
    let kernel = memory::parts(&kernel_release()).into_iter().filter(|part| part.name != "fault threads");
    let own =
        [budget(arguments, tightest()), flash(arguments), swap(), address_space(arguments), open_files()];
    let limits = own.into_iter().chain([mappings(arguments), own_calls()]);
    kernel.chain(limits).chain(libraries::parts().into_iter().take(1)).collect()
}

/// Whose RAM is the limit here.
fn tightest() -> Option<(&'static str, Room)> {
    let rooms = [("the memory cgroup", Groups::of_self().tightest()), ("the machine", machine())];
    let known = rooms.into_iter().filter_map(|(whose, room)| Some((whose, room?)));
    known.min_by_key(|(_, room)| room.left())
}

fn budget(arguments: &MemoryArguments, tightest: Option<(&str, Room)>) -> Part {
    let (name, serves) = ("RAM", "what else runs here");
    let Some((whose, room)) = tightest else {
        return Part::ready(name, serves, "the system does not tell how much there is");
    };
    let left = format!("{} of {} are left in {whose}", format_size(room.left()), format_size(room.limit));
    let (ram, auto) = (format_size(arguments.ram), limit::from(room));
    match auto {
        Err(why) => Part::missing(
            name,
            serves,
            why,
            "a higher limit: `docker run --memory 1g`, or MemoryMax of systemd",
        ),
        // What is left changes while this runs.
        Ok(auto) if arguments.ram <= auto + auto / 16 => {
            Part::ready(name, serves, format!("{left}; --ram is {ram}, auto would be {}", format_size(auto)))
        }
        Ok(auto) => {
            let remedy = format!("`aquifer run --ram auto`, which is {} now", format_size(auto));
            Part::missing(name, serves, format!("{left}, and --ram is {ram}"), remedy)
        }
    }
}

fn flash(arguments: &MemoryArguments) -> Part {
    let (name, serves) = ("flash", "memory beyond RAM");
    let path = arguments.options().flash_path_here().unwrap_or_default();
    let wanted = arguments.flash_bytes();
    flash_at(&path, wanted, FileDevice::look(&path).map_err(|error| error.to_string()))
        .unwrap_or_else(|(state, remedy)| Part::missing(name, serves, state, remedy))
}

fn flash_at(path: &Path, wanted: u64, found: Result<Site, String>) -> Result<Part, (String, String)> {
    let elsewhere = || "`--flash DIR`, with a directory on a disk".to_owned();
    let site = found.map_err(|error| (error, elsewhere()))?;
    let (at, free) = (path.display(), format_size(site.available_bytes));
    if site.available_bytes < wanted {
        let state = format!("{} are wanted in {at}, where {free} are free", format_size(wanted));
        let smaller = remedy::option(
            &OpenError::NoSpace { path: path.into(), wanted, available: site.available_bytes }.into(),
        );
        let smaller = smaller.map_or_else(String::new, |option| format!("`{option}`, or "));
        return Err((state, format!("{smaller}another `--flash`")));
    }
    if site.is_memory {
        return Err((
            format!("{at} is memory itself: what goes there takes the RAM that it is to free"),
            elsewhere(),
        ));
    }
    Ok(Part::ready(
        "flash",
        "memory beyond RAM",
        format!("{} in {at}, where {free} are free", format_size(wanted)),
    ))
}

fn swap() -> Part {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let state = match field("SwapTotal:") {
        None | Some(0) => "none is needed; without Aquifer, a program that exceeds the limit is ended".into(),
        Some(kib) => format!("{}, for what is not managed", format_size(kib << 10)),
    };
    Part::ready("swap", "what is not managed", state)
}

fn address_space(arguments: &MemoryArguments) -> Part {
    let (name, serves) = ("address space", "all of the flash");
    match process::address_space_left() {
        None => Part::ready(name, serves, "no limit (ulimit -v)"),
        Some(left) if left / 2 >= 2 * arguments.flash_bytes() => {
            Part::ready(name, serves, format!("{} are left (ulimit -v)", format_size(left)))
        }
        Some(left) => Part::missing(
            name,
            serves,
            format!(
                "of the {} that ulimit -v leaves, managed memory takes a half at most",
                format_size(left)
            ),
            match getrlimit(Resource::As).maximum {
                None => "`ulimit -v unlimited`",
                Some(_) => "a higher limit of the batch system or the login: this user may not raise it",
            },
        ),
    }
}

fn open_files() -> Part {
    let (name, serves) = ("open files", "the heap's own files");
    let limit = getrlimit(Resource::Nofile);
    let Some(most) = limit.current else { return Part::ready(name, serves, "no limit (ulimit -n)") };
    let state = format!("{most} at a time (ulimit -n)");
    if most >= FILES_MIN {
        return Part::ready(name, serves, state);
    }
    let remedy = match limit.maximum {
        Some(hard) if hard < FILES_ENOUGH => {
            "a higher limit: `docker run --ulimit nofile=1024`, or LimitNOFILE of systemd".into()
        }
        _ => format!("`ulimit -n {FILES_ENOUGH}`"),
    };
    Part::missing(name, serves, state, remedy)
}

fn mappings(arguments: &MemoryArguments) -> Part {
    let (name, serves) = ("mappings", "pages noticed by protection one by one");
    let most = process::mappings_max();
    let is_fenced = Options::new().faults(arguments.faults.into()).faults_here() == Faults::Fence;
    let state = format!("{most} at a time (vm.max_map_count)");
    if is_fenced && most < MAPPINGS_MIN {
        return Part::missing(name, serves, state, format!("`sysctl vm.max_map_count={}`", 4 * MAPPINGS_MIN));
    }
    Part::ready(name, serves, state)
}

fn own_calls() -> Part {
    let (name, serves) = ("own calls", "system calls by instructions of a program's own");
    if cfg!(target_arch = "x86_64") {
        return Part::ready(name, serves, "they find their buffers, as those of the C library do");
    }
    let state = "the kernel reports them on x86-64 alone: they may fail with EFAULT";
    Part::missing(name, serves, state, "`aquifer run --faults thread`, if the system allows it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        doctor: DoctorArguments,
    }

    fn memory(line: &str) -> MemoryArguments {
        Line::parse_from(line.split(' ')).doctor.memory
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_budget_is_held_against_what_is_left() {
        let room = Room { limit: 512 * MIB, used: 64 * MIB };
        let part = |line, used| budget(&memory(line), Some(("the group", Room { used, ..room })));
        let fits = part("doctor --ram 128M", 64 * MIB);
        assert!(fits.is_ready && fits.state.contains("448 MiB of 512 MiB are left in the group"), "{fits:?}");
        assert!(fits.state.contains("auto would be 392 MiB"), "{fits:?}");
        let large = part("doctor --ram 1G", 64 * MIB);
        assert!(large.remedy.is_some_and(|remedy| remedy.contains("392 MiB")));
        assert!(part("doctor --ram 8M", 511 * MIB).remedy.is_some_and(|remedy| remedy.contains("docker")));
        assert!(budget(&memory("doctor"), None).is_ready);
    }

    #[test]
    fn flash_is_on_a_disk_and_has_room() {
        let at = |available_bytes, is_memory| {
            flash_at(Path::new("/there"), 100 * MIB, Ok(Site { available_bytes, is_memory, is_shared: true }))
        };
        assert!(
            at(200 * MIB, false).is_ok_and(|part| part.is_ready && part.state.contains("200 MiB are free"))
        );
        assert!(at(200 * MIB, true).is_err_and(|(state, _)| state.contains("memory itself")));
        assert!(at(50 * MIB, false).is_err_and(|(_, remedy)| remedy.contains("--flash-size")));
        assert!(
            flash_at(Path::new("/there"), MIB, Err("why".into())).is_err_and(|(state, _)| state == "why")
        );
    }

    /// What it says is what `aquifer run` does.
    #[test]
    fn this_machine_can_run_programs_or_cannot() {
        let report = Report::of(&memory("doctor --ram 64M"));
        assert_eq!(report.can_run, report.refusal.is_none());
        let names: std::collections::BTreeSet<&str> = report.parts.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), report.parts.len());
        for part in &report.parts {
            assert_eq!(part.is_ready, part.remedy.is_none(), "{part:?}");
        }
        let [how, what] = two_lines(&memory("doctor --ram 64M --flash /nowhere"));
        assert!(
            how.contains("noticed by") && what.contains("64 MiB") && what.contains("/nowhere"),
            "{how} {what}"
        );
    }
}
