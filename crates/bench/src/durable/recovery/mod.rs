//! How long it takes to open a heap whose log is full, and how much memory its map takes.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `run` | all sizes in turn |
//! | `task` | the child that makes one sample |
//! | `sample` | lines of results |

pub mod options;
pub mod run;
pub mod sample;
pub mod task;
