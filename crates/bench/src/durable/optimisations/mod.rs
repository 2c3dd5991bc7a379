//! What each optimisation of the durable heap gives: the same programs with all of them, and without one.
//!
//! | file | noun |
//! |---|---|
//! | `switch` | what is switched off |
//! | `options` | what is given on the command line |
//! | `run` | all switches in turn |
//! | `task` | the child that makes one sample |
//! | `sample` | lines of results |

pub mod options;
pub mod run;
pub mod sample;
pub mod switch;
pub mod task;
