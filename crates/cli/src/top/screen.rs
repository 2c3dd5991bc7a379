//! The terminal, borrowed and given back.

use std::io::{self, Stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

/// Whether the terminal is to be given back.
static BORROWED: AtomicBool = AtomicBool::new(false);

/// The terminal as a screen of cells. It is given back when this is dropped and when the program panics.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Borrows the terminal.
    ///
    /// # Errors
    /// What the system says; the terminal is as before then.
    pub fn open() -> io::Result<Self> {
        give_back_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        BORROWED.store(true, Ordering::SeqCst);
        let screen = Self { terminal };
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws the next picture, on a screen of any size.
    ///
    /// # Errors
    /// What the system says; the terminal may have gone.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// The program may be built to abort on a panic, without dropping anything; the message would be lost on the
/// borrowed screen anyway. So the terminal is given back before the message.
fn give_back_on_panic() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let message = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            message(info);
        }));
    });
}

/// A terminal that has gone needs nothing back.
fn give_back() {
    if BORROWED.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}
