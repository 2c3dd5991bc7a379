//! Numbered errors with sentences that say what to do.

use aquifer_base::units::format_size;
use aquifer_device::OpenError;
use aquifer_heap::HeapError;
use aquifer_sys::Errno;
use aquifer_vm::{FaultError, PinError};
use thiserror::Error;

use crate::assembly::KERNEL_MIN;

/// Why a heap could not do something.
#[derive(Debug, Error)]
pub enum Error {
    /// An argument or setting makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The RAM budget is below the minimum.
    #[error(
        "a RAM budget of {given} bytes is too small; a heap with {flash} bytes of flash needs at least {minimum}"
    )]
    BudgetSmall {
        /// Asked for.
        given: u64,
        /// Least that works.
        minimum: u64,
        /// Size of the flash.
        flash: u64,
    },
    /// The RAM budget is above what the machine has.
    #[error("a RAM budget of {given} bytes is more than the machine's {machine}; give less than that")]
    BudgetLarge {
        /// Asked for.
        given: u64,
        /// RAM of the machine.
        machine: u64,
    },
    /// The flash could not be opened.
    #[error(transparent)]
    Flash(#[from] OpenError),
    /// The flash is too small for a log.
    #[error("{given} bytes of flash are too small; a heap with this RAM budget needs at least {minimum}")]
    FlashSmall {
        /// Size of the flash.
        given: u64,
        /// Least that works.
        minimum: u64,
    },
    /// The kernel is too old.
    #[error("this kernel is {0}.{1}; Aquifer needs Linux {major}.{minor} or newer", major = KERNEL_MIN.0, minor = KERNEL_MIN.1)]
    KernelOld(u32, u32),
    /// The kernel lacks a feature or refused a call.
    #[error("the kernel refused {what}: {errno}")]
    Kernel {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// userfaultfd may not be used here.
    #[error(
        "userfaultfd may not be used here ({0}); containers need /dev/userfaultfd (docker run --device /dev/userfaultfd) or a seccomp profile that allows the system call; faults by signal do without where /proc is mounted"
    )]
    UffdForbidden(Errno),
    /// The limit on address space leaves too little for the memory that is to be managed.
    #[error(
        "the limit on address space (ulimit -v) leaves {} for managed memory; raise it, as `ulimit -v unlimited` does",
        format_size(*left)
    )]
    AddressSpace {
        /// Bytes that it leaves.
        left: u64,
    },
    /// A thread or socket could not be made.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What happened.
        error: std::io::Error,
    },
    /// Machines that should lend RAM do not.
    #[error("{0}")]
    Donors(String),
    /// The allocator refused.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The memory that shall become a heap's holds the stack that the thread is on.
    #[error(
        "a stack lies in the memory that is to be managed (a coroutine's, in a block of malloc or mapped without MAP_STACK)"
    )]
    Stack,
    /// The memory that shall become a heap's may be in use where no fault is resolved, as its user says.
    #[error("{0}")]
    InUse(&'static str),
    /// A heap does not survive fork.
    #[error(
        "this process was forked from one with open heaps and cannot use any; use heaps in the parent, or exec"
    )]
    Forked,
    /// The heap's parts disagree.
    #[error("broken invariant: {0}")]
    Invariant(String),
}

/// The number of an error, as in `aquifer.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum ErrorCode {
    /// `AQ_OK`
    Ok = 0,
    /// `AQ_EINVAL`
    Invalid = 1,
    /// `AQ_ENOMEM`
    NoMemory = 2,
    /// `AQ_EBUDGET_SMALL`
    BudgetSmall = 3,
    /// `AQ_EBUDGET_LARGE`
    BudgetLarge = 4,
    /// `AQ_EFLASH_MISSING`
    FlashMissing = 5,
    /// `AQ_EFLASH_SMALL`
    FlashSmall = 6,
    /// `AQ_EFLASH_PERMISSION`
    FlashPermission = 7,
    /// `AQ_EFLASH_BUSY`
    FlashBusy = 8,
    /// `AQ_EFLASH_FULL`
    FlashFull = 9,
    /// `AQ_EKERNEL`
    Kernel = 10,
    /// `AQ_EUFFD_FORBIDDEN`
    UffdForbidden = 11,
    /// `AQ_EIO`
    Io = 12,
    /// `AQ_ECORRUPT`
    Corrupt = 13,
    /// `AQ_EFOREIGN`
    Foreign = 14,
    /// `AQ_EDOUBLE_FREE`
    DoubleFree = 15,
    /// `AQ_EPINNED`
    Pinned = 16,
    /// `AQ_EFORKED`
    Forked = 17,
    /// `AQ_EOPEN`
    Open = 18,
    /// `AQ_ECLOSED`
    Closed = 19,
    /// `AQ_EINVARIANT`
    Invariant = 20,
    /// `AQ_ECONFLICT`
    Conflict = 21,
    /// `AQ_ENOTALLOCATED`
    NotAllocated = 22,
    /// `AQ_EFORMAT`
    Format = 23,
    /// `AQ_EABORTED`
    Aborted = 24,
    /// `AQ_EBUSY`
    Busy = 25,
    /// `AQ_ENOTFOUND`
    NotFound = 26,
    /// `AQ_EEXISTS`
    Exists = 27,
    /// `AQ_ENOTFOLDER`
    NotAFolder = 28,
    /// `AQ_EISFOLDER`
    IsAFolder = 29,
    /// `AQ_ENOTEMPTY`
    NotEmpty = 30,
    /// `AQ_ENAME`
    Name = 31,
    /// `AQ_EPERMISSION`
    Permission = 32,
    /// `AQ_ETOOLARGE`
    TooLarge = 33,
    /// `AQ_ELINKS`
    Links = 34,
    /// `AQ_ENOSPACE`
    NoSpace = 35,
    /// `AQ_EREADONLY`
    ReadOnly = 36,
    /// `AQ_EGONE`
    Gone = 37,
    /// `AQ_EWRONGTYPE`
    WrongType = 38,
    /// `AQ_EROOM`
    Room = 39,
}

impl Error {
    /// Its number.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) | Self::Stack | Self::InUse(_) => ErrorCode::Invalid,
            Self::BudgetSmall { .. } => ErrorCode::BudgetSmall,
            Self::BudgetLarge { .. } => ErrorCode::BudgetLarge,
            Self::Flash(error) => error.into(),
            Self::FlashSmall { .. } => ErrorCode::FlashSmall,
            Self::KernelOld(..) | Self::Kernel { .. } => ErrorCode::Kernel,
            Self::UffdForbidden(_) => ErrorCode::UffdForbidden,
            Self::AddressSpace { .. } => ErrorCode::NoMemory,
            Self::Donors(_) => ErrorCode::Gone,
            Self::System { .. } => ErrorCode::Io,
            Self::Heap(error) => heap_code(error),
            Self::Forked => ErrorCode::Forked,
            Self::Invariant(_) => ErrorCode::Invariant,
        }
    }
}

impl From<&OpenError> for ErrorCode {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::Missing { .. } => ErrorCode::FlashMissing,
            OpenError::PermissionDenied { .. } | OpenError::ReadOnly { .. } | OpenError::HoldsData { .. } => {
                ErrorCode::FlashPermission
            }
            OpenError::TooSmall { .. } => ErrorCode::FlashSmall,
            OpenError::Busy { .. } => ErrorCode::FlashBusy,
            OpenError::NoSpace { .. } | OpenError::FileLimit { .. } => ErrorCode::FlashFull,
            OpenError::BadLength { .. } | OpenError::NotAFileOrBlockDevice { .. } => ErrorCode::Invalid,
            OpenError::Io { .. } | OpenError::TooManyFiles { .. } => ErrorCode::Io,
        }
    }
}

fn heap_code(error: &HeapError) -> ErrorCode {
    match error {
        HeapError::TooLarge { .. } | HeapError::Invalid(_) => ErrorCode::Invalid,
        HeapError::Full { .. } | HeapError::NoAddressSpace { .. } => ErrorCode::NoMemory,
        HeapError::Foreign(_) | HeapError::SomeForeign { .. } => ErrorCode::Foreign,
        HeapError::DoubleFree(_) => ErrorCode::DoubleFree,
        HeapError::Pinned(_)
        | HeapError::Pin(PinError::TooMany { .. } | PinError::InUse(_) | PinError::Crowded(_)) => {
            ErrorCode::Pinned
        }
        HeapError::Pin(PinError::NotPinned(_)) => ErrorCode::Invalid,
        HeapError::Pin(PinError::Fault(error)) | HeapError::Fault(error) => fault_code(error),
    }
}

fn fault_code(error: &FaultError) -> ErrorCode {
    match error {
        FaultError::NotAllocated(_) => ErrorCode::DoubleFree,
        FaultError::Device { .. } | FaultError::Stopped { .. } => ErrorCode::Io,
        FaultError::Damaged { .. } => ErrorCode::Corrupt,
        FaultError::Gone(_) => ErrorCode::Forked,
        FaultError::Again { .. } => ErrorCode::Pinned,
        FaultError::Map { .. } => ErrorCode::Kernel,
    }
}
