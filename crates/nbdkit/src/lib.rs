//! A plugin of nbdkit: any device of `aquifer block`, over NBD.
//!
//! ```text
//! client ──TLS──> nbdkit ──filters──> this plugin ──> device: flash, RAM of other machines
//! ```
//!
//! nbdkit speaks the protocol and TLS, has the threads and limits clients. The plugin has the device, the memory that requests
//! need to reach it, and the end of the server.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | nbdkit's structures and functions |
//! | `plugin` | what nbdkit calls |
//! | `settings` | the command line |
//! | `version` | what this nbdkit can bear |
//! | `connection` | a client's requests |
//! | `negotiations` | clients that have not begun |
//! | `clients` | sockets of clients |
//! | `parent` | `aquifer block`, which has started nbdkit |
//!
//! **Memory.** A process that serves swap has no memory to find. Buffers are made when a client begins; a request allocates nothing here. What nbdkit
//! allocates is in `docs/howto/block.md`.

mod abi;
mod clients;
mod connection;
mod negotiations;
mod parent;
mod plugin;
mod settings;
mod version;
