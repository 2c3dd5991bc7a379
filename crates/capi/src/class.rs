//! The class of what the calling thread allocates.

use std::ffi::{c_int, c_uint};

use aquifer::{AllocationClass, Error};

use crate::message;

/// The calling thread's class.
#[unsafe(no_mangle)]
pub extern "C" fn aq_class() -> c_uint {
    aquifer::current_class().0.into()
}

/// Objects that the calling thread allocates from now on are of this class.
#[unsafe(no_mangle)]
pub extern "C" fn aq_set_class(number: c_uint) -> c_int {
    match u8::try_from(number) {
        Ok(number) => {
            aquifer::set_class(AllocationClass(number));
            0
        }
        Err(_) => {
            message::fail(&Error::Invalid(format!("class {number} is above {} (AQ_CLASS_MAX)", u8::MAX)))
        }
    }
}
