//! Bars over categories, side by side.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, text_width};
use super::frame::{Frame, Key};

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
        let values = self.bars.iter().flat_map(|bars| bars.values.iter().flatten().copied());
        let Some(y) = Scale::of(&self.y, values) else { return String::new() };
        let keys: Vec<Key> = self.bars.iter().map(Bars::key).collect();
        let mut frame = Frame::new(&self.title, &keys);
        frame.y_axis(&self.y, &y);
        let step = (frame.right - frame.left) / self.categories.len().max(1) as f64;
        let mut free = f64::NEG_INFINITY;
        for (at, category) in self.categories.iter().enumerate() {
            let left = frame.left + step * at as f64;
            self.draw_group(&mut frame, &y, at, (left + step * 0.12, step * 0.76));
            let (middle, half) = (left + step / 2.0, text_width(category) / 2.0);
            if middle - half > free + 4.0 {
                frame.canvas.label("tick", (middle, frame.bottom + 16.0), Anchor::Middle, category);
                free = middle + half;
            }
        }
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
            let shown = crate::render::figures::number(value);
            let tip = format!("{}, {}: {shown}", self.categories[category], bars.name);
            let (corner, size) = ((x, top), (width * 0.92, frame.bottom - top));
            frame.canvas.rect(&format!("f{}", bars.colour % 8), corner, size, &tip);
            if text_width(&shown) < width * 1.05 {
                let at = (x + width * 0.46, (top - 3.0).max(frame.top + 8.0));
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
