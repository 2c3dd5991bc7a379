//! What `aquifer run` says through the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aquifer::units::parse_size;
use aquifer::{Error, Faults, Options};

/// Smallest block that comes from the heap unless another size is given, and smallest mapping then: to map is a call to the kernel, so that the heap costs
/// nothing more, and collectors map 16 KiB at a time.
const THRESHOLD_BYTES_DEFAULT: usize = 64 << 10;
const MAPPING_BYTES_DEFAULT: usize = 16 << 10;

/// One part of the RAM in `RAM_MIN_PART` is what the heap keeps by default.
const RAM_MIN_PART: u64 = 4;

/// Settings of one process.
pub struct Settings {
    /// Of the heap.
    pub options: Options,
    /// The RAM that it may use; 0 if that is not said.
    pub ram_bytes: u64,
    /// RAM that the heap keeps, also when the process needs more beside it.
    pub ram_bytes_min: u64,
    /// Blocks from this size on come from the heap; none if they are not to be managed.
    pub threshold_bytes: usize,
    /// Mappings do from this size on.
    pub mapping_bytes: usize,
    /// Smaller ones do too, when those of the C library are a large part of the RAM.
    pub small_bytes_too: bool,
    /// A summary goes to standard error when the program ends.
    pub report: bool,
    /// It goes here as JSON.
    pub report_json: Option<PathBuf>,
    /// Samples of faults go here.
    pub profile: Option<PathBuf>,
    /// The kernel waits for pages, as a thread brings them in.
    pub kernel_waits: bool,
    /// Absent pages are noticed by SIGSEGV, and whether that was asked for.
    pub is_fenced: bool,
    pub wants_fence: bool,
    /// System calls that it makes by instructions of its own are caught.
    pub catches_calls: bool,
    /// The program was started by the one that `aquifer run` started.
    pub is_child: bool,
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl Settings {
    /// The settings of this process; a child of the program that was started keeps its memory in an unnamed file beside
    /// its parent's, and adds its number to the names of files that it writes.
    ///
    /// # Errors
    /// A variable that makes no sense.
    pub fn from_env() -> Result<Self, Error> {
        let mut options = Options::from_env()?;
        let started = variable("AQUIFER_RUN_PID").and_then(|pid| pid.to_str()?.parse().ok());
        let is_child = started.is_some_and(|pid: u32| pid != std::process::id());
        let ram_bytes =
            variable("AQUIFER_RAM").and_then(|text| parse_size(&text.to_string_lossy()).ok()).unwrap_or(0);
        let ram_bytes_min = variable("AQUIFER_RAM_MIN")
            .and_then(|text| parse_size(&text.to_string_lossy()).ok())
            .unwrap_or(ram_bytes / RAM_MIN_PART);
        let (threshold_bytes, mapping_bytes) = match variable("AQUIFER_THRESHOLD") {
            None => (THRESHOLD_BYTES_DEFAULT, MAPPING_BYTES_DEFAULT),
            Some(text) => {
                let bytes = parse_size(&text.to_string_lossy())
                    .map_err(|error| Error::Invalid(format!("AQUIFER_THRESHOLD: {error}")))?;
                let bytes = bytes.min(1 << 40) as usize;
                (bytes, bytes)
            }
        };
        let manages_blocks = variable("AQUIFER_MALLOC").is_none_or(|value| value != "no");
        // A file that does not exist yet has no name: parent and children may all exceed their RAM, each in a file of its own.
        let beside = variable("AQUIFER_FLASH")
            .map(PathBuf::from)
            .filter(|path| !path.exists() || is_child && path.is_file())
            .and_then(|path| path.parent().map(Path::to_path_buf));
        if let Some(directory) = beside {
            let is_here = directory.as_os_str().is_empty();
            options = options.flash_path(if is_here { ".".into() } else { directory });
        }
        let report_json = variable("AQUIFER_REPORT_JSON").map(|path| {
            let mut path = path;
            if is_child {
                path.push(format!(".{}", std::process::id()));
            }
            PathBuf::from(path)
        });
        let kernel_waits = variable("AQUIFER_FAULTS").is_some_and(|faults| faults == "thread");
        let is_fenced = options.faults_here() == Faults::Fence;
        Ok(Self {
            options,
            ram_bytes,
            ram_bytes_min,
            threshold_bytes: if manages_blocks { threshold_bytes } else { usize::MAX },
            mapping_bytes,
            small_bytes_too: manages_blocks && ram_bytes > 0 && variable("AQUIFER_THRESHOLD").is_none(),
            is_child,
            kernel_waits,
            is_fenced,
            wants_fence: variable("AQUIFER_FAULTS").is_some_and(|faults| faults == "fence"),
            catches_calls: !kernel_waits && variable("AQUIFER_OWN_CALLS").is_none_or(|value| value != "0"),
            report: variable("AQUIFER_REPORT").is_some(),
            report_json,
            profile: variable("AQUIFER_PROFILE").map(PathBuf::from),
        })
    }
}
