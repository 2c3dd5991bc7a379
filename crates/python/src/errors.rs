//! Exceptions of the kinds that Python users expect, with the library's sentences.

use aquifer::{Error, ErrorCode};
use pyo3::PyErr;
use pyo3::exceptions::{
    PyConnectionError, PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError, PyRuntimeError,
    PyValueError,
};

/// `ENOSPC`, `EBUSY`
const NO_SPACE: i32 = 28;
const BUSY: i32 = 16;

/// The exception for an error of the library.
pub(crate) fn exception(error: &Error) -> PyErr {
    let text = error.to_string();
    match error.code() {
        ErrorCode::Invalid | ErrorCode::BudgetSmall | ErrorCode::BudgetLarge | ErrorCode::FlashSmall => {
            PyValueError::new_err(text)
        }
        ErrorCode::NoMemory => PyMemoryError::new_err(text),
        ErrorCode::FlashMissing => PyFileNotFoundError::new_err(text),
        ErrorCode::FlashPermission | ErrorCode::UffdForbidden => PyPermissionError::new_err(text),
        ErrorCode::FlashBusy => PyOSError::new_err((BUSY, text)),
        ErrorCode::FlashFull => PyOSError::new_err((NO_SPACE, text)),
        ErrorCode::Gone => PyConnectionError::new_err(text),
        ErrorCode::Io | ErrorCode::Corrupt | ErrorCode::Kernel => PyOSError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
