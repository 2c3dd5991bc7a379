//! Figures as people read them. What is not finite is a dash.

/// Shown instead of a figure that there is not.
pub(crate) const DASH: &str = "\u{2013}";

/// `value` if it is finite.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// `part` by `whole`, if that is a number.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    finite(part / whole)
}

/// Three significant digits below 1000, whole numbers with spaces between thousands above, powers of ten for the very large and very small.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        DASH.into()
    } else if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        format!("{value:.2e}")
    } else if size >= 999.5 {
        thousands(value)
    } else if size >= 99.95 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            // A narrow space that does not break.
            grouped.push('\u{202F}');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

/// A label without zeros at the end of its decimals: `10 ms` for `10.0 ms`.
pub(crate) fn trimmed(label: &str) -> String {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(label.len());
    let (number, unit) = label.split_at(end);
    if !number.contains('.') || unit.starts_with('e') {
        return label.into();
    }
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// `value` in two or three digits, with thousands as a letter.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => return format!("{value:.0e}"),
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 999.5 => (value / 1e3, "k"),
        size if size < 9.95 => return trimmed(&number(value)),
        _ => (value, ""),
    };
    if scaled.abs() < 9.95 { format!("{scaled:.1}{unit}") } else { format!("{scaled:.0}{unit}") }
}

/// A number that counts things: no decimals where there are none.
pub(crate) fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 999.5 { format!("{value:.0}") } else { number(value) }
}

/// `value`, or a dash.
pub(crate) fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), number)
}

/// Nanoseconds, in the unit that suits them.
pub(crate) fn nanoseconds(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size < 1e3 => (value, "ns"),
        size if size < 1e6 => (value / 1e3, "\u{b5}s"),
        size if size < 1e9 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    with_unit(scaled, unit)
}

/// Seconds, in the unit that suits them.
pub(crate) fn seconds(value: f64) -> String {
    match value.abs() {
        size if size >= 7200.0 => with_unit(value / 3600.0, "h"),
        size if size >= 120.0 => with_unit(value / 60.0, "min"),
        size if size >= 1.0 || size == 0.0 => with_unit(value, "s"),
        _ => nanoseconds(value * 1e9),
    }
}

/// A share, 1 being 100 %.
pub(crate) fn percent(share: f64) -> String {
    with_unit(share * 100.0, "%")
}

/// A change, with its sign.
pub(crate) fn change(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0).and_then(finite) {
        None => DASH.into(),
        Some(percent) if percent.abs() < 0.5 => "0 %".into(),
        Some(percent) if percent.abs() < 1000.0 => format!("{percent:+.0} %"),
        Some(percent) => with_unit(percent, "%"),
    }
}

/// A figure and its unit, which stay in one line.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    format!("{}\u{a0}{unit}", number(value))
}

/// Bytes, in the largest binary unit.
pub(crate) fn bytes(value: u64) -> String {
    aquifer_base::units::format_size(value).replace(' ', "\u{a0}")
}

/// A time in UTC, as in `2026-11-22 20:46 UTC`.
pub(crate) fn date(unix_s: u64) -> String {
    // The last second of the year 9999.
    if unix_s > 253_402_300_799 {
        return format!("second {unix_s} since 1970");
    }
    let (year, month, day) = civil(unix_s / 86400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", unix_s / 3600 % 24, unix_s / 60 % 60)
}

/// The Gregorian date of a day since 1970: years begin in March here, so that the leap day is their last.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, in_era) = (day / 146_097, day % 146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let in_month = in_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, in_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.12345, 5.0, 12.34, 999.7, 12_345_678.0, -1234.0, 1e300, f64::NAN];
        let texts: Vec<String> = shown.into_iter().map(number).collect();
        let expected = [
            "0",
            "0.123",
            "5.00",
            "12.3",
            "1\u{202F}000",
            "12\u{202F}345\u{202F}678",
            "-1\u{202F}234",
            "1.00e300",
            DASH,
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn short_ones_have_few_letters() {
        let shown: Vec<String> =
            [0.0, 0.25, 42.3, 999.6, 12_345.0, 999_999.0, 3.2e7, 1e99].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.25", "42", "1.0k", "12k", "1.0M", "32M", "1e99"]);
        assert_eq!(trimmed("10.0\u{a0}ms"), "10\u{a0}ms");
        assert_eq!(trimmed("1.00e300"), "1.00e300");
        assert_eq!(trimmed("100"), "100");
    }

    #[test]
    fn units_suit_the_figure() {
        assert_eq!(nanoseconds(1_500.0), "1.50\u{a0}\u{b5}s");
        assert_eq!(seconds(0.002), "2.00\u{a0}ms");
        assert_eq!(seconds(7200.0), "2.00\u{a0}h");
        assert_eq!(change(Some(-0.504)), "-50 %");
        assert_eq!(change(ratio(1.0, 0.0)), DASH);
    }

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_380_360), "2026-11-22 20:46 UTC");
        assert!(date(u64::MAX).starts_with("second"));
    }
}
