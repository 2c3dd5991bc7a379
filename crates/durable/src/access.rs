//! What data structures need of a transaction, and of a heap: they work on any that keeps these promises.

use aquifer_base::HomeAddress;
use aquifer_sys::Backoff;

use crate::error::{Error, Result};
use crate::heap::DurableHeap;
use crate::homes;
use crate::transaction::{ReadTransaction, Transaction};

/// What is read of a heap: one state of it.
///
/// After an error nothing more should be done with it; [`Error::Conflict`] means that it must be run again.
pub trait Load {
    /// Fills `out` with the bytes from `home` on.
    ///
    /// # Errors
    /// See [`Transaction::load`].
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()>;

    /// The number at `home`, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Load::load`].
    #[inline]
    fn load_u64(&mut self, home: HomeAddress) -> Result<u64> {
        let mut bytes = [0; 8];
        self.load(home, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The program's first object, through which it finds all others.
    ///
    /// # Errors
    /// As [`Load::load`].
    fn root(&mut self) -> Result<Option<HomeAddress>> {
        let root = self.load_u64(homes::ROOT)?;
        Ok((root != 0).then_some(HomeAddress(root)))
    }
}

/// A transaction under way: one state of the heap, and its own writes.
pub trait Access: Load {
    /// Writes `bytes` from `home` on.
    ///
    /// # Errors
    /// See [`Transaction::store`].
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()>;

    /// A new object of `bytes`, all zeros.
    ///
    /// # Errors
    /// See [`Transaction::alloc`].
    fn alloc(&mut self, bytes: u64) -> Result<HomeAddress>;

    /// Frees the object at `home`.
    ///
    /// # Errors
    /// See [`Transaction::free`].
    fn free(&mut self, home: HomeAddress) -> Result<()>;

    /// Makes all of it durable, and then visible, at once.
    ///
    /// # Errors
    /// See [`Transaction::commit`].
    fn commit(self) -> Result<()>
    where
        Self: Sized;

    /// Writes a number at `home`, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Access::store`].
    #[inline]
    fn store_u64(&mut self, home: HomeAddress, number: u64) -> Result<()> {
        self.store(home, &number.to_ne_bytes())
    }

    /// Makes an object the first one.
    ///
    /// # Errors
    /// As [`Access::store`].
    fn set_root(&mut self, root: HomeAddress) -> Result<()> {
        self.store_u64(homes::ROOT, root.0)
    }
}

/// A heap that runs transactions.
pub trait Transactional: Sync {
    /// Its transactions.
    type Transaction<'a>: Access
    where
        Self: 'a;

    /// Begins a transaction that the caller commits.
    fn begin(&self) -> Self::Transaction<'_>;

    /// Runs `body` in a transaction and commits it; again if it met another one, so it should have no other effects.
    ///
    /// # Errors
    /// Those of `body` and of the commit; nothing of the transaction has happened then.
    #[inline]
    fn transaction<T>(&self, mut body: impl FnMut(&mut Self::Transaction<'_>) -> Result<T>) -> Result<T> {
        until_no_conflict(|| {
            let mut transaction = self.begin();
            body(&mut transaction).and_then(|value| transaction.commit().map(|()| value))
        })
    }
}

/// Runs `attempt`, again while it meets other transactions.
#[inline]
pub(crate) fn until_no_conflict<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut backoff = Backoff::new();
    loop {
        match attempt() {
            Err(Error::Conflict) => backoff.wait(),
            other => return other,
        }
    }
}

impl Load for Transaction<'_> {
    #[inline]
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        Transaction::load(self, home, out)
    }
}

impl Load for ReadTransaction<'_> {
    #[inline]
    fn load(&mut self, home: HomeAddress, out: &mut [u8]) -> Result<()> {
        ReadTransaction::load(self, home, out)
    }
}

impl Access for Transaction<'_> {
    #[inline]
    fn store(&mut self, home: HomeAddress, bytes: &[u8]) -> Result<()> {
        Transaction::store(self, home, bytes)
    }

    fn alloc(&mut self, bytes: u64) -> Result<HomeAddress> {
        Transaction::alloc(self, bytes)
    }

    fn free(&mut self, home: HomeAddress) -> Result<()> {
        Transaction::free(self, home)
    }

    #[inline]
    fn commit(self) -> Result<()> {
        Transaction::commit(self)
    }
}

impl Transactional for DurableHeap {
    type Transaction<'a> = Transaction<'a>;

    #[inline]
    fn begin(&self) -> Transaction<'_> {
        DurableHeap::begin(self)
    }
}
