//! C interface of Aquifer: `libaquifer.so` and `libaquifer.a`. The contract is `include/aquifer.h`.
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the structures of the header |
//! | `sized` | structures that programs and the library know in different lengths |
//! | `message` | numbers and sentences of errors, per thread |
//! | `default_heap` | the heap of functions that name none, and these functions; the class of what a thread allocates |
//! | `heap` | functions of explicit heaps, and what both kinds share: objects, and blocks that share pages |
//! | `reference` | objects by reference |
//! | `batch` | many objects at once, now or in the background |
//! | `durable` | durable heaps and their transactions |
//! | `volume` | volumes: their files, also as memory |
//! | `status` | sockets at which other processes ask for numbers |
//! | `forks` | forks of this process |
//!
//! Functions return numbered codes, set outputs only on success, check for NULL and never unwind (the
//! library is built with `panic = "abort"`).

mod abi;
mod batch;
mod default_heap;
mod durable;
mod forks;
mod heap;
mod message;
mod reference;
mod sized;
mod status;
mod volume;
