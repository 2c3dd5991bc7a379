//! Rows of the tables. What transactions change together stands together; the rest is as long as in TPC-C.

use aquifer_durable::{Ref, durable_struct};

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
