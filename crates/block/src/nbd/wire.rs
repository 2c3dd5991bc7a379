//! Numbers of the protocol, by the names that its description gives them, and big-endian fields.

/// The first word of a server, "NBDMAGIC".
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Begins the options of both sides, "IHAVEOPT".
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each reply to a request.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of a server's greeting, and the client's answer: the same two bits.
pub mod handshake {
    /// Options are answered one by one.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The 124 zeros after the answer to `EXPORT_NAME` are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of a client.
pub mod option {
    /// Begins transmission, without a way to say no.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Asks for the names of exports.
    pub const LIST: u32 = 3;
    /// Asks for TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Asks about an export and begins transmission.
    pub const GO: u32 = 7;
}

/// Replies to options.
pub mod option_reply {
    /// The option is done.
    pub const ACK: u32 = 1;
    /// A name of an export.
    pub const SERVER: u32 = 2;
    /// A fact about an export.
    pub const INFO: u32 = 3;
    /// The option is not known here.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option's data are wrong.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// The option is answered after `STARTTLS` only.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Facts about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// Smallest, best and largest transfer.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod export_flag {
    /// The other flags are meant.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// `FLUSH` is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag `FUA` is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `TRIM` is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A flush on one connection covers all of them.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Requests.
pub mod command {
    /// Device to client.
    pub const READ: u16 = 0;
    /// Client to device.
    pub const WRITE: u16 = 1;
    /// The client leaves.
    pub const DISC: u16 = 2;
    /// Makes durable what was acknowledged.
    pub const FLUSH: u16 = 3;
    /// The range is no longer needed.
    pub const TRIM: u16 = 4;
    /// The range reads as zeros from now on.
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of requests.
pub mod command_flag {
    /// Durable before it is acknowledged.
    pub const FUA: u16 = 1 << 0;
    /// Zeros keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
}

/// A field of a message; the caller knows that it is there.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(field(bytes, at))
}

/// See [`u16_at`].
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

/// See [`u16_at`].
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}
