//! Which slabs hold the columns of a group.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

use super::home::{DonorId, Home};

/// The slabs of a group. A slab may be replaced by another; a thread keeps the columns that it saw while it
/// holds a row's lock.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    /// Rows that slabs which join have.
    joined_rows: Arc<AtomicUsize>,
}

/// The slabs of one column.
#[derive(Clone, Default, Debug)]
struct Column {
    /// Has all rows.
    home: Option<Arc<Home>>,
    /// Takes its place when it has all rows.
    joining: Option<Arc<Home>>,
}

fn alive(home: Option<&Arc<Home>>) -> Option<&Arc<Home>> {
    home.filter(|home| home.is_alive())
}

impl Columns {
    fn new(count: usize) -> Columns {
        Columns { columns: vec![Column::default(); count], joined_rows: Arc::default() }
    }

    /// The slab from which a row of a column is read.
    pub fn reading(&self, column: usize, row: usize) -> Option<&Arc<Home>> {
        let column = &self.columns[column];
        alive(self.joined(column, row)).or_else(|| alive(column.home.as_ref()))
    }

    /// The column that is read of slabs with the same bytes: each of them has its share of the rows.
    pub fn in_turn(&self, row: usize) -> usize {
        let count = self.columns.len();
        (0..count)
            .map(|nth| (row + nth) % count)
            .find(|column| self.reading(*column, row).is_some())
            .unwrap_or(0)
    }

    /// The slabs to which a row of a column is written.
    pub fn writing(&self, column: usize, row: usize) -> impl Iterator<Item = &Arc<Home>> {
        let column = &self.columns[column];
        alive(column.home.as_ref()).into_iter().chain(alive(self.joined(column, row)))
    }

    fn joined<'a>(&self, column: &'a Column, row: usize) -> Option<&'a Arc<Home>> {
        column.joining.as_ref().filter(|_| row < self.joined_rows.load(SeqCst))
    }

    /// The slab that joins a column and has not this row yet.
    pub fn joining_only(&self, column: usize, row: usize) -> Option<&Arc<Home>> {
        self.joining(column).filter(|_| row >= self.joined_rows.load(SeqCst))
    }

    /// The slab that joins a column.
    pub fn joining(&self, column: usize) -> Option<&Arc<Home>> {
        alive(self.columns[column].joining.as_ref())
    }

    /// Whether no slab joins a column: all rows are in the same slabs.
    pub fn are_settled(&self) -> bool {
        self.columns.iter().all(|column| column.joining.is_none())
    }

    /// Slabs that join have one row more.
    pub fn note_joined(&self, row: usize) {
        self.joined_rows.store(row + 1, SeqCst);
    }

    /// Columns whose slab is missing, or is to be left.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let is_good = |column: &Column| column.home.as_ref().is_some_and(|home| home.is_good());
        self.columns.iter().enumerate().filter(move |(_, column)| !is_good(column)).map(|(nth, _)| nth)
    }

    /// Columns that have a slab for a row which stays.
    pub fn staying(&self, row: usize) -> usize {
        let stays = |column: &usize| self.writing(*column, row).any(|home| home.is_good());
        (0..self.columns.len()).filter(stays).count()
    }

    /// Donors of all slabs that are alive.
    pub fn donors(&self) -> Vec<DonorId> {
        self.homes().filter(|home| home.is_alive()).map(|home| home.donor()).collect()
    }

    fn homes(&self) -> impl Iterator<Item = &Arc<Home>> {
        self.columns.iter().flat_map(|column| [&column.home, &column.joining]).flatten()
    }

    /// Whether a slab is one of these.
    fn has(&self, home: &Home) -> bool {
        self.homes().any(|own| std::ptr::eq(&**own, home))
    }
}

/// A group of slabs.
#[derive(Debug)]
pub struct Group {
    columns: RwLock<Arc<Columns>>,
    is_wanted: AtomicBool,
    /// Whether donors alone may have some pages.
    is_remote_alone: AtomicBool,
    /// Whether flash has all that donors have, because there are too few of them.
    is_on_flash: AtomicBool,
    /// Slabs that were lost.
    lost_slabs: AtomicU64,
}

impl Group {
    /// A group of `slabs` columns, without slabs.
    pub fn new(slabs: usize) -> Group {
        Group {
            columns: RwLock::new(Arc::new(Columns::new(slabs))),
            is_wanted: AtomicBool::new(false),
            is_remote_alone: AtomicBool::new(false),
            is_on_flash: AtomicBool::new(false),
            lost_slabs: AtomicU64::new(0),
        }
    }

    /// Slabs that were lost: of no use any more, also if only the thread that finds slabs noticed it.
    pub fn lost_slabs(&self) -> u64 {
        self.lost_slabs.load(Relaxed)
    }

    /// Its slabs now.
    pub fn columns(&self) -> Arc<Columns> {
        Arc::clone(&self.columns.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes its slabs, and counts those that leave it because their donor is gone, which nobody has noted.
    fn change(&self, change: impl FnOnce(&mut Columns)) {
        let mut columns = self.columns.write().unwrap_or_else(PoisonError::into_inner);
        let mut after = Columns::clone(&columns);
        change(&mut after);
        let is_gone = |home: &Home| !home.is_noted_lost() && !home.is_alive();
        let lost = columns.homes().filter(|home| !after.has(home) && is_gone(home)).count();
        self.lost_slabs.fetch_add(lost as u64, Relaxed);
        let before = std::mem::replace(&mut *columns, Arc::new(after));
        drop(columns);
        // The last use of a slab gives it back: not while others wait.
        drop(before);
    }

    /// Notes that it should have slabs; says whether it is the first time.
    pub fn want(&self) -> bool {
        !self.is_wanted.load(Relaxed) && !self.is_wanted.swap(true, Relaxed)
    }

    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// Notes that donors alone have some pages, before their cells say so.
    pub fn note_remote_alone(&self) {
        self.is_remote_alone.store(true, SeqCst);
    }

    /// Whether donors alone may have some pages; what is noted from now on counts anew.
    pub fn take_remote_alone(&self) -> bool {
        self.is_remote_alone.load(SeqCst) && self.is_remote_alone.swap(false, SeqCst)
    }

    /// Whether it has all slabs, and they have all rows.
    pub fn is_whole(&self) -> bool {
        self.columns().missing().next().is_none()
    }

    pub fn is_on_flash(&self) -> bool {
        self.is_on_flash.load(Relaxed)
    }

    pub fn note_on_flash(&self, is_on_flash: bool) {
        self.is_on_flash.store(is_on_flash, Relaxed);
    }

    /// A slab of it is of no use any more. The thread that finds slabs takes it out: that allocates, and this may not.
    pub fn lose(&self, home: &Home) {
        self.lost_slabs.fetch_add(u64::from(home.note_lost()), Relaxed);
    }

    /// Slabs join these columns; they have no row yet.
    pub fn join(&self, found: Vec<(usize, Arc<Home>)>) -> Arc<Columns> {
        self.change(|columns| {
            columns.joined_rows = Arc::default();
            columns.columns.iter_mut().for_each(|column| column.joining = None);
            for (column, home) in found {
                columns.columns[column].joining = Some(home);
            }
        });
        self.columns()
    }

    /// Ends a rebuild: slabs that joined have all rows now. A slab that its donor asks back is dropped if it
    /// has a successor, or if `leaves_all`.
    pub fn finish(&self, leaves_all: bool) {
        if self.columns().columns.iter().all(|column| column.home.is_none() && column.joining.is_none()) {
            return;
        }
        self.change(|columns| {
            for column in &mut columns.columns {
                if let Some(joined) = column.joining.take().filter(|home| home.is_alive()) {
                    joined.note_filled();
                    column.home = Some(joined);
                } else if column
                    .home
                    .as_ref()
                    .is_some_and(|home| !home.is_good() && (leaves_all || !home.is_alive()))
                {
                    column.home = None;
                }
            }
        });
    }
}
