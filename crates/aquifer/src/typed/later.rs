//! A batch in the background.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::Error;

/// What a batch in the background will have read: a future for any executor, or [`Later::wait`] without one. Dropping it leaves the
/// batch to end by itself.
#[must_use = "the values are in it"]
pub struct Later<T>(Arc<Shared<T>>);

/// The other end.
pub(super) struct Promise<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    kept: Condvar,
}

enum State<T> {
    /// And who is to be woken.
    UnderWay(Option<Waker>),
    Done(Result<Vec<T>, Error>),
    Taken,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Result<Vec<T>, Error>> {
        match std::mem::replace(self, Self::Taken) {
            Self::Done(values) => Some(values),
            under_way @ Self::UnderWay(_) => {
                *self = under_way;
                None
            }
            Self::Taken => Some(Err(Error::Invalid("the values of this batch were taken".into()))),
        }
    }
}

impl<T> Later<T> {
    pub(super) fn new() -> (Self, Promise<T>) {
        let shared = Shared { state: Mutex::new(State::UnderWay(None)), kept: Condvar::new() };
        let shared = Arc::new(shared);
        (Self(Arc::clone(&shared)), Promise(shared))
    }

    /// Waits for the values.
    ///
    /// # Errors
    /// As of the batch.
    pub fn wait(self) -> Result<Vec<T>, Error> {
        let mut state = self.0.lock();
        loop {
            if let Some(values) = state.take() {
                return values;
            }
            state = self.0.kept.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Promise<T> {
    pub(super) fn keep(self, values: Result<Vec<T>, Error>) {
        self.settle(State::Done(values));
    }

    fn settle(&self, state: State<T>) {
        let before = std::mem::replace(&mut *self.0.lock(), state);
        self.0.kept.notify_all();
        if let State::UnderWay(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let is_kept = !matches!(*self.0.lock(), State::UnderWay(_));
        if !is_kept {
            self.settle(State::Done(Err(Error::Invalid("the thread for batches has ended".into()))));
        }
    }
}

impl<T> Future for Later<T> {
    type Output = Result<Vec<T>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match state.take() {
            Some(values) => Poll::Ready(values),
            None => {
                *state = State::UnderWay(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}
