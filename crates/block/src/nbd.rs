//! A server of the NBD protocol: fixed newstyle negotiation, simple replies.
//!
//! The protocol is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. One server has one export, and shows it to several
//! connections at once; a flush on one of them covers what was acknowledged on all. With TLS, clients have to ask for it before anything else
//! (the mode that the protocol calls FORCEDTLS), and to show a certificate that the server believes.
//!
//! | file | noun | does I/O |
//! |---|---|---|
//! | `wire` | numbers of the protocol | no |
//! | `export` | what is served: name, size, blocks, flags | no |
//! | `negotiation` | a client's options, up to the first request | no |
//! | `option` | one option's data, and replies to options | no |
//! | `request`, `reply` | a request, checked; its reply | no |
//! | `ended` | why a connection ended | no |
//! | `buffer` | memory of one request | no |
//! | `transmission` | the threads of one connection, each of which takes a request and answers it | yes |
//! | `transfer` | what a request does to the device | yes |
//! | `connection` | one client, from its greeting to its end | yes |
//! | `socket`, `listener` | sockets, TCP or Unix | yes |
//! | `pace` | whether a client gets on with what it began | no |
//! | `stream` | a connected client: its socket, and what seals it | yes |
//! | `seal` | TLS of one connection | yes |
//! | `server` | all clients, and the end of all | yes |

mod buffer;
mod connection;
mod ended;
mod export;
mod listener;
mod negotiation;
mod option;
mod pace;
mod reply;
mod request;
mod seal;
mod server;
mod socket;
mod stream;
mod transfer;
mod transmission;
mod wire;

pub use export::{Export, NAME_BYTES_MAX};
pub use listener::{ListenError, Listener};
pub use request::TRANSFER_BYTES_MAX;
pub use server::{Server, Settings, Stopper};
