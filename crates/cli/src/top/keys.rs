//! What keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What the user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// To end.
    Quit,
    /// To look at this moment, or at the present again.
    Pause,
    /// More time between two answers.
    Longer,
    /// Less time between two answers.
    Shorter,
    /// The line that explains the keys, or its absence.
    Help,
}

/// The keys, as the help line has them.
pub const HELP: &str = "q quit   p pause   + - interval   h help";

/// What a key asks for, if anything.
pub fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Wish::Quit);
    }
    match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('p' | 'P') => Some(Wish::Pause),
        // The second ones are the same keys without and with shift.
        KeyCode::Char('+' | '=') => Some(Wish::Longer),
        KeyCode::Char('-' | '_') => Some(Wish::Shorter),
        KeyCode::Char('h' | 'H' | '?') => Some(Wish::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_meaning() {
        let of = |code, modifiers| wish(KeyEvent::new(code, modifiers));
        let plain = |character| of(KeyCode::Char(character), KeyModifiers::NONE);
        assert_eq!(
            ['q', 'p', '+', '-', 'h'].map(plain),
            [Wish::Quit, Wish::Pause, Wish::Longer, Wish::Shorter, Wish::Help].map(Some)
        );
        assert_eq!(of(KeyCode::Esc, KeyModifiers::NONE), Some(Wish::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
        assert_eq!((plain('c'), of(KeyCode::Char('p'), KeyModifiers::CONTROL)), (None, None));
    }

    #[test]
    fn a_key_let_go_means_nothing() {
        let key = KeyEvent::new_with_kind(KeyCode::Char('p'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(wish(key), None);
    }
}
