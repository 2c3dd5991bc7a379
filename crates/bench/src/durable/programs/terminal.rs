//! What one thread does to the tables.

use aquifer_base::HomeAddress;
use aquifer_durable::{Access, Error, Ref, Result, Transactional, Typed, Value};

use super::tpcc::{
    Account, Customer, DISTRICTS, Database, District, Item, Level, Line, Order, Payment, Rows, Stock,
    Warehouse, district, district_key, district_text, percent_of, price, stock_text, warehouse_key,
};
use super::{Client, first_wrong};
use crate::rng::Rng;

const LINES_MIN: u64 = 5;
const LINES_MAX: u64 = 15;
/// Pieces of a line.
const PIECES_MAX: u64 = 10;
/// A stock with less than this many more pieces than an order wants is filled up.
const STOCK_MIN: u32 = 10;
const FILLED_UP: u32 = 91;

/// A thread, which works for one warehouse, and what it has done.
pub struct Terminal {
    database: Database,
    rows: Rows,
    warehouse: u64,
    rng: Rng,
    now: u64,
    /// Orders of each district.
    orders: [u64; DISTRICTS as usize],
    paid: u64,
    sold: u64,
}

/// What somebody wants.
struct Wanted {
    district: u64,
    customer: u64,
    /// Items and pieces.
    lines: Vec<(u64, u32)>,
}

/// What is in a table for certain.
fn there<T>(found: Option<T>) -> Result<T> {
    found.ok_or(Error::NotAllocated(HomeAddress(0)))
}

impl Terminal {
    /// The terminal of a warehouse.
    pub fn new(database: Database, rows: Rows, warehouse: u64, seed: u64) -> Self {
        let rng = Rng::new(seed << 8 | warehouse);
        Self { database, rows, warehouse, rng, now: 1, orders: [0; DISTRICTS as usize], paid: 0, sold: 0 }
    }

    fn wanted(&mut self) -> Wanted {
        let rng = &mut self.rng;
        let lines = LINES_MIN + rng.below(LINES_MAX - LINES_MIN + 1);
        let mut lines: Vec<_> =
            (0..lines).map(|_| (rng.below(self.rows.items), 1 + rng.below(PIECES_MAX) as u32)).collect();
        // In order, as TPC-C allows, so that what is near in the tables is written together.
        lines.sort_unstable();
        let (district, customer) = (rng.below(DISTRICTS), rng.below(self.rows.customers));
        Wanted { district, customer, lines }
    }

    fn new_order(&mut self, heap: &impl Transactional) -> Result<()> {
        let wanted = self.wanted();
        heap.transaction(|tx| self.order(tx, &wanted))?;
        self.orders[wanted.district as usize] += 1;
        self.sold += wanted.lines.iter().map(|&(_, pieces)| u64::from(pieces)).sum::<u64>();
        Ok(())
    }

    fn order(&self, tx: &mut impl Access, wanted: &Wanted) -> Result<()> {
        let database = &self.database;
        let warehouse = there(database.warehouses.get(tx, self.warehouse)?)?;
        let district = district(warehouse, wanted.district);
        let number = tx.get_field(district, District::FIELDS.next_order)?;
        tx.set_field(district, District::FIELDS.next_order, number + 1)?;
        let tax = tx.get_field(warehouse, Warehouse::FIELDS.tax)?
            + u64::from(tx.get_field(district, District::FIELDS.tax)?);
        let customer = there(database.customers.get(tx, self.key(wanted.district, wanted.customer))?)?;
        let percent = 100 + tax - tx.get_field(customer, Customer::FIELDS.discount)?;
        let first_line = Ref::from_home(tx.alloc((wanted.lines.len() * Line::BYTES) as u64)?);
        for (n, &(item, pieces)) in wanted.lines.iter().enumerate() {
            let line = self.line(tx, wanted.district, item, pieces, percent)?;
            let at = Ref::<Line>::from_home(first_line.home().plus_bytes((n * Line::BYTES) as u64));
            tx.set(at, Line { number: n as u32, ..line })?;
        }
        let (customer, lines) = (wanted.customer as u32, wanted.lines.len() as u32);
        let order = tx.create(Order { customer, lines, date: self.now, carrier: 0, first_line })?;
        let key = self.key(wanted.district, u64::from(number));
        database.orders.insert(tx, key, order)?;
        database.new_orders.insert(tx, key, ()).map(drop)
    }

    /// Takes an item out of its stock.
    fn line(
        &self,
        tx: &mut impl Access,
        district: u64,
        item: u64,
        pieces: u32,
        percent: u64,
    ) -> Result<Line> {
        let database = &self.database;
        let found = there(database.items.get(tx, item)?)?;
        let price = tx.get_field(found, Item::FIELDS.price)?;
        let stock = there(database.stocks.get(tx, warehouse_key(self.warehouse, item))?)?;
        let level = tx.get_field(stock, Stock::FIELDS.level)?;
        let is_low = level.quantity < pieces + STOCK_MIN;
        tx.set_field(
            stock,
            Stock::FIELDS.level,
            Level {
                quantity: if is_low { level.quantity + FILLED_UP - pieces } else { level.quantity - pieces },
                orders: level.orders + 1,
                sold: level.sold + u64::from(pieces),
            },
        )?;
        Ok(Line {
            number: 0,
            item: item as u32,
            warehouse: self.warehouse as u32,
            quantity: pieces,
            amount: u64::from(pieces) * price * percent / 100,
            delivered: 0,
            district: tx.get(stock_text(stock, district))?,
        })
    }

    fn payment(&mut self, heap: &impl Transactional) -> Result<()> {
        let (district, customer) = (self.rng.below(DISTRICTS), self.rng.below(self.rows.customers));
        let amount = 100 + self.rng.below(499_901);
        heap.transaction(|tx| self.pay(tx, district, customer, amount))?;
        self.paid += amount;
        Ok(())
    }

    fn pay(&self, tx: &mut impl Access, number: u64, customer: u64, amount: u64) -> Result<()> {
        let warehouse = there(self.database.warehouses.get(tx, self.warehouse)?)?;
        let received = tx.get_field(warehouse, Warehouse::FIELDS.received)?;
        tx.set_field(warehouse, Warehouse::FIELDS.received, received + amount)?;
        let district = district(warehouse, number);
        let received = tx.get_field(district, District::FIELDS.received)?;
        tx.set_field(district, District::FIELDS.received, received + amount)?;
        let key = self.key(number, customer);
        let customer = there(self.database.customers.get(tx, key)?)?;
        let account = tx.get_field(customer, Customer::FIELDS.account)?;
        let payment = Payment { customer: key, amount, date: self.now, before: account.last, data: [key; 2] };
        let payment = tx.create(payment)?;
        tx.set_field(
            customer,
            Customer::FIELDS.account,
            Account {
                owed: account.owed - amount as i64,
                paid: account.paid + amount,
                payments: account.payments + 1,
                last: Some(payment),
            },
        )
    }

    fn key(&self, district: u64, number: u64) -> u64 {
        district_key(self.warehouse, district, number)
    }

    /// Payments of a customer.
    fn payments(&self, tx: &mut impl Access, district: u64, customer: u64) -> Result<Found> {
        let key = self.key(district, customer);
        let customer = there(self.database.customers.get(tx, key)?)?;
        let (mut found, mut next) =
            (Found::default(), tx.get_field(customer, Customer::FIELDS.account)?.last);
        while let Some(payment) = next {
            let payment = tx.get(payment)?;
            if payment.customer != key || payment.data != [key; 2] {
                found
                    .wrong
                    .get_or_insert(format!("a payment of {:#x} is customer {key:#x}'s", payment.customer));
            }
            found.sum += payment.amount;
            next = payment.before;
        }
        Ok(found)
    }

    /// Pieces that an order is of.
    fn pieces(&self, tx: &mut impl Access, district: u64, number: u64) -> Result<Found> {
        let order = there(self.database.orders.get(tx, self.key(district, number))?)?;
        let (order, mut found) = (tx.get(order)?, Found::default());
        for n in 0..order.lines {
            let at = order.first_line.home().plus_bytes(u64::from(n) * Line::BYTES as u64);
            let line = tx.get(Ref::<Line>::from_home(at))?;
            let (item, pieces) = (u64::from(line.item), u64::from(line.quantity));
            let amount = pieces * price(item) * percent_of(u64::from(order.customer)) / 100;
            let text = district_text(self.database.payload, item, district);
            if (line.number, line.amount, line.district) != (n, amount, text) {
                let has = (line.number, line.amount, line.district);
                found.wrong.get_or_insert(format!(
                    "line {n} of order {number} of district {district} is {has:x?} instead of {:x?}",
                    (n, amount, text)
                ));
            }
            found.sum += pieces;
        }
        Ok(found)
    }

    /// What customers have paid, and how many pieces were sold, by the tables.
    fn sums(&self, heap: &impl Transactional) -> Result<(Found, Found)> {
        let (mut paid, mut sold) = (Found::default(), Found::default());
        for (district, &orders) in (0..).zip(&self.orders) {
            for customer in 0..self.rows.customers {
                paid.add(heap.transaction(|tx| self.payments(tx, district, customer))?);
            }
            for number in 0..orders {
                sold.add(heap.transaction(|tx| self.pieces(tx, district, number))?);
            }
        }
        Ok((paid, sold))
    }
}

/// A sum by the tables, and the first row that is not as it should be.
#[derive(Default)]
struct Found {
    sum: u64,
    wrong: Option<String>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.wrong = self.wrong.take().or(other.wrong);
    }
}

impl<H: Transactional> Client<H> for Terminal {
    fn step(&mut self, heap: &H) -> Result<()> {
        self.now += 1;
        if self.rng.below(2) == 0 { self.new_order(heap) } else { self.payment(heap) }
    }

    fn wrong(&mut self, heap: &H) -> Result<Option<String>> {
        let (paid, sold) = self.sums(heap)?;
        let wrong = paid.wrong.or(sold.wrong);
        if wrong.is_some() {
            return Ok(wrong);
        }
        let (paid, sold) = (paid.sum, sold.sum);
        heap.transaction(|tx| {
            let warehouse = there(self.database.warehouses.get(tx, self.warehouse)?)?;
            let received = tx.get_field(warehouse, Warehouse::FIELDS.received)?;
            let mut checks =
                vec![("paid", paid, self.paid), ("sold", sold, self.sold), ("received", received, self.paid)];
            let mut received = 0;
            for (n, &orders) in (0..).zip(&self.orders) {
                let district = tx.get(district(warehouse, n))?;
                received += district.received;
                checks.push(("orders of a district", u64::from(district.next_order), orders));
            }
            checks.push(("received by districts", received, self.paid));
            Ok(first_wrong(&checks))
        })
    }
}
