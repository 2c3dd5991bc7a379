//! What may stand behind `aquifer run`.

use std::path::PathBuf;

use aquifer::PageHeap;
use aquifer::device::{FileDevice, Site};
use aquifer_base::units::parse_size;
use clap::Args;

use crate::error::Error;
use crate::limit;

/// What is kept in RAM and on flash.
const PAGE_BYTES: usize = 4096;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer run -- ./program ARGS                  256 MiB of RAM, 8 GiB of flash in /var/tmp
  aquifer run --ram auto -- ./program ARGS       as much RAM as container or machine have left
  aquifer run --ram 4G --flash /nvme --flash-size 64G -- redis-server
  aquifer run --ram 1G --compress auto -- python3 big.py
  aquifer run --threshold 4K --report -- sqlite3 :memory:
  aquifer run --ram 1G --donors alpha:7447,beta:7447 --cluster /etc/aquifer -- ./program
  aquifer run --ram 1G --profile-svg faults.svg -- ./program

Blocks of malloc from 64 KiB on, anonymous mmap from 16 KiB on, and what allocators of the
program's own get in such blocks, live in RAM or on flash. Smaller ones stay with the C library
until they are an eighth of --ram; then new ones do as well. With --threshold smaller ones
always stay. As long as all fit in --ram, flash is not touched.
A program that hands memory to the kernel by system calls of its own (io_uring,
process_vm_readv) needs --faults thread. The manual says what works and what does not.

The exit status is the program's; 125 if Aquifer could not run it, 126 if the system could
not, 127 if there is no such program.";

/// Whether blocks of malloc are managed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MallocArgument {
    /// Blocks and mappings
    Yes,
    /// Mappings alone
    No,
}

/// How absent memory is noticed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultsArgument {
    /// By a signal to the thread that touches it: fastest
    Signal,
    /// By a thread of the library: raw system calls may be given absent memory
    Thread,
    /// By protection, three times slower: where userfaultfd is refused
    Fence,
}

impl FaultsArgument {
    /// As the environment says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Thread => "thread",
            Self::Fence => "fence",
        }
    }
}

impl From<FaultsArgument> for aquifer::Faults {
    fn from(argument: FaultsArgument) -> Self {
        match argument {
            FaultsArgument::Signal => Self::Signal,
            FaultsArgument::Thread => Self::Thread,
            FaultsArgument::Fence => Self::Fence,
        }
    }
}

/// Whether pages are compressed before they leave RAM.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompressArgument {
    /// They are not
    Never,
    /// Those are that shrink to three quarters, while that saves time and processors have some left
    Auto,
    /// Those are that shrink to three quarters
    Always,
}

impl CompressArgument {
    /// As the environment says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Auto => "auto",
            Self::Always => "always",
        }
    }
}

/// Where what lies in the RAM of a donor is as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopiesArgument {
    /// On the flash of this machine.
    Flash,
    /// In the RAM of a second donor.
    Donor,
    /// In slabs of parity.
    Coded(aquifer::Code),
}

impl std::str::FromStr for CopiesArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flash" => Ok(Self::Flash),
            "donor" => Ok(Self::Donor),
            code => aquifer::Code::parse(code).map(Self::Coded).ok_or_else(|| {
                "it may be flash, donor, or slabs of data (2 to 16) and of parity (1 to 4), as 4+2".to_owned()
            }),
        }
    }
}

impl std::fmt::Display for CopiesArgument {
    /// As the environment says it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flash => f.write_str("flash"),
            Self::Donor => f.write_str("donor"),
            Self::Coded(code) => code.fmt(f),
        }
    }
}

/// RAM and flash of a program.
#[derive(Args, Debug)]
pub struct MemoryArguments {
    /// RAM for managed memory; auto: what the memory cgroup or machine has left, less an eighth
    #[arg(short = 'm', long, value_name = "SIZE|auto", default_value = "256M", value_parser = parse_ram)]
    pub ram: u64,
    /// What stays of it however little its memory cgroup has left [default: a quarter]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub ram_min: Option<u64>,
    /// Directory, file or block device for what does not fit [default: $TMPDIR or /var/tmp]
    #[arg(short, long, value_name = "PATH")]
    pub flash: Option<PathBuf>,
    /// Size of the flash file [default: 64 times --ram, 1G to 8G, as far as there is room]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub flash_size: Option<u64>,
    /// How absent memory is noticed
    #[arg(long, value_enum, default_value = "signal")]
    pub faults: FaultsArgument,
}

/// Arguments of `aquifer run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// What its memory has.
    #[command(flatten)]
    pub memory: MemoryArguments,
    /// Whether pages stay in RAM compressed, while there is room, before they go to flash
    #[arg(long, value_enum, default_value = "never")]
    pub compress: CompressArgument,
    /// Machines that lend RAM, which is used before the flash
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    pub donors: Vec<String>,
    /// Keeps to those, and does not ask them who else lends
    #[arg(long, requires = "donors")]
    pub donors_only: bool,
    /// This host's folder of their cluster
    #[arg(long, value_name = "FOLDER", requires = "donors")]
    pub cluster: Option<PathBuf>,
    /// Where what lies on donors is as well: on this machine's flash; with a second donor, and not on flash; or K+M, as 4+2: M slabs of parity for K of data, all of
    /// different donors, of which M may be lost at once. What only donors have, forked children cannot read
    #[arg(long, value_name = "flash|donor|K+M", default_value = "flash", requires = "donors")]
    pub copies: CopiesArgument,
    /// Encrypts what goes to donors, so that they can neither read it nor change it unnoticed
    #[arg(long, requires = "donors")]
    pub seal: bool,
    /// How donors divide what they have while it is too little for all who want some
    #[arg(long, value_name = "1-1000", default_value_t = 100, requires = "donors", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub weight: u32,
    /// Settings for the flash, made by `aquifer advise --write-profile`
    #[arg(long, value_name = "FILE")]
    pub device_profile: Option<PathBuf>,
    /// Smallest block that is managed. By default 64K, and smaller ones when the C library has an eighth of --ram in such
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub threshold: Option<u64>,
    /// Whether blocks of malloc are managed; with no only mappings are, in which a program with an allocator of its own has all it has
    #[arg(long, value_enum, default_value = "yes")]
    pub malloc: MallocArgument,
    /// A summary on standard error when the program ends
    #[arg(long)]
    pub report: bool,
    /// The same as JSON in a file
    #[arg(long, value_name = "FILE")]
    pub report_json: Option<PathBuf>,
    /// Where its faults come from, on standard error when the program ends
    #[arg(long)]
    pub profile: bool,
    /// The same as a flame graph in a file
    #[arg(long, value_name = "FILE")]
    pub profile_svg: Option<PathBuf>,
    /// Faults that are kept for it, each with up to 16 KiB of stack
    #[arg(long, value_name = "NUMBER", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=16384))]
    pub profile_samples: u32,
    /// Where samples go: given by this command to itself.
    #[arg(long, hide = true)]
    pub profile_into: Option<PathBuf>,
    /// A socket at which `aquifer stats` and `aquifer check` find the program
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<std::ffi::OsString>,
}

impl MemoryArguments {
    /// Size of the flash file. Flash costs RAM for checksums, a thousandth of its size: a small budget has little of it. With a large one, what fits
    /// in RAM has a place there, too. Three quarters of what is free are enough.
    pub fn flash_bytes(&self) -> u64 {
        let wanted = || {
            let most = (8 << 30).max(self.ram.saturating_mul(2));
            let wanted = self.ram.saturating_mul(64).clamp(1 << 30, most);
            let path = self.flash.clone().or_else(|| aquifer::Options::new().flash_path_here());
            let part =
                |site: Site| if site.is_shared { site.available_bytes / 4 * 3 } else { site.available_bytes };
            let room = FileDevice::look(path.unwrap_or_default()).map_or(u64::MAX, part);
            // Less than the RAM, with what the cleaner needs, would help nobody: that it is too much is said.
            let least = self.ram.saturating_add(self.ram / 4).max(256 << 20).min(wanted);
            (wanted.min(room) >> 20 << 20).max(least)
        };
        self.flash_size.unwrap_or_else(wanted)
    }

    /// Whether programs can have such memory here, as far as that can be told before one runs. `options` are these with those of the command.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, options: aquifer::Options) -> Result<(), Error> {
        let (ram, least) = (self.ram, self.ram_min.unwrap_or(0));
        if least > ram {
            return Err(Error::RamMin { least, ram });
        }
        options
            .check()
            .and_then(|()| PageHeap::new(options))
            .map(drop)
            .map_err(|error| Error::Machine { error })
    }

    /// As a heap takes it.
    pub fn options(&self) -> aquifer::Options {
        let options = aquifer::Options::new()
            .ram_bytes(self.ram)
            .flash_bytes(self.flash_bytes())
            .object_bytes(PAGE_BYTES)
            .faults(self.faults.into());
        self.flash.iter().fold(options, |options, flash| options.flash_path(flash))
    }
}

/// A size, or what there is.
fn parse_ram(text: &str) -> Result<u64, String> {
    if text == "auto" { limit::budget() } else { parse_size(text).map_err(|error| error.to_string()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::arguments::{Arguments, Command};

    #[test]
    fn flash_has_room_for_what_fits_in_ram() {
        let flash = |ram: &str| match Arguments::try_parse_from(["aquifer", "run", "--ram", ram, "true"]) {
            Ok(Arguments { command: Command::Run(run), .. }) => run.memory.flash_bytes() >> 20,
            other => panic!("{other:?}"),
        };
        assert_eq!(["8M", "64M", "256M", "14G"].map(flash), [1024, 4096, 8192, 28 << 10]);
    }
}
