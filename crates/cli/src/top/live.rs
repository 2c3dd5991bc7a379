//! The loop: keys, answers and signals in, pictures out.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};

use crate::error::Error;
use crate::heap::{Heap, Measurement};

use super::keys::wish;
use super::picture::Picture;
use super::screen::Screen;
use super::state::State;

/// What can happen.
enum Message {
    /// A key, or another size.
    Input(Event),
    /// The answer to a question.
    Answer(Box<Result<Measurement, Error>>),
    /// A signal, or the terminal has gone.
    End,
}

/// Shows the heap until somebody ends it; whether that was the program.
///
/// # Errors
/// [`Error`] if the heap cannot be asked any more or the terminal not be used. The terminal is as before.
pub fn watch(heap: Heap, first: Picture, interval: Duration) -> Result<bool, Error> {
    let (sender, messages) = mpsc::channel();
    end_on_signals(sender.clone())?;
    let mut screen = Screen::open().map_err(Error::Terminal)?;
    let questions = ask_in_background(heap, sender.clone())?;
    read_input_in_background(sender)?;
    let mut state = State::new(first, interval);
    loop {
        let now = Instant::now();
        screen.draw(|frame| state.view(now).draw(frame)).map_err(Error::Terminal)?;
        if state.is_due(now) {
            state.ask(now);
            if questions.send(()).is_err() {
                // The thread that asks has panicked, and said so.
                return Ok(false);
            }
        }
        match next(&messages, state.rest(now)) {
            Some(Message::Input(Event::Key(key))) => {
                if wish(key).is_some_and(|wish| !state.obey(wish)) {
                    return Ok(false);
                }
            }
            Some(Message::Answer(answer)) => match *answer {
                Ok(measurement) => state.answer(measurement),
                Err(Error::Silent { .. }) => state.miss(),
                Err(error) if error.means_closed() => return Ok(true),
                Err(error) => return Err(error),
            },
            Some(Message::End) => return Ok(false),
            Some(Message::Input(_)) | None => {}
        }
    }
}

/// What happens within `patience`.
fn next(messages: &Receiver<Message>, patience: Duration) -> Option<Message> {
    match messages.recv_timeout(patience) {
        Ok(message) => Some(message),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Message::End),
    }
}

/// SIGINT, SIGTERM and SIGHUP end the loop, which then gives the terminal back.
fn end_on_signals(sender: Sender<Message>) -> Result<(), Error> {
    let end = move || drop(sender.send(Message::End));
    ctrlc::set_handler(end).map_err(|error| Error::Terminal(io::Error::other(error)))
}

/// A peer that does not answer must not hold up the keys.
fn ask_in_background(mut heap: Heap, sender: Sender<Message>) -> Result<Sender<()>, Error> {
    let (questions, asked) = mpsc::channel();
    let ask = move || {
        while asked.recv().is_ok() {
            if sender.send(Message::Answer(Box::new(heap.measure()))).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("aquifer-ask".into()).spawn(ask)?;
    Ok(questions)
}

/// The thread waits for keys until the process ends.
fn read_input_in_background(sender: Sender<Message>) -> Result<(), Error> {
    let read = move || {
        loop {
            let message = event::read().map_or(Message::End, Message::Input);
            let is_end = matches!(message, Message::End);
            if sender.send(message).is_err() || is_end {
                return;
            }
        }
    };
    std::thread::Builder::new().name("aquifer-keys".into()).spawn(read)?;
    Ok(())
}
