//! Orders and payments: TPC-C-like, not TPC-C (Transaction Processing Performance Council, "TPC Benchmark C", revision 5.11).
//!
//! Half of the transactions are new orders of 5 to 15 lines, half are payments. Records have the sizes of TPC-C's rows, tables are
//! B+trees that lead to them; what transactions change together stands together. Reduced: each thread has one warehouse to itself, from
//! which all items come; nothing rolls back; orders stay, and are not delivered; customers are known by number.

use aquifer_base::limits::PARTITION_BYTES;
use aquifer_durable::structures::BTree;
use aquifer_durable::{Access, Ref, Result, Transactional, Typed, Value, durable_struct};

use super::terminal::Terminal;
use super::{Client, Clients, Size};
use crate::payload::Payload;
use crate::rng::mix;

/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;

durable_struct! {
    /// A warehouse with its districts: on 4 KiB of its own, so that terminals of others do not meet there.
    pub struct Warehouse {
        pub received: u64,
        pub tax: u64,
        pub address: [u64; 9],
        pub districts: [District; 10],
    }
}

durable_struct! {
    pub struct District {
        pub received: u64,
        pub next_order: u32,
        pub tax: u32,
        pub address: [u64; 10],
    }
}

durable_struct! {
    /// What a payment changes of a customer.
    pub struct Account {
        pub owed: i64,
        pub paid: u64,
        pub payments: u64,
        pub last: Option<Ref<Payment>>,
    }
}

durable_struct! {
    pub struct Customer {
        pub account: Account,
        pub discount: u64,
        pub data: [u64; 77],
    }
}

durable_struct! {
    /// A payment, and the customer's one before.
    pub struct Payment {
        pub customer: u64,
        pub amount: u64,
        pub date: u64,
        pub before: Option<Ref<Payment>>,
        pub data: [u64; 2],
    }
}

durable_struct! {
    pub struct Item {
        pub price: u64,
        pub data: [u64; 9],
    }
}

durable_struct! {
    /// What an order changes of an item's stock.
    pub struct Level {
        pub quantity: u32,
        pub orders: u32,
        pub sold: u64,
    }
}

durable_struct! {
    pub struct Stock {
        pub level: Level,
        pub districts: [[u64; 3]; 10],
        pub data: [u64; 6],
    }
}

durable_struct! {
    pub struct Order {
        pub customer: u32,
        pub lines: u32,
        pub date: u64,
        pub carrier: u64,
        pub first_line: Ref<Line>,
    }
}

durable_struct! {
    pub struct Line {
        pub number: u32,
        pub item: u32,
        pub warehouse: u32,
        pub quantity: u32,
        pub amount: u64,
        pub delivered: u64,
        pub district: [u64; 3],
    }
}

/// Records that are made in one transaction.
const FILLED_TOGETHER: u64 = 10;
const WAREHOUSE_TAX: u64 = 5;
const DISTRICT_TAX: u64 = 10;
/// A key is a warehouse, a district, and a number in it.
const WAREHOUSE_SHIFT: u32 = 48;
const DISTRICT_SHIFT: u32 = 40;

/// How many records there are.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Items, and their stocks in each warehouse.
    pub items: u64,
    /// Customers of each district.
    pub customers: u64,
}

impl Rows {
    /// 500,000 entries give TPC-C's numbers: 100,000 items, 3,000 customers.
    pub fn of_entries(entries: u64) -> Self {
        Self { items: (entries / 5).max(100), customers: (entries * 3 / 500).max(10) }
    }
}

/// All tables.
#[derive(Clone, Copy)]
pub struct Database {
    pub payload: Payload,
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
fn text<const N: usize>(payload: Payload, number: u64) -> [u64; N] {
    std::array::from_fn(|n| payload.word(number, n as u64))
}

/// What an item's stock has for a district.
pub fn district_text(payload: Payload, item: u64, district: u64) -> [u64; 3] {
    text(payload, item + district)
}

/// What a customer pays of a price, in percent.
pub fn percent_of(customer: u64) -> u64 {
    100 + WAREHOUSE_TAX + DISTRICT_TAX - discount(customer)
}

fn discount(customer: u64) -> u64 {
    mix(customer) % 50
}

/// The clients of one database, whose size goes by the number of entries.
pub(super) fn clients<H: Transactional>(heap: &H, size: Size, payload: Payload) -> Result<Clients<H>> {
    let rows = Rows::of_entries(size.entries);
    let database = Database::create(heap, payload, rows, size.threads)?;
    let terminal =
        |warehouse| -> Box<dyn Client<H>> { Box::new(Terminal::new(database, rows, warehouse, size.seed)) };
    Ok((0..size.threads).map(terminal).collect())
}

impl Database {
    fn create<H: Transactional>(heap: &H, payload: Payload, rows: Rows, warehouses: u64) -> Result<Self> {
        let database = heap.transaction(|tx| {
            Ok(Self {
                payload,
                warehouses: BTree::create(tx)?,
                customers: BTree::create(tx)?,
                items: BTree::create(tx)?,
                stocks: BTree::create(tx)?,
                orders: BTree::create(tx)?,
                new_orders: BTree::create(tx)?,
            })
        })?;
        fill(heap, database.items, rows.items, |n| n, |n| database.item(n))?;
        for warehouse in 0..warehouses {
            heap.transaction(|tx| database.add_warehouse(tx, warehouse))?;
            fill(heap, database.stocks, rows.items, |n| warehouse_key(warehouse, n), |n| database.stock(n))?;
            for district in 0..DISTRICTS {
                let key = |n| district_key(warehouse, district, n);
                fill(heap, database.customers, rows.customers, key, |n| database.customer(n))?;
            }
        }
        Ok(database)
    }

    fn add_warehouse(self, tx: &mut impl Access, number: u64) -> Result<()> {
        let warehouse = Ref::from_home(tx.alloc(PARTITION_BYTES as u64)?);
        let district = |n| District {
            received: 0,
            next_order: 0,
            tax: DISTRICT_TAX as u32,
            address: text(self.payload, n),
        };
        let districts = std::array::from_fn(|n| district(n as u64));
        tx.set(
            warehouse,
            Warehouse { received: 0, tax: WAREHOUSE_TAX, address: text(self.payload, number), districts },
        )?;
        self.warehouses.insert(tx, number, warehouse).map(drop)
    }

    fn item(self, number: u64) -> Item {
        Item { price: price(number), data: text(self.payload, number) }
    }

    fn stock(self, number: u64) -> Stock {
        let level = Level { quantity: 10 + (mix(number) % 91) as u32, orders: 0, sold: 0 };
        let districts = std::array::from_fn(|n| district_text(self.payload, number, n as u64));
        Stock { level, districts, data: text(self.payload, number) }
    }

    fn customer(self, number: u64) -> Customer {
        let account = Account { owed: 0, paid: 0, payments: 0, last: None };
        Customer { account, discount: discount(number), data: text(self.payload, number) }
    }
}

/// Puts `count` new records into a table.
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

/// What an item costs.
pub fn price(item: u64) -> u64 {
    100 + mix(item) % 9_901
}

/// A district's text in an item's stock.
pub fn stock_text(stock: Ref<Stock>, district: u64) -> Ref<[u64; 3]> {
    let first = Stock::FIELDS.districts.offset_bytes() as u64;
    Ref::from_home(stock.home().plus_bytes(first + district * <[u64; 3]>::BYTES as u64))
}
