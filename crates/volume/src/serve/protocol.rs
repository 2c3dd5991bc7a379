//! What a client and the process that owns a volume say to each other: one message a packet, little-endian.
//!
//! ```text
//! request:  magic u32 | operation u16 | zeros u16 | handle u32 | a u64 | b u64 | c u64 | bytes
//! answer:   magic u32 | error number u32 (0: done) | handle u32 | zeros u32 | a u64 | b u64 | bytes
//! ```
//!
//! An answer with an error number has the error's text as its bytes, and in `a` which error of the volume it is, if it is one without values
//! (`refusal.rs`).
//!
//! Descriptors travel beside a packet: of memory with an answer to [`Operation::Pages`], of a userfaultfd with [`Operation::Attach`].

/// The version that client and owner must share.
pub const VERSION: u64 = 2;
/// Longest packet.
pub const PACKET_BYTES_MAX: usize = 128 << 10;
/// Most bytes that one packet carries besides its head.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Most bytes that are appended in one step.
pub const APPEND_BYTES_MAX: usize = 4 << 20;

const MAGIC: u32 = u32::from_le_bytes(*b"AQVS");
const REQUEST_HEAD_BYTES: usize = 36;
const ANSWER_HEAD_BYTES: usize = 32;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Operation {
    /// `a`: version of the client. The answer says that of the owner.
    Hello = 1,
    /// `a`: flags ([`open`]), `b`: mode for a new file, bytes: path. The answer has a handle.
    Open = 2,
    /// Of a handle.
    Close = 3,
    /// `a`: offset, `b`: length. The answer has the bytes.
    Read = 4,
    /// `a`: offset, bytes. The answer's `a` says how many were written.
    Write = 5,
    /// The answer's `a` is the file's number; its bytes are an encoded inode.
    Stat = 6,
    /// `a`: size.
    Truncate = 7,
    /// All of the volume.
    Sync = 8,
    /// The memory of the file's pages; a descriptor comes with the answer.
    Pages = 9,
    /// `a`: address, `b`: first page in the upper half and number of pages in the lower, `c`: 0 loads, 1 stores, 2 private. A userfaultfd comes with
    /// it. The answer's handle names the view.
    Attach = 10,
    /// Of a view.
    Detach = 11,
    /// `b`: mode, bytes: path.
    MakeFolder = 12,
    /// Bytes: path, of a file or an empty folder.
    Remove = 13,
    /// `a`: length of the first path, `b`: 0 replaces what has the new name, 1 fails, 2 exchanges the two; bytes: both paths.
    Rename = 14,
    /// Bytes that go behind the last one; `a`: 1 if more of the same step follow, which are kept until then. The answer's `a` is how many were
    /// written, `b` where the first of them is.
    Append = 15,
    /// `a`: offset, `b`: length of what becomes zeros.
    Punch = 16,
    /// Names in an open folder; `a`: 0, or where the last answer ended. The answer's `a` is where it goes on, `b` is 1 if that is the end; its
    /// bytes are names (`entries.rs`).
    List = 17,
    /// `a`: 1 to follow a symbolic link at the end, bytes: path. Answered as [`Operation::Stat`].
    StatPath = 18,
    /// `a`: length of the first path, bytes: both paths. The second becomes another name for the first.
    Link = 19,
    /// `a`: length of what the link says, bytes: that, and the link's path.
    Symlink = 20,
    /// Bytes: path of a symbolic link. The answer's bytes are what it says.
    ReadLink = 21,
    /// The answer's bytes are five numbers of 8 bytes: those of [`Space`](crate::Space), in their order.
    Space = 22,
}

/// All of them.
pub const OPERATIONS: [Operation; 22] = [
    Operation::Hello,
    Operation::Open,
    Operation::Close,
    Operation::Read,
    Operation::Write,
    Operation::Stat,
    Operation::Truncate,
    Operation::Sync,
    Operation::Pages,
    Operation::Attach,
    Operation::Detach,
    Operation::MakeFolder,
    Operation::Remove,
    Operation::Rename,
    Operation::Append,
    Operation::Punch,
    Operation::List,
    Operation::StatPath,
    Operation::Link,
    Operation::Symlink,
    Operation::ReadLink,
    Operation::Space,
];

/// Flags of [`Operation::Open`].
pub mod open {
    /// Loads and reads.
    pub const READ: u64 = 1;
    /// Stores and writes.
    pub const WRITE: u64 = 2;
    /// Make the file if there is none.
    pub const CREATE: u64 = 4;
    /// Fail if there is one.
    pub const EXCLUSIVE: u64 = 8;
    /// Cut it to nothing.
    pub const TRUNCATE: u64 = 16;
    /// All of them.
    pub const ALL: u64 = 31;
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// What is asked for.
    pub operation: Operation,
    /// Of what.
    pub handle: u32,
    /// See [`Operation`].
    pub a: u64,
    /// See [`Operation`].
    pub b: u64,
    /// See [`Operation`].
    pub c: u64,
    /// See [`Operation`].
    pub bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without numbers.
    #[must_use]
    pub fn new(operation: Operation, handle: u32) -> Self {
        Request { operation, handle, a: 0, b: 0, c: 0, bytes: &[] }
    }

    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(REQUEST_HEAD_BYTES + self.bytes.len());
        packet.extend_from_slice(&MAGIC.to_le_bytes());
        packet.extend_from_slice(&(self.operation as u16).to_le_bytes());
        packet.extend_from_slice(&[0; 2]);
        packet.extend_from_slice(&self.handle.to_le_bytes());
        for number in [self.a, self.b, self.c] {
            packet.extend_from_slice(&number.to_le_bytes());
        }
        packet.extend_from_slice(self.bytes);
        packet
    }

    /// As it came; `None` for anything that is no request.
    #[must_use]
    pub fn decode(packet: &'a [u8]) -> Option<Self> {
        let (head, bytes) = packet.split_at_checked(REQUEST_HEAD_BYTES)?;
        let code = u16::from_le_bytes([head[4], head[5]]);
        let operation = OPERATIONS.into_iter().find(|operation| *operation as u16 == code)?;
        let is_right = u32_at(head, 0) == MAGIC && head[6..8] == [0; 2] && bytes.len() <= PAYLOAD_BYTES_MAX;
        is_right.then(|| Request {
            operation,
            handle: u32_at(head, 8),
            a: u64_at(head, 12),
            b: u64_at(head, 20),
            c: u64_at(head, 28),
            bytes,
        })
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The number by which the system's calls say the error, 0 if it was done.
    pub errno: u32,
    /// See [`Operation`].
    pub handle: u32,
    /// See [`Operation`].
    pub a: u64,
    /// See [`Operation`].
    pub b: u64,
    /// See [`Operation`]; of an error its text.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(ANSWER_HEAD_BYTES + self.bytes.len());
        for number in [MAGIC, self.errno, self.handle, 0] {
            packet.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.a, self.b] {
            packet.extend_from_slice(&number.to_le_bytes());
        }
        packet.extend_from_slice(&self.bytes);
        packet
    }

    /// As it came; `None` for anything that is no answer.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let (head, bytes) = packet.split_at_checked(ANSWER_HEAD_BYTES)?;
        (u32_at(head, 0) == MAGIC && u32_at(head, 12) == 0).then(|| Answer {
            errno: u32_at(head, 4),
            handle: u32_at(head, 8),
            a: u64_at(head, 16),
            b: u64_at(head, 24),
            bytes: bytes.to_vec(),
        })
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_sent() {
        for operation in OPERATIONS {
            let request = Request { operation, handle: 1, a: 2, b: 3, c: u64::MAX, bytes: b"abc" };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let answer = Answer { errno: 1, handle: 2, a: 3, b: u64::MAX, bytes: b"abc".to_vec() };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
}
