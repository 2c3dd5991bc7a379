//! A device as one file of a folder, through FUSE: for `losetup`, where the kernel has no module for NBD.
//!
//! ```text
//! swap area ──> /dev/loopN ──direct I/O──> FOLDER/device ──FUSE──> this process ──> device
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `file` | the file, as the kernel asks for it |
//! | `buffers` | memory of requests |
//! | `mounted` | the folder, from its mounting to its end |

mod buffers;
mod file;
mod mounted;

pub use file::FILE_NAME;
pub use mounted::{FuseError, Mounted, Options, Unmounter};
