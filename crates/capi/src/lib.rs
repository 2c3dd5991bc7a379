//! C interface of Aquifer
