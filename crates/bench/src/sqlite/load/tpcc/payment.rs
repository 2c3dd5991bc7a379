//! A customer pays (clause 2.5). Customers with bad credit get a note of it in their data.

use super::super::super::connection::{Connection, Row, Statement};
use super::super::random::between;
use super::schema::district_key;
use super::terminal::{ByName, Choices};
use crate::error::Result;

/// Percent of the payments to another warehouse than the customer's.
const REMOTE_PERCENT: u64 = 15;
const AMOUNT_MIN: u64 = 100;
const AMOUNT_MAX: u64 = 500_000;
/// Letters of the data.
const DATA_BYTES_MAX: i64 = 500;

pub struct Payment<'c> {
    pay_warehouse: Statement<'c>,
    warehouse: Statement<'c>,
    pay_district: Statement<'c>,
    district: Statement<'c>,
    customer: Statement<'c>,
    pay_customer: Statement<'c>,
    note: Statement<'c>,
    insert_history: Statement<'c>,
}

impl<'c> Payment<'c> {
    pub fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            pay_warehouse: prepare("UPDATE warehouses SET ytd = ytd + ? WHERE id = ?")?,
            warehouse: prepare("SELECT name, address FROM warehouses WHERE id = ?")?,
            pay_district: prepare("UPDATE districts SET ytd = ytd + ? WHERE id = ?")?,
            district: prepare("SELECT name, address FROM districts WHERE id = ?")?,
            customer: prepare(
                "SELECT bad_credit, first, last, address, phone, since, credit_limit, discount, balance FROM customers WHERE id = ?",
            )?,
            pay_customer: prepare(
                "UPDATE customers SET balance = balance - ?1, paid = paid + ?1, payments = payments + 1 WHERE id = ?2",
            )?,
            note: prepare("UPDATE customers SET data = substr(? || data, 1, ?) WHERE id = ?")?,
            insert_history: prepare("INSERT INTO history VALUES (?, ?, ?, ?, ?)")?,
        })
    }

    pub fn run(&mut self, choices: &mut Choices, by_name: &mut ByName<'_>) -> Result<()> {
        let (warehouse, number) = choices.place();
        let district = district_key(warehouse, number);
        let home = if choices.percent(REMOTE_PERCENT) {
            district_key(choices.other_warehouse(warehouse), choices.place().1)
        } else {
            district
        };
        let amount = between(&mut choices.rng, AMOUNT_MIN, AMOUNT_MAX) as i64;
        self.pay_warehouse.run(&[amount.into(), (warehouse as i64).into()])?;
        let words = |row: Row<'_>| (row.text(0), row.text(1));
        let (name, _) = self.warehouse.one(&[(warehouse as i64).into()], words)?;
        self.pay_district.run(&[amount.into(), district.into()])?;
        let (district_name, _) = self.district.one(&[district.into()], words)?;
        let customer = by_name.customer(choices, home)?;
        self.pay(customer, district, amount)?;
        let (date, data) = (choices.date(), format!("{name}    {district_name}"));
        self.insert_history.run(&[
            customer.into(),
            district.into(),
            date.into(),
            amount.into(),
            (&*data).into(),
        ])
    }

    fn pay(&mut self, customer: i64, district: i64, amount: i64) -> Result<()> {
        let bad_credit = self.customer.one(&[customer.into()], |row| {
            (row.int(0), row.text(1), row.text(2), row.text(3), row.text(4))
        })?;
        self.pay_customer.run(&[amount.into(), customer.into()])?;
        if bad_credit.0 == 1 {
            let note = format!("{customer} {district} {amount} ");
            self.note.run(&[(&*note).into(), DATA_BYTES_MAX.into(), customer.into()])?;
        }
        Ok(())
    }
}
