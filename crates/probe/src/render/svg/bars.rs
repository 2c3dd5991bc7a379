//! Bars over categories, side by side.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, text_width};
use super::frame::{Frame, Key};
use crate::render::figures;

/// Room above the highest bar for its figure.
const HEADROOM: f64 = 1.08;

/// Bars of one colour.
pub(crate) struct Bars {
    /// In the legend.
    pub name: String,
    /// One for each category; none where nothing was measured.
    pub values: Vec<Option<f64>>,
    /// Number of the colour, below 8.
    pub colour: usize,
}

/// A plot of bars. The y axis is linear and begins at 0: the length of a bar is its value.
pub(crate) struct BarPlot {
    pub title: String,
    /// Names below the bars.
    pub categories: Vec<String>,
    /// What the categories are.
    pub x_name: String,
    pub y: Axis,
    pub bars: Vec<Bars>,
}

impl BarPlot {
    pub(crate) fn draw(&self) -> String {
        let values =
            self.bars.iter().flat_map(|bars| bars.values.iter().flatten().map(|value| value * HEADROOM));
        let Some(y) = Scale::of(&self.y, values) else { return String::new() };
        let keys: Vec<Key> = self.bars.iter().map(Bars::key).collect();
        let mut frame = Frame::new(&self.title, &keys);
        frame.y_axis(&self.y, &y);
        let step = (frame.right - frame.left) / self.categories.len().max(1) as f64;
        for (at, _) in self.categories.iter().enumerate() {
            let left = frame.left + step * at as f64;
            self.draw_group(&mut frame, &y, at, (left + step * 0.12, step * 0.76));
        }
        let middle = |at| frame.left + step * (at as f64 + 0.5);
        let labels: Vec<_> =
            self.categories.iter().enumerate().map(|(at, name)| (middle(at), name.as_str())).collect();
        frame.x_labels(&labels);
        frame.x_name(&self.x_name);
        frame.finish()
    }

    /// The bars of one category, between `left` and `left + width`.
    fn draw_group(&self, frame: &mut Frame, y: &Scale, category: usize, (left, width): (f64, f64)) {
        let width = width / self.bars.len().max(1) as f64;
        for (at, bars) in self.bars.iter().enumerate() {
            let Some(value) = bars.values.get(category).copied().flatten().filter(|value| value.is_finite())
            else {
                continue;
            };
            let x = left + width * at as f64;
            let top = frame.y(y, value);
            let shown = figures::short(value);
            let tip = format!("{}, {}: {}", self.categories[category], bars.name, figures::number(value));
            let (corner, size) = ((x, top), (width * 0.92, frame.bottom - top));
            frame.canvas.rect(&format!("f{}", bars.colour % 8), corner, size, &tip);
            if text_width(&shown) < width * 1.05 {
                let at = (x + width * 0.46, top - 3.0);
                frame.canvas.label("note", at, Anchor::Middle, &shown);
            }
        }
    }
}

impl Bars {
    fn key(&self) -> Key {
        Key { name: self.name.clone(), class: format!("f{}", self.colour % 8), is_area: true }
    }
}
