//! An order of 5 to 15 items (clause 2.4). One in a hundred asks for an item that does not exist, and is rolled back.

use super::super::super::connection::{Connection, Statement};
use super::super::random::{ITEMS, between};
use super::schema::{
    DISTRICT_TEXT_BYTES, LINES_MAX, LINES_MIN, district_key, line_key, order_key, stock_key,
};
use super::terminal::Choices;
use crate::error::Result;

const ROLLED_BACK_PERCENT: u64 = 1;
/// Percent of the lines that come from another warehouse.
const REMOTE_PERCENT: u64 = 1;
const QUANTITY_MAX: u64 = 10;
/// A stock with less than this left over is filled up.
const STOCK_MIN: i64 = 10;
const FILLED_UP: i64 = 91;

pub struct NewOrder<'c> {
    warehouse: Statement<'c>,
    district: Statement<'c>,
    take_number: Statement<'c>,
    customer: Statement<'c>,
    insert_order: Statement<'c>,
    insert_new: Statement<'c>,
    item: Statement<'c>,
    stock: Statement<'c>,
    update_stock: Statement<'c>,
    insert_line: Statement<'c>,
}

/// What a customer wants.
struct Line {
    item: u64,
    supplier: u64,
    quantity: i64,
}

impl<'c> NewOrder<'c> {
    pub fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            warehouse: prepare("SELECT tax FROM warehouses WHERE id = ?")?,
            district: prepare("SELECT tax, next_order FROM districts WHERE id = ?")?,
            take_number: prepare("UPDATE districts SET next_order = next_order + 1 WHERE id = ?")?,
            customer: prepare("SELECT discount, last, bad_credit FROM customers WHERE id = ?")?,
            insert_order: prepare("INSERT INTO orders VALUES (?, ?, ?, -1, ?, ?)")?,
            insert_new: prepare("INSERT INTO new_orders VALUES (?)")?,
            item: prepare("SELECT price, name, data FROM items WHERE id = ?")?,
            stock: prepare("SELECT quantity, substr(texts, ?, ?), data FROM stocks WHERE id = ?")?,
            update_stock: prepare(
                "UPDATE stocks SET quantity = ?, ytd = ytd + ?, orders = orders + 1, remote = remote + ? WHERE id = ?",
            )?,
            insert_line: prepare("INSERT INTO order_lines VALUES (?, ?, ?, -1, ?, ?, ?)")?,
        })
    }

    /// Whether the order stays.
    pub fn run(&mut self, choices: &mut Choices) -> Result<bool> {
        let (warehouse, number) = choices.place();
        let district = district_key(warehouse, number);
        let customer = choices.customer_by_number(district);
        let lines = wanted(choices, warehouse);
        self.warehouse.one(&[(warehouse as i64).into()], |row| row.int(0))?;
        let order = self.district.one(&[district.into()], |row| (row.int(0), row.int(1)))?.1;
        self.take_number.run(&[district.into()])?;
        self.customer.one(&[customer.into()], |row| (row.int(0), row.text(1), row.int(2)))?;
        let key = order_key(district, order);
        let all_local = i64::from(lines.iter().all(|line| line.supplier == warehouse));
        let (date, count) = (choices.date(), lines.len() as i64);
        self.insert_order.run(&[key.into(), customer.into(), date.into(), count.into(), all_local.into()])?;
        self.insert_new.run(&[key.into()])?;
        for (line, nth) in lines.iter().zip(0..) {
            if !self.line(line, line_key(key, nth), warehouse, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the item exists.
    fn line(&mut self, line: &Line, key: i64, warehouse: u64, district: u64) -> Result<bool> {
        let item = line.item as i64;
        let details = self.item.last(&[item.into()], |row| (row.int(0), row.text(1), row.text(2)))?;
        let Some((price, ..)) = details else { return Ok(false) };
        let stock = stock_key(line.supplier, line.item);
        let (from, length) = ((district * DISTRICT_TEXT_BYTES + 1) as i64, DISTRICT_TEXT_BYTES as i64);
        let look = [from.into(), length.into(), stock.into()];
        let (had, text, _) = self.stock.one(&look, |row| (row.int(0), row.text(1), row.text(2)))?;
        let left = had - line.quantity + if had < line.quantity + STOCK_MIN { FILLED_UP } else { 0 };
        let remote = i64::from(line.supplier != warehouse);
        self.update_stock.run(&[left.into(), line.quantity.into(), remote.into(), stock.into()])?;
        let (supplier, amount) = (line.supplier as i64, line.quantity * price);
        let (quantity, text) = (line.quantity.into(), (&*text).into());
        self.insert_line.run(&[key.into(), item.into(), supplier.into(), quantity, amount.into(), text])?;
        Ok(true)
    }
}

fn wanted(choices: &mut Choices, warehouse: u64) -> Vec<Line> {
    let count = between(&mut choices.rng, LINES_MIN, LINES_MAX);
    let fails = choices.percent(ROLLED_BACK_PERCENT);
    let items = choices.size.items;
    let mut line = |nth| {
        let item = choices.nurand.pick(&mut choices.rng, ITEMS, 0, items - 1);
        let is_remote = choices.percent(REMOTE_PERCENT);
        Line {
            // The number after the last item is no item.
            item: if fails && nth == count - 1 { items } else { item },
            supplier: if is_remote { choices.other_warehouse(warehouse) } else { warehouse },
            quantity: between(&mut choices.rng, 1, QUANTITY_MAX) as i64,
        }
    };
    (0..count).map(&mut line).collect()
}
