//! The heap of functions that name none.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use aquifer::{Error, ErrorCode, Heap, Options};

static DEFAULT: RwLock<Option<Arc<Heap>>> = RwLock::new(None);

/// Opens the default heap.
pub(crate) fn open(options: Options) -> Result<(), i32> {
    let mut slot = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    if slot.is_some() {
        return Err(crate::message::fail_with(ErrorCode::Open, "the default heap is open already"));
    }
    *slot = Some(Arc::new(Heap::open(options).map_err(|error| crate::message::fail(&error))?));
    Ok(())
}

/// The heap, for work that may outlast the call; it is closed when that has ended.
pub(crate) fn shared() -> Result<Arc<Heap>, i32> {
    let heap = DEFAULT.read().unwrap_or_else(PoisonError::into_inner);
    heap.clone().ok_or_else(|| crate::message::fail_with(ErrorCode::Closed, "the default heap is not open"))
}

/// Closes it.
pub(crate) fn close() -> Result<(), i32> {
    let heap = DEFAULT.write().unwrap_or_else(PoisonError::into_inner).take();
    match heap {
        Some(_) => Ok(()),
        None => Err(crate::message::fail_with(ErrorCode::Closed, "the default heap is not open")),
    }
}

/// Runs `with` on the default heap, opening it from the environment if `open_first`. `None`: the message
/// was kept.
pub(crate) fn with<T>(open_first: bool, with: impl FnOnce(&Heap) -> Result<T, Error>) -> Result<T, i32> {
    let heap = DEFAULT.read().unwrap_or_else(PoisonError::into_inner);
    if heap.is_some() {
        return run(heap, with);
    }
    drop(heap);
    if !open_first {
        return Err(crate::message::fail_with(
            ErrorCode::Closed,
            "the default heap is not open; call aq_init",
        ));
    }
    let opened = Options::from_env().map_err(|error| crate::message::fail(&error)).and_then(open);
    // Another thread may have been first; that is as good.
    if let Err(code) = opened
        && code != ErrorCode::Open as i32
    {
        return Err(code);
    }
    run(DEFAULT.read().unwrap_or_else(PoisonError::into_inner), with)
}

fn run<T>(
    heap: RwLockReadGuard<'_, Option<Arc<Heap>>>,
    with: impl FnOnce(&Heap) -> Result<T, Error>,
) -> Result<T, i32> {
    match &*heap {
        Some(heap) => with(heap).map_err(|error| crate::message::fail(&error)),
        None => Err(crate::message::fail_with(ErrorCode::Closed, "the default heap was closed meanwhile")),
    }
}
