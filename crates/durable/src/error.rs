//! What can go wrong.

use std::io;

use aquifer_base::HomeAddress;

/// Short for what most functions here return.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a durable heap. After an error of a transaction nothing of it has happened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another transaction changed what this one has seen. It is run again by
    /// [`DurableHeap::transaction`](crate::DurableHeap::transaction).
    #[error("the transaction met another one and must be run again")]
    Conflict,
    /// Nothing is allocated there.
    #[error("nothing is allocated at home address {:#x}", .0.0)]
    NotAllocated(HomeAddress),
    /// The bytes from there on are more than the object has.
    #[error("{bytes} bytes from home address {:#x} on reach beyond the end of the object", .home.0)]
    Beyond {
        /// The first of them.
        home: HomeAddress,
        /// How many.
        bytes: u64,
    },
    /// The address is not the first byte of an object.
    #[error("no object begins at home address {:#x}", .0.0)]
    NoObject(HomeAddress),
    /// The file has reached its capacity, and nothing can be cleaned.
    #[error("the heap is full: its file has reached {capacity_bytes} bytes; open it with a larger capacity")]
    Full {
        /// How large the file may become.
        capacity_bytes: u64,
    },
    /// An object or a transaction that is larger than any can be.
    #[error("{bytes} bytes are more than {limit}, the most for {what}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest.
        limit: u64,
    },
    /// The file has no number for another transaction. No heap lives so long; a file that was tampered with may say so.
    #[error("the heap has given out all numbers of transactions; copy its objects to a new one")]
    Spent,
    /// The file is no durable heap, or one of a version that this library does not know.
    #[error("{path} is no durable heap that can be opened: {why}")]
    Foreign {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Bytes in the file are not what was written there.
    #[error("the file is damaged at byte {offset}: {why}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A root has another type than the program takes it for.
    #[error("the root '{root}' is of type '{stored}', not '{given}'")]
    WrongType {
        /// Its name.
        root: String,
        /// The type that it has.
        stored: String,
        /// The type that was given.
        given: String,
    },
    /// No name of a root or of a type.
    #[error("the name of a root has 1 to 255 bytes, that of a type 0 to 255, and none of them is 0")]
    Name,
    /// Something else begins there than a structure of this kind.
    #[error("no {name} begins at home address {:#x}", .home.0)]
    WrongKind {
        /// The address.
        home: HomeAddress,
        /// What was to be there.
        name: &'static str,
    },
    /// The transaction only reads, or the heap was opened so.
    #[error("it was opened or begun to read only")]
    ReadOnly,
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
}

/// Whether the system refused because a disk is full, or a user or a process has had its part.
pub(crate) fn is_room_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl Error {
    /// Whether there is no room, in the heap or on its disk.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => is_room_missing(source),
            _ => false,
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
