//! nbdkit with our plugin, as a child of this process: it speaks NBD, and TLS.
//!
//! ```text
//! this process: socket that listens, signals, words        nbdkit: clients, TLS, filters, plugin, device
//!       │                                                        │
//!       └────────────── a socket between both: words ────────────┘
//! ```
//!
//! The socket at which clients connect is made here, so that a port that is taken is told before the device is opened, and handed over as systemd
//! would. The child ends when this process does.
//!
//! | file | noun |
//! |---|---|
//! | `listener` | where clients connect |
//! | `word` | what the plugin says of the server |
//! | `child` | the running nbdkit |

mod child;
mod listener;
mod word;

pub use child::{Child, Ender, NbdkitError, Options, Tls, program};
pub use listener::{ListenError, Listener};
pub use word::Word;

/// The descriptor at which nbdkit takes clients: the first that systemd would give.
pub const LISTENING: i32 = 3;
/// The plugin's descriptor of the socket between both.
pub const PARENT: i32 = 4;
/// What GnuTLS has to read before anything else, as a file: TLS 1.3, and nothing older. nbdkit has no option for it.
pub const PRIORITIES: &str = "[overrides]\ndisabled-version = tls1.0\ndisabled-version = tls1.1\ndisabled-version = tls1.2\n\
    disabled-version = dtls1.0\ndisabled-version = dtls1.2\n";
/// Longest name of an export, bytes; the protocol's own limit.
pub const NAME_BYTES_MAX: usize = 4096;
