//! The durable heap beside other stores whose contents survive a crash.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `transactions` | all systems in turn |
//! | `turns` | samples one after the other, each in a process of its own |
//! | `directory` | where their files are |
//! | `system` | the systems, and what each guarantees |
//! | `task` | the child that makes one sample |
//! | `load` | threads, and which objects and keys each of them takes |
//! | `store` | what a system must do for the loads, and one file for each system |
//! | `sample` | lines of results |
//! | `heaps` | heaps on memory that is slowed down, and what a phase of transactions on them takes |
//! | `cleaning` | what cleaning costs |
//! | `recovery` | how long opening takes |
//! | `optimisations` | what each optimisation gives |
//! | `workloads` | four programs, beside heaps that write their data twice |

pub mod cleaning;
pub mod directory;
pub mod heaps;
pub mod load;
pub mod optimisations;
pub mod options;
pub mod recovery;
pub mod sample;
pub mod store;
pub mod system;
pub mod task;
pub mod transactions;
pub mod turns;
pub mod workloads;
