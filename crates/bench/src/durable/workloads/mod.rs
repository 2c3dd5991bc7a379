//! Four programs on the durable heap, and on heaps that write their data twice: each is written once, for all of them.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `run` | all systems in turn |
//! | `task` | the child that makes one sample |
//! | `engine` | the systems and the programs |
//! | `client` | what one thread of a program does |
//! | `map` | random changes of a hash map and of a B+tree |
//! | `queue` | pushes and pops |
//! | `tpcc` | orders and payments |
//! | `sample` | lines of results |

pub mod client;
pub mod engine;
pub mod map;
pub mod options;
pub mod queue;
pub mod run;
pub mod sample;
pub mod task;
pub mod tpcc;
