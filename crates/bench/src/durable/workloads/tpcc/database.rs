//! The tables, and what is in them at first.

use aquifer_base::limits::PARTITION_BYTES;
use aquifer_durable::structures::BTree;
use aquifer_durable::{Access, Ref, Result, Transactional, Typed, Value};

use super::records::{Account, Customer, DISTRICTS, District, Item, Level, Order, Stock, Warehouse};
use crate::rng::mix;

/// Records that are made in one transaction.
const FILLED_TOGETHER: u64 = 10;
/// A key is a warehouse, a district, and a number in it.
const WAREHOUSE_SHIFT: u32 = 48;
const DISTRICT_SHIFT: u32 = 40;

/// How many records there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Items, and their stocks in each warehouse.
    pub items: u64,
    /// Customers of each district.
    pub customers: u64,
}

impl Size {
    /// 500,000 entries give TPC-C's numbers: 100,000 items, 3,000 customers.
    pub fn of_entries(entries: u64) -> Self {
        Self { items: (entries / 5).max(100), customers: (entries * 3 / 500).max(10) }
    }
}

/// All tables.
#[derive(Clone, Copy)]
pub struct Database {
    pub warehouses: BTree<u64, Ref<Warehouse>>,
    pub customers: BTree<u64, Ref<Customer>>,
    pub items: BTree<u64, Ref<Item>>,
    pub stocks: BTree<u64, Ref<Stock>>,
    pub orders: BTree<u64, Ref<Order>>,
    pub new_orders: BTree<u64, ()>,
}

/// The key of something of a district.
pub fn district_key(warehouse: u64, district: u64, number: u64) -> u64 {
    warehouse << WAREHOUSE_SHIFT | district << DISTRICT_SHIFT | number
}

/// The key of something of a warehouse.
pub fn warehouse_key(warehouse: u64, number: u64) -> u64 {
    warehouse << WAREHOUSE_SHIFT | number
}

/// A warehouse's district.
pub fn district(warehouse: Ref<Warehouse>, district: u64) -> Ref<District> {
    let first = Warehouse::FIELDS.districts.offset_bytes() as u64;
    Ref::from_home(warehouse.home().plus_bytes(first + district * District::BYTES as u64))
}

/// Text that stands in a record.
fn text<const N: usize>(number: u64) -> [u64; N] {
    std::array::from_fn(|n| mix(number + n as u64))
}

impl Database {
    /// The tables with their first records.
    ///
    /// # Errors
    /// The heap's.
    pub fn create<H: Transactional>(heap: &H, size: Size, warehouses: u64) -> Result<Self> {
        let database = heap.transaction(|tx| {
            Ok(Self {
                warehouses: BTree::create(tx)?,
                customers: BTree::create(tx)?,
                items: BTree::create(tx)?,
                stocks: BTree::create(tx)?,
                orders: BTree::create(tx)?,
                new_orders: BTree::create(tx)?,
            })
        })?;
        fill(heap, database.items, size.items, |n| n, item)?;
        for warehouse in 0..warehouses {
            heap.transaction(|tx| database.add_warehouse(tx, warehouse))?;
            fill(heap, database.stocks, size.items, |n| warehouse_key(warehouse, n), stock)?;
            for district in 0..DISTRICTS {
                let key = |n| district_key(warehouse, district, n);
                fill(heap, database.customers, size.customers, key, customer)?;
            }
        }
        Ok(database)
    }

    fn add_warehouse(self, tx: &mut impl Access, number: u64) -> Result<()> {
        let warehouse = Ref::from_home(tx.alloc(PARTITION_BYTES as u64)?);
        let district = |n| District { received: 0, next_order: 0, tax: 10, address: text(n) };
        let districts = std::array::from_fn(|n| district(n as u64));
        tx.set(warehouse, Warehouse { received: 0, tax: 5, address: text(number), districts })?;
        self.warehouses.insert(tx, number, warehouse).map(drop)
    }
}

/// Puts so many new records into a table.
fn fill<H: Transactional, T: Value>(
    heap: &H,
    table: BTree<u64, Ref<T>>,
    count: u64,
    key: impl Fn(u64) -> u64,
    record: impl Fn(u64) -> T,
) -> Result<()> {
    for first in (0..count).step_by(FILLED_TOGETHER as usize) {
        heap.transaction(|tx| {
            (first..count.min(first + FILLED_TOGETHER)).try_for_each(|n| {
                let at = tx.create(record(n))?;
                table.insert(tx, key(n), at).map(drop)
            })
        })?;
    }
    Ok(())
}

fn item(number: u64) -> Item {
    Item { price: price(number), data: text(number) }
}

/// What an item costs.
pub fn price(item: u64) -> u64 {
    100 + mix(item) % 9_901
}

fn stock(number: u64) -> Stock {
    let level = Level { quantity: 10 + (mix(number) % 91) as u32, orders: 0, sold: 0 };
    Stock { level, districts: std::array::from_fn(|n| text(number + n as u64)), data: text(number) }
}

fn customer(number: u64) -> Customer {
    let account = Account { owed: 0, paid: 0, payments: 0, last: None };
    Customer { account, discount: mix(number) % 50, data: text(number) }
}

/// A district's text in an item's stock.
pub fn stock_text(stock: Ref<Stock>, district: u64) -> Ref<[u64; 3]> {
    let first = Stock::FIELDS.districts.offset_bytes() as u64;
    Ref::from_home(stock.home().plus_bytes(first + district * <[u64; 3]>::BYTES as u64))
}
