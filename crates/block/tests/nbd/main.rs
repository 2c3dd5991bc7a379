//! A server of NBD and a client of the test's own, over real sockets.

mod client;
mod ends;
mod hostile;
mod options;
mod sealed;
mod served;
mod transmission;
