//! The oldest new order of each district of a warehouse is delivered (clause 2.7), all in one transaction, at once.

use super::super::super::connection::{Connection, Statement};
use super::schema::{DISTRICTS, district_key, line_key, order_key};
use super::terminal::Choices;
use crate::error::Result;

const CARRIERS: u64 = 10;

pub struct Delivery<'c> {
    oldest: Statement<'c>,
    delete: Statement<'c>,
    order: Statement<'c>,
    give_carrier: Statement<'c>,
    deliver_lines: Statement<'c>,
    amount: Statement<'c>,
    charge: Statement<'c>,
}

impl<'c> Delivery<'c> {
    pub fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            oldest: prepare("SELECT id FROM new_orders WHERE id >= ? AND id < ? ORDER BY id LIMIT 1")?,
            delete: prepare("DELETE FROM new_orders WHERE id = ?")?,
            order: prepare("SELECT customer FROM orders WHERE id = ?")?,
            give_carrier: prepare("UPDATE orders SET carrier = ? WHERE id = ?")?,
            deliver_lines: prepare("UPDATE order_lines SET delivered = ? WHERE id >= ? AND id < ?")?,
            amount: prepare("SELECT coalesce(sum(amount), 0) FROM order_lines WHERE id >= ? AND id < ?")?,
            charge: prepare(
                "UPDATE customers SET balance = balance + ?, deliveries = deliveries + 1 WHERE id = ?",
            )?,
        })
    }

    pub fn run(&mut self, choices: &mut Choices) -> Result<()> {
        let warehouse = choices.place().0;
        let (carrier, date) = (choices.rng.below(CARRIERS) as i64, choices.date());
        for number in 0..DISTRICTS {
            let district = district_key(warehouse, number);
            let range = [order_key(district, 0).into(), order_key(district + 1, 0).into()];
            if let Some(order) = self.oldest.last(&range, |row| row.int(0))? {
                self.deliver(order, carrier, date)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, order: i64, carrier: i64, date: i64) -> Result<()> {
        self.delete.run(&[order.into()])?;
        let customer = self.order.one(&[order.into()], |row| row.int(0))?;
        self.give_carrier.run(&[carrier.into(), order.into()])?;
        let (first, end) = (line_key(order, 0), line_key(order + 1, 0));
        self.deliver_lines.run(&[date.into(), first.into(), end.into()])?;
        let amount = self.amount.one(&[first.into(), end.into()], |row| row.int(0))?;
        self.charge.run(&[amount.into(), customer.into()])
    }
}
