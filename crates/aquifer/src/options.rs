//! What a heap is made of.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use aquifer_base::profile::{Profile, Setting};
use aquifer_base::units::parse_size;
use aquifer_cache::PolicyKind;
use aquifer_device::Device;
use aquifer_remote::far::Code;
use aquifer_sys::{Features, Fence, Userfaultfd};
use aquifer_vm::TrapKind;

pub use aquifer_vm::Compression;

use crate::device_profile;
use crate::error::Error;

/// How faults are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Faults {
    /// As SIGBUS in the faulting thread: fastest, needs no privilege. Where userfaultfd is refused, as [`Faults::Fence`].
    #[default]
    Signal,
    /// To a thread of the library: system calls may be given absent pages.
    Thread,
    /// As SIGSEGV in the faulting thread, of pages that are protected: three times slower, and there where userfaultfd is refused.
    Fence,
}

impl Faults {
    /// How they are delivered on this machine.
    pub fn here(self) -> Self {
        static IS_REFUSED: OnceLock<bool> = OnceLock::new();
        let is_refused = || {
            let opened = Userfaultfd::open(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP);
            opened.is_err() && Fence::open().is_ok()
        };
        if self == Self::Signal && *IS_REFUSED.get_or_init(is_refused) { Self::Fence } else { self }
    }

    /// By a thread where system calls may then be given absent pages, which takes `CAP_SYS_PTRACE`, `/dev/userfaultfd` or
    /// `vm.unprivileged_userfaultfd=1`; else as they are delivered on this machine.
    pub fn of_calls_too() -> Self {
        match Userfaultfd::open_full(Features::PAGEFAULT_FLAG_WP) {
            Ok(_) => Self::Thread,
            Err(_) => Self::default().here(),
        }
    }

    pub(crate) fn trap(self) -> TrapKind {
        match self {
            Self::Signal => TrapKind::Signal,
            Self::Thread => TrapKind::Thread,
            Self::Fence => TrapKind::Fence,
        }
    }
}

/// Where objects go that do not fit in RAM.
#[derive(Clone, Default)]
pub enum Flash {
    /// An unnamed file in `$TMPDIR`, or `/var/tmp`.
    #[default]
    Default,
    /// A regular file (made if absent), a block device, or a directory for an unnamed file.
    Path(PathBuf),
    /// Any device; it is overwritten.
    Device(Arc<dyn Device>),
}

/// Where what lies in the RAM of a donor is as well.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Copies {
    /// On the flash of this machine: nothing is lost with any donor.
    #[default]
    Flash,
    /// In the RAM of a second donor; flash is for what they have no room for. What both lose at once is lost, and forked children cannot read it.
    Donor,
    /// Nowhere: each group of data slabs has `parity` slabs of parity, all of different donors, so that up to
    /// `parity` of the group's donors may fail at once. Flash takes what donors have no room for; forked
    /// children cannot read it.
    Coded(Code),
}

/// Settings of a heap. Every one has a default.
#[derive(Clone, Default)]
pub struct Options {
    pub(crate) ram_bytes: Option<u64>,
    pub(crate) flash: Flash,
    pub(crate) flash_bytes: Option<u64>,
    pub(crate) object_bytes: Option<usize>,
    pub(crate) faults: Faults,
    pub(crate) policy: PolicyKind,
    pub(crate) compression: Compression,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) donors: Vec<String>,
    pub(crate) donors_only: bool,
    pub(crate) cluster: Option<PathBuf>,
    pub(crate) copies: Copies,
    pub(crate) seals: bool,
    pub(crate) weight: Option<u32>,
    pub(crate) profile_path: Option<PathBuf>,
    /// Of a file that was read already.
    pub(crate) profile: Profile,
    /// Said one by one.
    pub(crate) settings: Profile,
}

/// RAM budget unless one is given.
pub const RAM_BYTES_DEFAULT: u64 = 256 << 20;
/// Size of the flash file unless one is given.
pub const FLASH_BYTES_DEFAULT: u64 = 8 << 30;
/// Size of object that RAM is divided for unless one is given.
pub const OBJECT_BYTES_DEFAULT: usize = 128;

impl Options {
    /// The defaults: 256 MiB of RAM, 8 GiB of flash in an unnamed file.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings in `AQUIFER_RAM`, `AQUIFER_FLASH`, `AQUIFER_FLASH_SIZE`, `AQUIFER_OBJECT_BYTES`, `AQUIFER_FAULTS`,
    /// `AQUIFER_POLICY`, `AQUIFER_COMPRESS`, `AQUIFER_SOCKET`, `AQUIFER_DONORS` (separated by commas), `AQUIFER_DONORS_ONLY`, `AQUIFER_CLUSTER`, `AQUIFER_COPIES` and `AQUIFER_DEVICE_PROFILE`; defaults for those that are not set. The profile is read at
    /// once.
    ///
    /// # Errors
    /// [`Error`] with the variable and what it may be, or with what is wrong with the profile.
    pub fn from_env() -> Result<Self, Error> {
        let mut options = Self::new();
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let size = |name: &'static str| {
            text(name)
                .map(|value| parse_size(&value).map_err(|e| Error::Invalid(format!("{name}: {e}"))))
                .transpose()
        };
        options.ram_bytes = size("AQUIFER_RAM")?;
        options.flash_bytes = size("AQUIFER_FLASH_SIZE")?;
        options.object_bytes = size("AQUIFER_OBJECT_BYTES")?.map(|bytes| bytes.min(1 << 30) as usize);
        if let Some(path) = std::env::var_os("AQUIFER_FLASH").filter(|path| !path.is_empty()) {
            options.flash = Flash::Path(path.into());
        }
        if let Some(value) = text("AQUIFER_FAULTS") {
            options.faults = match value.as_str() {
                "signal" => Faults::Signal,
                "thread" => Faults::Thread,
                "fence" => Faults::Fence,
                _ => {
                    return Err(Error::Invalid(format!(
                        "AQUIFER_FAULTS is '{value}'; it may be signal, thread or fence"
                    )));
                }
            };
        }
        if let Some(value) = text("AQUIFER_POLICY") {
            options.policy = parse_policy(&value).ok_or_else(|| {
                Error::Invalid(format!("AQUIFER_POLICY is '{value}'; it may be clock, lru, s3fifo or sieve"))
            })?;
        }
        if let Some(value) = text("AQUIFER_COMPRESS") {
            options.compression = match value.as_str() {
                "never" => Compression::Never,
                "auto" => Compression::Auto,
                "always" => Compression::Always,
                _ => {
                    let message = format!("AQUIFER_COMPRESS is '{value}'; it may be never, auto or always");
                    return Err(Error::Invalid(message));
                }
            };
        }
        options.socket = text("AQUIFER_SOCKET").map(Into::into);
        let switch = |name: &str| match text(name).as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(Error::Invalid(format!("{name} is '{value}'; it may be 0 or 1"))),
        };
        let donors = text("AQUIFER_DONORS").unwrap_or_default();
        options.donors = donors.split(',').filter(|donor| !donor.is_empty()).map(Into::into).collect();
        if let Some(value) = text("AQUIFER_COPIES") {
            options.copies = match value.as_str() {
                "flash" => Copies::Flash,
                "donor" => Copies::Donor,
                code => Copies::Coded(Code::parse(code).ok_or_else(|| {
                    Error::Invalid(format!(
                        "AQUIFER_COPIES is '{value}'; it may be flash, donor, or slabs of data and of parity as 4+2"
                    ))
                })?),
            };
        }
        options.donors_only = switch("AQUIFER_DONORS_ONLY")?;
        options.seals = switch("AQUIFER_SEAL")?;
        if let Some(value) = text("AQUIFER_WEIGHT") {
            let weight = value.parse().ok().filter(|weight| (1..=1000).contains(weight));
            options.weight = Some(weight.ok_or_else(|| {
                Error::Invalid(format!("AQUIFER_WEIGHT is '{value}'; it may be 1 to 1000"))
            })?);
        }
        options.cluster = std::env::var_os("AQUIFER_CLUSTER").filter(|path| !path.is_empty()).map(Into::into);
        if let Some(path) = std::env::var_os("AQUIFER_DEVICE_PROFILE").filter(|path| !path.is_empty()) {
            options.profile = device_profile::read(path.as_ref())?;
        }
        Ok(options)
    }

    /// Everything that the heap keeps in RAM, the kernel's page tables for it included.
    pub fn ram_bytes(mut self, bytes: u64) -> Self {
        self.ram_bytes = Some(bytes);
        self
    }

    /// Where objects go that do not fit.
    pub fn flash(mut self, flash: Flash) -> Self {
        self.flash = flash;
        self
    }

    /// A file, block device or directory for them.
    pub fn flash_path(self, path: impl Into<PathBuf>) -> Self {
        self.flash(Flash::Path(path.into()))
    }

    /// Size of the flash file, or of the part of a block device that is used. The space is reserved when the
    /// heap is opened.
    pub fn flash_bytes(mut self, bytes: u64) -> Self {
        self.flash_bytes = Some(bytes);
        self
    }

    /// The size that most objects have, 128 unless given. RAM is divided between objects and their table by it: a heap of
    /// whole pages ([`Heap::allocate_block`](crate::Heap::allocate_block)) gives 4096.
    pub fn object_bytes(mut self, bytes: usize) -> Self {
        self.object_bytes = Some(bytes);
        self
    }

    /// One machine more (`host:port`, where `aquifer donate` runs) that lends RAM, which is used before the flash. What lies there is on the flash too, so that
    /// nothing is lost when the machine is.
    pub fn donor(mut self, address: impl Into<String>) -> Self {
        self.donors.push(address.into());
        self
    }

    /// Whether donors that are not named, but that the named ones know of, get nothing. Without this they are borrowed from as well.
    pub fn donors_only(mut self, only: bool) -> Self {
        self.donors_only = only;
        self
    }

    /// This machine's folder of the donors' cluster, as `aquifer cluster join` makes it. Without one, donors are on this machine.
    pub fn cluster(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cluster = Some(folder.into());
        self
    }

    /// Where what lies on donors is as well.
    pub fn copies(mut self, copies: Copies) -> Self {
        self.copies = copies;
        self
    }

    /// Whether donors get pages encrypted and authenticated (AES-256-GCM, with a key that never leaves this process), so that none of them can read a page, or change
    /// it unnoticed. Takes 24 bytes of RAM for each 4 KiB of flash.
    pub fn seal(mut self, seals: bool) -> Self {
        self.seals = seals;
        self
    }

    /// How donors divide what they have while it is too little for all who want some: 1 to 1000, 100 unless given.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Whether this machine can give a heap these settings, as far as that can be told without opening one.
    ///
    /// # Errors
    /// [`Error`] with what is missing and what to do.
    pub fn check(&self) -> Result<(), Error> {
        crate::assembly::check(self)
    }

    /// Where flash would be: the file or folder that is named, or else `$TMPDIR`, or `/var/tmp`; `None` for a device that is open already.
    pub fn flash_path_here(&self) -> Option<PathBuf> {
        crate::assembly::flash_path(&self.flash)
    }

    /// How faults are delivered.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// How faults are delivered on this machine.
    pub fn faults_here(&self) -> Faults {
        self.faults.here()
    }

    /// Which policy evicts objects from RAM.
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// Whether pages are compressed before they leave RAM.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// A file of settings for the flash, as `aquifer advise --write-profile` makes it. It is read when the heap is opened.
    pub fn device_profile(mut self, path: impl Into<PathBuf>) -> Self {
        self.profile_path = Some(path.into());
        self
    }

    /// One setting for the flash, whatever a profile says of it. The heap goes as near to it as its RAM and flash allow.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the setting may not have this value.
    pub fn device_setting(mut self, setting: Setting, value: u64) -> Result<Self, Error> {
        self.settings.set(setting, value).map_err(|fault| Error::Invalid(fault.to_string()))?;
        Ok(self)
    }

    /// What is said one by one, else what the profile says.
    pub(crate) fn device_settings(&self) -> Result<Profile, Error> {
        let profile = match &self.profile_path {
            Some(path) => device_profile::read(path)?,
            None => self.profile,
        };
        Ok(self.settings.or(&profile))
    }

    /// A Unix socket at which `aquifer stats` and `aquifer check` find the heap.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }
}

fn parse_policy(name: &str) -> Option<PolicyKind> {
    Some(match name {
        "clock" => PolicyKind::Clock,
        "lru" => PolicyKind::Lru,
        "s3fifo" => PolicyKind::S3Fifo,
        "sieve" => PolicyKind::Sieve,
        _ => return None,
    })
}
