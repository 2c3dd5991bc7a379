//! What is only asked: the state of a customer's last order (clause 2.6), and how many items of a district's last orders are short
//! (clause 2.8).

use super::super::super::connection::{Connection, Statement};
use super::super::random::between;
use super::schema::{district_key, line_key, order_key, stock_key};
use super::terminal::{ByName, Choices};
use crate::error::Result;

const SHORT_MIN: u64 = 10;
const SHORT_MAX: u64 = 20;
const LAST_ORDERS: i64 = 20;

pub struct Questions<'c> {
    customer: Statement<'c>,
    last_order: Statement<'c>,
    lines: Statement<'c>,
    next_order: Statement<'c>,
    short: Statement<'c>,
}

impl<'c> Questions<'c> {
    pub fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            customer: prepare("SELECT balance, first, middle, last FROM customers WHERE id = ?")?,
            last_order: prepare(
                "SELECT id, date, carrier FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 1",
            )?,
            lines: prepare(
                "SELECT item, supplier, quantity, amount, delivered FROM order_lines WHERE id >= ? AND id < ?",
            )?,
            next_order: prepare("SELECT next_order FROM districts WHERE id = ?")?,
            short: prepare(
                "SELECT count(DISTINCT item) FROM order_lines CROSS JOIN stocks ON stocks.id = ?1 + item \
                 WHERE order_lines.id >= ?2 AND order_lines.id < ?3 AND stocks.quantity < ?4",
            )?,
        })
    }

    pub fn order_status(&mut self, choices: &mut Choices, by_name: &mut ByName<'_>) -> Result<()> {
        let (warehouse, number) = choices.place();
        let customer = by_name.customer(choices, district_key(warehouse, number))?;
        self.customer.one(&[customer.into()], |row| (row.int(0), row.text(1), row.text(2), row.text(3)))?;
        // Every customer has an order from the beginning.
        let order = self.last_order.one(&[customer.into()], |row| row.int(0))?;
        self.lines.run(&[line_key(order, 0).into(), line_key(order + 1, 0).into()])
    }

    pub fn stock_level(&mut self, choices: &mut Choices) -> Result<()> {
        let (warehouse, number) = choices.place();
        let district = district_key(warehouse, number);
        let next = self.next_order.one(&[district.into()], |row| row.int(0))?;
        let first = line_key(order_key(district, (next - LAST_ORDERS).max(0)), 0);
        let end = line_key(order_key(district, next), 0);
        let limit = between(&mut choices.rng, SHORT_MIN, SHORT_MAX) as i64;
        let stocks = stock_key(warehouse, 0);
        let values = [stocks.into(), first.into(), end.into(), limit.into()];
        self.short.one(&values, |row| row.int(0)).map(drop)
    }
}
