//! Plots, drawn as SVG inside a page. Colours come from the page's style sheet, so that they suit a dark screen and paper.
//!
//! Written here rather than by `plotters`: its pictures have fixed colours and know neither style sheets nor tool tips.

mod axis;
mod bars;
mod canvas;
mod frame;
mod heat;
mod lines;

pub(crate) use axis::{Axis, Ticks};
pub(crate) use bars::{BarPlot, Bars};
pub(crate) use heat::HeatPlot;
pub(crate) use lines::{LinePlot, Series};

/// One picture.
pub(crate) enum Plot {
    /// Points over a scale.
    Lines(LinePlot),
    /// Bars over categories.
    Bars(BarPlot),
    /// A figure for each pair of two things.
    Heat(HeatPlot),
}

impl Plot {
    /// The picture as an `svg` element; empty if there is nothing to draw.
    pub(crate) fn draw(&self) -> String {
        match self {
            Self::Lines(plot) => plot.draw(),
            Self::Bars(plot) => plot.draw(),
            Self::Heat(plot) => plot.draw(),
        }
    }
}
