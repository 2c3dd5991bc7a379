//! Tables, packed keys, and how many rows there are. All numbers begin with 0.

/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;
/// Lines of an order.
pub const LINES_MIN: u64 = 5;
/// As above.
pub const LINES_MAX: u64 = 15;
/// Letters of a stock's text for each district.
pub const DISTRICT_TEXT_BYTES: u64 = 24;

const CUSTOMER_BITS: u32 = 12;
const ORDER_BITS: u32 = 32;
const LINE_BITS: u32 = 4;
const ITEM_BITS: u32 = 17;

/// All tables. Money is in cents, rates in hundredths of a percent.
pub const TABLES: &str = "
    CREATE TABLE warehouses (id INTEGER PRIMARY KEY, name TEXT, address TEXT, tax INTEGER, ytd INTEGER);
    CREATE TABLE districts (id INTEGER PRIMARY KEY, name TEXT, address TEXT, tax INTEGER, ytd INTEGER, next_order INTEGER);
    CREATE TABLE customers (id INTEGER PRIMARY KEY, district INTEGER, first TEXT, middle TEXT, last TEXT, address TEXT, phone TEXT,
        since INTEGER, bad_credit INTEGER, credit_limit INTEGER, discount INTEGER, balance INTEGER, paid INTEGER, payments INTEGER,
        deliveries INTEGER, data TEXT);
    CREATE TABLE history (customer INTEGER, district INTEGER, date INTEGER, amount INTEGER, data TEXT);
    CREATE TABLE new_orders (id INTEGER PRIMARY KEY);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, date INTEGER, carrier INTEGER, lines INTEGER, all_local INTEGER);
    CREATE TABLE order_lines (id INTEGER PRIMARY KEY, item INTEGER, supplier INTEGER, delivered INTEGER, quantity INTEGER,
        amount INTEGER, text TEXT);
    CREATE TABLE items (id INTEGER PRIMARY KEY, image INTEGER, name TEXT, price INTEGER, data TEXT);
    CREATE TABLE stocks (id INTEGER PRIMARY KEY, quantity INTEGER, texts TEXT, ytd INTEGER, orders INTEGER, remote INTEGER, data TEXT);";

/// Made when the tables are filled.
pub const INDEXES: &str = "
    CREATE INDEX customers_by_name ON customers (district, last, first);
    CREATE INDEX orders_by_customer ON orders (customer);";

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A district of a warehouse.
pub fn district_key(warehouse: u64, district: u64) -> i64 {
    (warehouse * DISTRICTS + district) as i64
}

/// The warehouse of a district.
pub fn warehouse_of(district: i64) -> i64 {
    district / DISTRICTS as i64
}

/// A customer of a district.
pub fn customer_key(district: i64, customer: u64) -> i64 {
    district << CUSTOMER_BITS | customer as i64
}

/// An order of a district.
pub fn order_key(district: i64, order: i64) -> i64 {
    district << ORDER_BITS | order
}

/// A line of an order; the line after the last one bounds them.
pub fn line_key(order: i64, line: u64) -> i64 {
    order << LINE_BITS | line as i64
}

/// What a warehouse has of an item.
pub fn stock_key(warehouse: u64, item: u64) -> i64 {
    (warehouse << ITEM_BITS | item) as i64
}

/// The last name of a number below 1,000 (clause 4.3.2.3).
pub fn last_name(number: u64) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

const ITEMS: u64 = 100_000;
const CUSTOMERS: u64 = 3_000;
/// Bytes of the database for each warehouse, items included.
const WAREHOUSE_BYTES: u64 = 68_000_000;
/// Share of the orders that are not delivered at first: the standard's 900 of 3,000.
const NEW_ORDERS_SHARE: (u64, u64) = (3, 10);
/// With less, orders would ask for the same item twice too often.
const ITEMS_MIN: u64 = 100;
/// Every district needs customers of some names.
const CUSTOMERS_MIN: u64 = 20;

/// Warehouses of the standard's size, or a single smaller one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Each with ten districts and a stock of every item.
    pub warehouses: u64,
    /// Items.
    pub items: u64,
    /// Customers of each district, each with one order at first.
    pub customers: u64,
}

impl Size {
    /// The size of about `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        let warehouses = (bytes / WAREHOUSE_BYTES).max(1);
        let part = bytes.min(WAREHOUSE_BYTES);
        Self {
            warehouses,
            items: (ITEMS * part / WAREHOUSE_BYTES).max(ITEMS_MIN),
            customers: (CUSTOMERS * part / WAREHOUSE_BYTES).max(CUSTOMERS_MIN),
        }
    }

    /// Districts of all warehouses.
    pub fn districts(self) -> u64 {
        self.warehouses * DISTRICTS
    }

    /// The first order of a district that is not delivered at first.
    pub fn first_new_order(self) -> u64 {
        self.customers - self.customers * NEW_ORDERS_SHARE.0 / NEW_ORDERS_SHARE.1
    }

    /// Rows that are told of while the tables are filled: items, stocks and customers.
    pub fn told_rows(self) -> u64 {
        self.items + self.warehouses * self.items + self.districts() * self.customers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_standards() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn keys_of_neighbours_do_not_meet() {
        assert!(customer_key(3, 2_999) < customer_key(4, 0));
        assert!(order_key(3, u32::MAX.into()) < order_key(4, 0));
        assert!(line_key(order_key(3, 7), LINES_MAX - 1) < line_key(order_key(3, 8), 0));
        assert!(stock_key(3, 99_999) < stock_key(4, 0));
    }

    #[test]
    fn warehouses_have_the_standards_size_when_there_is_room() {
        let size = Size::of_bytes(5 * WAREHOUSE_BYTES + 1);
        assert_eq!(size, Size { warehouses: 5, items: 100_000, customers: 3_000 });
        assert_eq!((size.districts(), size.first_new_order()), (50, 2_100));
        let small = Size::of_bytes(WAREHOUSE_BYTES / 100);
        assert_eq!(small, Size { warehouses: 1, items: 1_000, customers: 30 });
    }
}
