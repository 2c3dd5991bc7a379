//! Draws on the terminal as `aquifer top` does, and panics. The tests look at what is left of the terminal.
#![forbid(unsafe_code)]

use aquifer_cli::top::screen::Screen;

fn main() -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    screen.draw(|frame| frame.render_widget("metadata", frame.area()))?;
    panic!("in the middle of it");
}
