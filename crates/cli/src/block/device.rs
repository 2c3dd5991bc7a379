//! The device that is served.

use std::sync::Arc;

use aquifer_device::{Device, FileDevice};

use super::arguments::BlockArguments;
use crate::error::Error;

/// The device that the arguments name. This is the one place that knows what it is made of; whatever serves it sees a [`Device`] and nothing else.
///
/// # Errors
/// [`Error::BlockDevice`].
pub fn device(arguments: &BlockArguments) -> Result<Arc<dyn Device>, Error> {
    let local = FileDevice::open(&arguments.flash, arguments.size)?;
    Ok(Arc::new(local))
}
