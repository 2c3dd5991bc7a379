//! What cleaning costs: the same updates on a heap that has so much room that nothing is cleaned, and on ones that are nearly full.
//!
//! | file | noun |
//! |---|---|
//! | `options` | what is given on the command line |
//! | `run` | all utilisations in turn |
//! | `task` | the child that makes one sample |
//! | `objects` | objects that are written whole |
//! | `sample` | lines of results |

pub mod objects;
pub mod options;
pub mod run;
pub mod sample;
pub mod task;
