//! Random transactions of one thread, and the model of what they do.

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Error, Result, Transactional};

use crate::machine::mix;
use crate::model::{Model, Subject};

/// What a program's objects are like.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Sizes, each as likely.
    pub sizes: &'static [u64],
    /// One in 64 is of one of these, one at a time.
    pub large: &'static [u64],
    /// Objects at most.
    pub objects_max: u64,
}

/// Transactions in which objects become more, and as many in which they become fewer.
const PHASE: u64 = 250;

/// One thread's program.
pub struct Program {
    pub model: Model,
    shape: Shape,
    random: u64,
    /// Transactions that were acknowledged.
    pub committed: u64,
    /// Those of them that are durable.
    pub durable: u64,
    /// The transaction under way may have committed.
    is_committing: bool,
}

impl Program {
    pub fn new(seed: u64, shape: Shape) -> Self {
        let (model, random) = (Model::default(), mix(seed));
        Self { model, shape, random, committed: 0, durable: 0, is_committing: false }
    }

    /// A random number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.random += 1;
        mix(self.random) % end
    }

    /// Objects become fewer now.
    pub fn is_draining(&self) -> bool {
        self.committed / PHASE % 2 == 1
    }

    /// One transaction of up to four changes, and what `more` does in it.
    ///
    /// # Errors
    /// The machine's. Then the transaction is under way, until [`Program::settle`].
    pub fn step<H: Transactional>(
        &mut self,
        heap: &H,
        more: &mut impl FnMut(&mut H::Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        let random = self.random;
        loop {
            self.random = random;
            let outcome = self.attempt(heap, more);
            if !matches!(outcome, Err(Error::Conflict)) {
                return outcome;
            }
            self.is_committing = false;
            self.model.roll_back();
            std::thread::yield_now();
        }
    }

    fn attempt<H: Transactional>(
        &mut self,
        heap: &H,
        more: &mut impl FnMut(&mut H::Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = heap.begin();
        for _ in 0..1 + self.below(4) {
            self.change(&mut transaction)?;
        }
        more(&mut transaction)?;
        self.is_committing = true;
        transaction.commit()?;
        self.is_committing = false;
        self.model.commit();
        self.committed += 1;
        Ok(())
    }

    fn change(&mut self, transaction: &mut impl Access) -> Result<()> {
        let count = self.model.objects.len() as u64;
        let any = self.below(count.max(1)) as usize;
        let any = self.model.objects.keys().nth(any).copied();
        let more = if self.is_draining() { 1 } else { 4 };
        match (self.below(10), any) {
            (dice, _) if dice < more && count < self.shape.objects_max => self.alloc(transaction),
            (_, None) => self.alloc(transaction),
            (0..6, Some(home)) if self.is_draining() || self.below(4) == 0 => {
                transaction.free(home)?;
                self.model.put(home, None);
                Ok(())
            }
            (_, Some(home)) => self.store(transaction, home),
        }
    }

    fn alloc(&mut self, transaction: &mut impl Access) -> Result<()> {
        let largest = self.model.objects.values().map(Vec::len).max().unwrap_or(0) as u64;
        let large = self.shape.large;
        let is_large = self.below(64) == 0 && large.first().is_some_and(|&least| largest < least);
        let sizes = if is_large { large } else { self.shape.sizes };
        let len = sizes[self.below(sizes.len() as u64) as usize];
        let home = transaction.alloc(len)?;
        assert!(!self.model.objects.contains_key(&home), "{home:?} is another object's");
        // Some are written in part, or not at all.
        let start = if self.below(4) == 0 { self.below(len + 1) } else { 0 } as usize;
        let (mut bytes, fill) = (vec![0; len as usize], self.below(255) as u8 + 1);
        bytes[start..].fill(fill);
        self.model.history.add(home, 0..len as usize, 0);
        self.model.history.add(home, start..len as usize, fill);
        transaction.store(home.plus_bytes(start as u64), &bytes[start..])?;
        self.model.put(home, Some(bytes));
        Ok(())
    }

    fn store(&mut self, transaction: &mut impl Access, home: HomeAddress) -> Result<()> {
        let mut bytes = self.model.objects[&home].clone();
        let start = self.below(bytes.len() as u64) as usize;
        let end = start + 1 + self.below((bytes.len() - start).min(3000) as u64) as usize;
        let fill = self.below(255) as u8 + 1;
        bytes[start..end].fill(fill);
        self.model.history.add(home, start..end, fill);
        transaction.store(home.plus_bytes(start as u64), &bytes[start..end])?;
        self.model.put(home, Some(bytes));
        Ok(())
    }

    /// The first `count` transactions are durable.
    pub fn keep(&mut self, count: u64) {
        self.durable = count.max(self.durable);
        self.model.keep(self.committed - self.durable);
    }

    /// After a crash of a heap whose commits wait: the transaction under way has happened, or not.
    pub fn settle(&mut self, heap: &impl Subject) -> std::result::Result<(), String> {
        if std::mem::take(&mut self.is_committing) && self.model.check(heap).is_ok() {
            self.model.commit();
            self.committed += 1;
        } else {
            self.model.roll_back();
        }
        self.keep(self.committed);
        self.model.check(heap)
    }

    /// After a crash: the first `count` transactions have happened, and no other.
    ///
    /// # Errors
    /// That cannot be.
    pub fn settle_at(&mut self, count: u64) -> std::result::Result<(), String> {
        let most = self.committed + u64::from(self.is_committing);
        if !(self.durable..=most).contains(&count) {
            return Err(format!("{count} transactions are there, of {} to {most}", self.durable));
        }
        let has_happened = count > self.committed;
        self.is_committing = false;
        if has_happened {
            self.model.commit();
        } else {
            self.model.roll_back();
        }
        (count..self.committed).for_each(|_| self.model.lose());
        self.committed = count;
        self.keep(count);
        Ok(())
    }
}
