//! A mirror never has other bytes than were written, whatever donors and flash do.

mod allocations;
mod behind;
mod donors;
mod events;
mod losses;
mod model;
mod replicas;
mod sealed;
mod storms;
mod stripe;
