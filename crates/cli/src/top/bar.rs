//! Bars and sparks of block characters.

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of `columns` characters, of which `share` (0 to 1) is filled.
pub fn bar(share: f64, columns: usize) -> String {
    let eighths = (clamped(share) * columns as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    let filled = eighths.div_ceil(8);
    bar + &" ".repeat(columns - filled)
}

/// The last values that fit into `columns` characters, as rows from top to bottom.
pub fn sparks(values: impl DoubleEndedIterator<Item = f64>, columns: usize, rows: usize) -> Vec<String> {
    let mut shown: Vec<f64> = values.rev().take(columns).collect();
    shown.reverse();
    let max = shown.iter().copied().fold(0.0, f64::max);
    let eighths = |value: f64| match value {
        value if value > 0.0 => ((value / max * (rows * 8) as f64).round() as usize).max(1),
        _ => 0,
    };
    let character = |value: f64, below: usize| match eighths(value).saturating_sub(below * 8) {
        0 => ' ',
        height => HEIGHTS[height.min(8) - 1],
    };
    let lead = " ".repeat(columns - shown.len());
    (0..rows)
        .rev()
        .map(|below| lead.clone() + &shown.iter().map(|&v| character(v, below)).collect::<String>())
        .collect()
}

fn clamped(share: f64) -> f64 {
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_by_eighths() {
        assert_eq!([0.0, 0.5, 0.5625, 1.0].map(|share| bar(share, 4)), ["    ", "██  ", "██▎ ", "████"]);
        assert_eq!([f64::NAN, -1.0, 2.0, f64::INFINITY].map(|share| bar(share, 2)), ["  ", "  ", "██", "██"]);
        assert_eq!(bar(0.5, 0), "");
    }

    #[test]
    fn sparks_show_the_last_values() {
        assert_eq!(sparks([9.0, 1.0, 2.0, 4.0].into_iter(), 3, 1), ["▂▄█"]);
        assert_eq!(sparks([4.0, 1.0].into_iter(), 3, 2), [" █ ", " █▄"]);
        assert_eq!(sparks([0.0, 0.001, 1e9].into_iter(), 4, 1), ["  ▁█"]);
        assert_eq!(sparks([0.0, 0.0].into_iter(), 2, 1), ["  "]);
        assert_eq!(sparks([].into_iter(), 2, 1), ["  "]);
    }
}
