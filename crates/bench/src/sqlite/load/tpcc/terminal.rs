//! The client: which transaction comes next, for whom, and whether the books are right.

use super::super::super::connection::{Connection, Statement};
use super::super::Load;
use super::super::random::{CUSTOMERS, LAST_NAMES, NuRand};
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::payment::Payment;
use super::questions::Questions;
use super::schema::Size;
use super::schema::{DISTRICTS, customer_key, last_name};
use crate::error::Result;
use crate::rng::Rng;

/// Percent of the customers that are asked for by name.
const BY_NAME_PERCENT: u64 = 60;
const NAMES: u64 = 1_000;

/// The transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transaction {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// The one for a number below 100: 45 of them are new orders, 43 payments, 4 each of the others.
fn drawn(number: u64) -> Transaction {
    match number {
        0..45 => Transaction::NewOrder,
        45..88 => Transaction::Payment,
        88..92 => Transaction::OrderStatus,
        92..96 => Transaction::Delivery,
        _ => Transaction::StockLevel,
    }
}

/// What is drawn for a transaction.
pub struct Choices {
    pub size: Size,
    pub rng: Rng,
    pub nurand: NuRand,
    /// Transactions so far, which stand for the time.
    clock: i64,
}

impl Choices {
    /// A warehouse and the number of a district in it.
    pub fn place(&mut self) -> (u64, u64) {
        (self.rng.below(self.size.warehouses), self.rng.below(DISTRICTS))
    }

    /// Another warehouse, or the only one.
    pub fn other_warehouse(&mut self, warehouse: u64) -> u64 {
        let others = self.size.warehouses - 1;
        if others == 0 { warehouse } else { (warehouse + 1 + self.rng.below(others)) % self.size.warehouses }
    }

    /// Whether something happens that happens so often.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// The time.
    pub fn date(&self) -> i64 {
        self.clock
    }

    /// A customer of the district.
    pub fn customer_by_number(&mut self, district: i64) -> i64 {
        let most = self.size.customers - 1;
        customer_key(district, self.nurand.pick(&mut self.rng, CUSTOMERS, 0, most))
    }

    /// A name that some customer of each district has.
    fn last_name(&mut self) -> String {
        let most = self.size.customers.min(NAMES) - 1;
        last_name(self.nurand.pick(&mut self.rng, LAST_NAMES, 0, most))
    }
}

/// Finds customers as payments and questions do: more often by name than by number.
pub struct ByName<'c> {
    with_name: Statement<'c>,
}

impl ByName<'_> {
    /// A customer of the district; of several with one name the one in the middle (clause 2.5.2.2).
    pub fn customer(&mut self, choices: &mut Choices, district: i64) -> Result<i64> {
        if !choices.percent(BY_NAME_PERCENT) {
            return Ok(choices.customer_by_number(district));
        }
        let name = choices.last_name();
        let mut found = Vec::new();
        self.with_name.each(&[district.into(), (&*name).into()], |row| found.push(row.int(0)))?;
        Ok(found[(found.len() - 1) / 2])
    }
}

/// The client.
pub struct Terminal<'c> {
    connection: &'c Connection,
    choices: Choices,
    by_name: ByName<'c>,
    new_order: NewOrder<'c>,
    payment: Payment<'c>,
    delivery: Delivery<'c>,
    questions: Questions<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    /// Orders that were committed.
    orders: u64,
}

impl<'c> Terminal<'c> {
    /// A client of a filled database.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn new(connection: &'c Connection, size: Size, seed: u64) -> Result<Self> {
        let by_name = "SELECT id FROM customers WHERE district = ? AND last = ? ORDER BY first";
        Ok(Self {
            connection,
            choices: Choices { size, rng: Rng::new(seed), nurand: NuRand::new(seed), clock: 1 },
            by_name: ByName { with_name: connection.prepare(by_name)? },
            new_order: NewOrder::new(connection)?,
            payment: Payment::new(connection)?,
            delivery: Delivery::new(connection)?,
            questions: Questions::new(connection)?,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            orders: 0,
        })
    }

    /// Whether it is to be committed.
    fn run(&mut self, transaction: Transaction) -> Result<bool> {
        let (choices, by_name) = (&mut self.choices, &mut self.by_name);
        match transaction {
            Transaction::NewOrder => return self.new_order.run(choices),
            Transaction::Payment => self.payment.run(choices, by_name)?,
            Transaction::OrderStatus => self.questions.order_status(choices, by_name)?,
            Transaction::Delivery => self.delivery.run(choices)?,
            Transaction::StockLevel => self.questions.stock_level(choices)?,
        }
        Ok(true)
    }
}

impl Load for Terminal<'_> {
    fn transaction(&mut self) -> Result<()> {
        let transaction = drawn(self.choices.rng.below(100));
        self.choices.clock += 1;
        self.begin.run(&[])?;
        if self.run(transaction)? {
            self.commit.run(&[])?;
            self.orders += u64::from(transaction == Transaction::NewOrder);
        } else {
            self.rollback.run(&[])?;
        }
        Ok(())
    }

    /// Warehouses and districts have received the same (clause 3.3.2.1), the districts have counted every order that was committed, and
    /// each district's last order has the number before its next one (clause 3.3.2.2).
    fn wrong(&mut self) -> Result<Option<String>> {
        let number = |sql: &str| self.connection.number(sql);
        let received =
            (number("SELECT sum(ytd) FROM warehouses")?, number("SELECT sum(ytd) FROM districts")?);
        let orders = number("SELECT sum(next_order) FROM districts")? as u64;
        let at_first = self.choices.size.districts() * self.choices.size.customers;
        let missing = number(
            "SELECT count(*) FROM districts WHERE next_order - 1 <> \
             (SELECT max(id) FROM orders WHERE id < (districts.id + 1) << 32) - (districts.id << 32)",
        )?;
        let right = received.0 == received.1 && orders == at_first + self.orders && missing == 0;
        let what = || {
            format!(
                "received {received:?}, {orders} orders counted, {at_first} + {} expected, {missing} districts lack their last one",
                self.orders
            )
        };
        Ok((!right).then(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_45_43_4_4_4() {
        let count = |which| (0..100).filter(|&number| drawn(number) == which).count();
        let shares = [
            Transaction::NewOrder,
            Transaction::Payment,
            Transaction::OrderStatus,
            Transaction::Delivery,
            Transaction::StockLevel,
        ]
        .map(count);
        assert_eq!(shares, [45, 43, 4, 4, 4]);
    }

    #[test]
    fn customers_and_names_are_of_those_that_exist() {
        let size = Size { warehouses: 3, items: 100, customers: 30 };
        let mut choices = Choices { size, rng: Rng::new(1), nurand: NuRand::new(1), clock: 0 };
        let names: Vec<_> = (0..30).map(last_name).collect();
        for _ in 0..10_000 {
            let customer = choices.customer_by_number(7);
            assert!((customer_key(7, 0)..=customer_key(7, 29)).contains(&customer));
            assert!(names.contains(&choices.last_name()));
            let (warehouse, district) = choices.place();
            assert!(warehouse < 3 && district < 10 && choices.other_warehouse(warehouse) != warehouse);
        }
    }
}
