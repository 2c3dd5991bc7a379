//! What is in the tables at first (clause 4.3.3).

use super::super::super::connection::{Connection, Statement};
use super::super::insert_all;
use super::super::random::Pool;
use super::super::random::{LAST_NAMES, NuRand, between};
use super::schema::Size;
use super::schema::{
    DISTRICT_TEXT_BYTES, DISTRICTS, INDEXES, LINES_MAX, LINES_MIN, TABLES, customer_key, district_key,
    last_name, line_key, order_key, stock_key, warehouse_of,
};
use crate::error::Result;
use crate::rng::{Rng, mix};

const FILL_SEED: u64 = 0xC;
const TAX_MAX: u64 = 2_000;
const DISTRICT_YTD: i64 = 3_000_000;
const CREDIT_LIMIT: i64 = 5_000_000;
const DISCOUNT_MAX: u64 = 5_000;
const FIRST_PAYMENT: i64 = 1_000;
/// One customer in ten has bad credit.
const BAD_CREDIT_PERCENT: u64 = 10;
/// Customers before this one have all the names once.
const NAMES: u64 = 1_000;
const CARRIERS: u64 = 10;

/// Makes and fills the tables.
///
/// # Errors
/// Those of [`Connection`].
pub fn fill(connection: &Connection, size: Size, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
    connection.execute(TABLES)?;
    let mut filler = Filler::new(connection, size);
    let total = size.told_rows();
    filler.items(|done| tell(done, total))?;
    let mut before = size.items;
    for warehouse in 0..size.warehouses {
        filler.warehouse(warehouse)?;
        filler.stocks(warehouse, |done| tell(before + done, total))?;
        before += size.items;
        for district in 0..DISTRICTS {
            filler.district(district_key(warehouse, district))?;
            before += size.customers;
            tell(before, total);
        }
    }
    connection.execute(INDEXES)
}

struct Filler<'c> {
    connection: &'c Connection,
    size: Size,
    pool: Pool,
    rng: Rng,
    nurand: NuRand,
}

impl<'c> Filler<'c> {
    fn new(connection: &'c Connection, size: Size) -> Self {
        let (pool, rng) = (Pool::new(FILL_SEED), Rng::new(FILL_SEED));
        Self { connection, size, pool, rng, nurand: NuRand::new(FILL_SEED) }
    }

    fn text(&mut self, least: u64, most: u64) -> &str {
        let length = between(&mut self.rng, least, most);
        self.pool.take(&mut self.rng, length)
    }

    fn items(&mut self, tell: impl FnMut(u64)) -> Result<()> {
        let (connection, size) = (self.connection, self.size);
        let mut insert = connection.prepare("INSERT INTO items VALUES (?, ?, ?, ?, ?)")?;
        let row = |n: u64| {
            let image = between(&mut self.rng, 1, 10_000) as i64;
            let price = between(&mut self.rng, 100, 10_000) as i64;
            let name = self.text(14, 24).to_owned();
            insert.run(&[
                (n as i64).into(),
                image.into(),
                (&*name).into(),
                price.into(),
                self.text(26, 50).into(),
            ])
        };
        insert_all(connection, size.items, row, tell)
    }

    fn warehouse(&mut self, warehouse: u64) -> Result<()> {
        let mut insert = self.connection.prepare("INSERT INTO warehouses VALUES (?, ?, ?, ?, ?)")?;
        let (name, address) = (self.text(6, 10).to_owned(), self.text(71, 91).to_owned());
        let (tax, ytd) = (self.rng.below(TAX_MAX + 1) as i64, DISTRICT_YTD * DISTRICTS as i64);
        insert.run(&[(warehouse as i64).into(), (&*name).into(), (&*address).into(), tax.into(), ytd.into()])
    }

    fn stocks(&mut self, warehouse: u64, tell: impl FnMut(u64)) -> Result<()> {
        let (connection, size) = (self.connection, self.size);
        let mut insert = connection.prepare("INSERT INTO stocks VALUES (?, ?, ?, 0, 0, 0, ?)")?;
        let row = |item| {
            let quantity = between(&mut self.rng, 10, 100) as i64;
            let texts = self.pool.take(&mut self.rng, DISTRICTS * DISTRICT_TEXT_BYTES);
            let key = stock_key(warehouse, item);
            let texts = texts.to_owned();
            insert.run(&[key.into(), quantity.into(), (&*texts).into(), self.text(26, 50).into()])
        };
        insert_all(connection, size.items, row, tell)
    }

    /// A district with its customers and their orders.
    fn district(&mut self, district: i64) -> Result<()> {
        let (connection, size) = (self.connection, self.size);
        let mut insert = connection.prepare("INSERT INTO districts VALUES (?, ?, ?, ?, ?, ?)")?;
        let (name, address) = (self.text(6, 10).to_owned(), self.text(71, 91).to_owned());
        let (tax, next) = (self.rng.below(TAX_MAX + 1) as i64, size.customers as i64);
        insert.run(&[
            district.into(),
            (&*name).into(),
            (&*address).into(),
            tax.into(),
            DISTRICT_YTD.into(),
            next.into(),
        ])?;
        self.customers(district)?;
        self.orders(district)
    }

    fn customers(&mut self, district: i64) -> Result<()> {
        let (connection, size) = (self.connection, self.size);
        let mut customer = connection
            .prepare("INSERT INTO customers VALUES (?, ?, ?, 'OE', ?, ?, ?, 0, ?, ?, ?, ?, ?, 1, 0, ?)")?;
        let mut history = connection.prepare("INSERT INTO history VALUES (?, ?, 0, ?, ?)")?;
        let row = |n| {
            self.customer(&mut customer, district, n)?;
            let key = customer_key(district, n);
            history.run(&[key.into(), district.into(), FIRST_PAYMENT.into(), self.text(12, 24).into()])
        };
        insert_all(connection, size.customers, row, |_| ())
    }

    fn customer(&mut self, insert: &mut Statement<'_>, district: i64, n: u64) -> Result<()> {
        let name = if n < NAMES { n } else { self.nurand.pick(&mut self.rng, LAST_NAMES, 0, NAMES - 1) };
        let (first, address) = (self.text(8, 16).to_owned(), self.text(71, 91).to_owned());
        let phone = self.text(16, 16).to_owned();
        let bad_credit = i64::from(self.rng.below(100) < BAD_CREDIT_PERCENT);
        let discount = self.rng.below(DISCOUNT_MAX + 1) as i64;
        insert.run(&[
            customer_key(district, n).into(),
            district.into(),
            (&*first).into(),
            (&*last_name(name)).into(),
            (&*address).into(),
            (&*phone).into(),
            bad_credit.into(),
            CREDIT_LIMIT.into(),
            discount.into(),
            (-FIRST_PAYMENT).into(),
            FIRST_PAYMENT.into(),
            self.text(300, 500).into(),
        ])
    }

    /// One order of each customer, in an order of their own; the last ones are not delivered.
    fn orders(&mut self, district: i64) -> Result<()> {
        let (connection, size) = (self.connection, self.size);
        let mut order = connection.prepare("INSERT INTO orders VALUES (?, ?, 0, ?, ?, 1)")?;
        let mut new_order = connection.prepare("INSERT INTO new_orders VALUES (?)")?;
        let mut line = connection.prepare("INSERT INTO order_lines VALUES (?, ?, ?, ?, 5, ?, ?)")?;
        let customers = shuffled(size.customers, district as u64);
        let supplier = warehouse_of(district);
        let row = |n: u64| {
            let is_new = n >= size.first_new_order();
            let key = order_key(district, n as i64);
            let lines = between(&mut self.rng, LINES_MIN, LINES_MAX);
            let carrier = if is_new { -1 } else { self.rng.below(CARRIERS) as i64 };
            let customer = customer_key(district, customers[n as usize]);
            order.run(&[key.into(), customer.into(), carrier.into(), (lines as i64).into()])?;
            if is_new {
                new_order.run(&[key.into()])?;
            }
            (0..lines).try_for_each(|number| self.line(&mut line, line_key(key, number), supplier, is_new))
        };
        insert_all(connection, size.customers, row, |_| ())
    }

    fn line(&mut self, insert: &mut Statement<'_>, key: i64, supplier: i64, is_new: bool) -> Result<()> {
        let item = self.rng.below(self.size.items) as i64;
        let delivered = if is_new { -1 } else { 0 };
        let amount = if is_new { between(&mut self.rng, 1, 999_999) as i64 } else { 0 };
        let text = self.pool.take(&mut self.rng, DISTRICT_TEXT_BYTES);
        insert.run(&[key.into(), item.into(), supplier.into(), delivered.into(), amount.into(), text.into()])
    }
}

/// The numbers below `count` in an order that `seed` decides.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    numbers.sort_by_key(|number| mix(mix(seed) ^ number));
    numbers
}
