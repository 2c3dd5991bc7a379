//! Amounts in few characters, with three digits that count.

const BINARY: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL: [&str; 5] = ["", " M", " G", " T", " P"];
const TIME: [&str; 4] = ["ns", "µs", "ms", "s"];
/// Up to here a count is written out.
const COUNT_WRITTEN_OUT: f64 = 1e6;
/// From here on a number moves to the next unit, so that it keeps three digits before the point.
const NEXT_UNIT_FROM: f64 = 999.5;

/// `number` with a blank between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(" ")
}

/// Bytes in at most eight characters, as in `1.50 GiB`.
pub fn size(bytes: f64) -> String {
    let (value, unit) = scaled(bytes, 1024.0, &BINARY);
    format!("{} {unit}", three_digits(value, unit == BINARY[0]))
}

/// A count, as in `0.25`, `12.5`, `123 456` or `1.23 M`.
pub fn count(number: f64) -> String {
    if number.round() < 100.0 {
        return three_digits(number, number.fract() == 0.0);
    }
    if number.round() < COUNT_WRITTEN_OUT {
        return grouped(number.round() as u64);
    }
    let (value, unit) = scaled(number / COUNT_WRITTEN_OUT, 1000.0, &DECIMAL[1..]);
    format!("{}{unit}", three_digits(value, false))
}

/// A time, as in `65.5 µs`.
pub fn time(ns: u64) -> String {
    let (value, unit) = scaled(ns as f64, 1000.0, &TIME);
    format!("{} {unit}", three_digits(value, unit == TIME[0]))
}

/// A share of one, as in `12.5 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn scaled(mut value: f64, step: f64, units: &[&'static str]) -> (f64, &'static str) {
    let mut unit = 0;
    while value >= NEXT_UNIT_FROM && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    (value, units[unit])
}

fn three_digits(value: f64, whole: bool) -> String {
    let decimals = match value {
        _ if whole => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let sizes = [0.0, 1.0, 999.0, 1000.0, 1536.0, 1023.0 * 1024.0, 8388608.0, 1e12, 1e18].map(size);
        assert_eq!(
            sizes,
            ["0 B", "1 B", "999 B", "0.98 KiB", "1.50 KiB", "1.00 MiB", "8.00 MiB", "931 GiB", "888 PiB"]
        );
        let counts = [0.0, 0.25, 7.0, 12.5, 99.6, 123.4, 999_999.0, 1_234_567.0, 2e9].map(count);
        assert_eq!(counts, ["0", "0.25", "7", "12.5", "100", "123", "999 999", "1.23 M", "2.00 G"]);
        assert_eq!([0, 65_536, 1 << 30].map(time), ["0 ns", "65.5 µs", "1.07 s"]);
        assert_eq!(percent(0.125), "12.5 %");
    }

    #[test]
    fn the_largest_numbers_have_few_characters() {
        for text in [size(u64::MAX as f64), count(u64::MAX as f64), time(u64::MAX)] {
            assert!(text.chars().count() <= 16, "{text}");
        }
        assert_eq!(grouped(u64::MAX), "18 446 744 073 709 551 615");
    }
}
