//! How many rows there are.

use super::schema::DISTRICTS;

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
    /// About so many bytes.
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
    fn warehouses_have_the_standards_size_when_there_is_room() {
        let size = Size::of_bytes(5 * WAREHOUSE_BYTES + 1);
        assert_eq!(size, Size { warehouses: 5, items: 100_000, customers: 3_000 });
        assert_eq!((size.districts(), size.first_new_order()), (50, 2_100));
        let small = Size::of_bytes(WAREHOUSE_BYTES / 100);
        assert_eq!(small, Size { warehouses: 1, items: 1_000, customers: 30 });
    }
}
