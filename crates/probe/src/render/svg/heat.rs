//! A field of figures, darker where they are higher.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, text_width};
use super::frame::WIDTH;
use crate::render::figures;

const LEFT: f64 = 84.0;
const TOP: f64 = 30.0;
const CELL_HEIGHT: f64 = 22.0;
/// Shades that the style sheet has.
const SHADES: f64 = 8.0;

/// A figure for each pair of a row and a column, shaded by its logarithm.
pub(crate) struct HeatPlot {
    pub title: String,
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// What the columns are.
    pub x_name: String,
    /// What the rows are.
    pub y_name: String,
    /// By row, then column; none where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
}

impl HeatPlot {
    pub(crate) fn draw(&self) -> String {
        let values = self.values.iter().flatten().flatten().copied();
        let Some(scale) = Scale::of(&Axis::log(""), values) else { return String::new() };
        let height = TOP + CELL_HEIGHT * self.rows.len() as f64;
        let mut canvas = Canvas::new(WIDTH, height + 44.0, &self.title);
        canvas.title(&self.title);
        canvas.upright((14.0, f64::midpoint(TOP, height)), &self.y_name);
        let step = (WIDTH - LEFT - 16.0) / self.columns.len().max(1) as f64;
        for (row, name) in self.rows.iter().enumerate() {
            let y = TOP + CELL_HEIGHT * row as f64;
            canvas.label("tick", (LEFT - 6.0, y + 15.0), Anchor::End, name);
            for column in 0..self.columns.len() {
                self.draw_cell(&mut canvas, &scale, (row, column), (LEFT + step * column as f64, y, step));
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let middle = LEFT + step * (column as f64 + 0.5);
            canvas.label("tick", (middle, height + 16.0), Anchor::Middle, name);
        }
        canvas.label("name", (f64::midpoint(LEFT, WIDTH), height + 36.0), Anchor::Middle, &self.x_name);
        canvas.finish()
    }

    fn draw_cell(
        &self,
        canvas: &mut Canvas,
        scale: &Scale,
        (row, column): (usize, usize),
        (x, y, width): (f64, f64, f64),
    ) {
        let value = self.values.get(row).and_then(|row| row.get(column)).copied().flatten();
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let shade = (scale.share(value) * SHADES).min(SHADES - 1.0) as u32;
        let tip = format!("{}, {}: {}", self.rows[row], self.columns[column], figures::number(value));
        canvas.rect(&format!("h{shade}"), (x + 1.0, y + 1.0), (width - 2.0, CELL_HEIGHT - 2.0), &tip);
        let shown = figures::short(value);
        if text_width(&shown) < width {
            canvas.label(&format!("on{shade}"), (x + width / 2.0, y + 15.0), Anchor::Middle, &shown);
        }
    }
}
