//! Where and when a measurement was made.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::device::Device;

/// Everything about the run that is not an option of the single sample.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Context {
    /// The command line, with the program's name instead of its path.
    pub command: String,
    /// Start of the run, UTC, as in `2026-05-04T03:02:01Z`.
    pub date: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Online processors.
    pub cpus: usize,
    /// Memory of the machine.
    pub machine_ram_bytes: u64,
    /// Disk that holds the files of the run.
    pub device: String,
    /// Its read-ahead setting; peers are told not to use it.
    pub read_ahead_bytes: u64,
    /// Whether the kernel compresses pages before it swaps them.
    pub zswap: bool,
}

impl Context {
    /// The machine, and the device that holds the files of the run.
    pub fn here(device: &Device) -> Self {
        Self::with_files_on(device.name())
    }

    /// The machine, and the name of what holds the files of the run, which need not be a device.
    pub fn with_files_on(device: &str) -> Self {
        Self {
            command: command_line(),
            date: utc(SystemTime::now()),
            kernel: read("/proc/sys/kernel/osrelease"),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            machine_ram_bytes: machine_ram_bytes(),
            device: device.to_owned(),
            read_ahead_bytes: read_ahead_bytes(device),
            zswap: read("/sys/module/zswap/parameters/enabled") == "Y",
        }
    }

    /// One line for the head of a table.
    pub fn summary(&self) -> String {
        format!(
            "{}, kernel {}, {} x {}, {} RAM, device {}{}",
            self.date,
            self.kernel,
            self.cpus,
            self.cpu,
            aquifer_base::units::format_size(self.machine_ram_bytes),
            self.device,
            if self.zswap { ", zswap on" } else { "" },
        )
    }
}

/// What programs could get now without swapping; 0 if the kernel does not say.
pub fn available_ram_bytes() -> u64 {
    meminfo_bytes("MemAvailable")
}

fn machine_ram_bytes() -> u64 {
    meminfo_bytes("MemTotal")
}

fn meminfo_bytes(name: &str) -> u64 {
    let kib = field(&read("/proc/meminfo"), name);
    kib.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10
}

/// A partition has no queue of its own; its disk's directory is the one above.
fn read_ahead_bytes(device: &str) -> u64 {
    let sys = Path::new("/sys/class/block").join(device);
    let of = |sys: &Path| fs::read_to_string(sys.join("queue/read_ahead_kb")).ok();
    let text = of(&sys).or_else(|| of(sys.canonicalize().ok()?.parent()?));
    text.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

fn command_line() -> String {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The value of `name : value` in a file of /proc.
fn field(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

/// `time` in the form of RFC 3339.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn date_of(mut days: u64) -> (u64, usize, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
    }

    #[test]
    fn fields_of_proc_files() {
        assert_eq!(field("model name\t: Fast CPU\nflags: a b\n", "model name"), "Fast CPU");
        assert_eq!(field("", "model name"), "");
    }

    #[test]
    fn less_is_available_than_there_is() {
        assert!((1..machine_ram_bytes()).contains(&available_ram_bytes()));
    }
}
