//! nbdkit with the plugin and a client of the test's own, over real sockets. Without nbdkit nothing is tested, and said so.

mod client;
mod ends;
mod hostile;
mod options;
mod sealed;
mod served;
mod transmission;
