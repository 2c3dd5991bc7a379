//! Files of a volume as memory.
//!
//! | file | noun |
//! |---|---|
//! | `command` | what is given on the command line |
//! | `layered` | the volume beside a conventional stack on the same parts |

mod command;
pub mod layered;

pub use command::{VolumeCommand, run};
