//! The durable heap beside other stores whose contents survive a crash.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `transactions` | all systems in turn, each sample in a process of its own |
//! | `system` | the systems, and what each guarantees |
//! | `task` | the child that makes one sample |
//! | `load` | threads, and which objects and keys each of them takes |
//! | `store` | what a system must do for the loads, and one file for each system |
//! | `sample` | lines of results |

pub mod load;
pub mod options;
pub mod sample;
pub mod store;
pub mod system;
pub mod task;
pub mod transactions;
