//! Borrowers' transfers.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use super::attention::Attention;
use super::session::{Command, Session};
use super::state::State;
use crate::transport::{Newcomer, Port, ServeLink};

/// How long a borrower may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long it takes to notice that the donor ends.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Lets links in until the donor ends.
pub fn accept_until_ended(state: &Arc<State>, port: &mut Port) {
    while !state.is_ending() {
        match port.next(LOOK_UP) {
            Ok(Some(newcomer)) => let_in(state, newcomer),
            Ok(None) => {}
            // Nobody new can come; those who are here stay.
            Err(_) => thread::sleep(LOOK_UP),
        }
    }
}

/// Lets one in that shows a token, which is of no use then any more. Others are refused.
fn let_in(state: &Arc<State>, newcomer: Newcomer<'_>) {
    let Some(session) = state.session_with(newcomer.token()) else { return };
    let Some(commands) = session.link() else { return };
    let accepted = newcomer.accept(CONNECT_LIMIT);
    let state = Arc::clone(state);
    let spawned = thread::Builder::new().name("aq-donor-link".into()).spawn(move || {
        if let Ok(mut served) = accepted {
            serve(&session, &mut *served, &commands, Attention::new(state.options.looks));
        }
        session.end();
        state.remove_session(session.id);
    });
    // Without a thread nothing is served: the borrower's transfers miss their deadline, and it goes.
    drop(spawned);
}

/// Moves transfers on until the borrower is gone. Its slabs cannot be reached from then on.
fn serve(
    session: &Session,
    served: &mut dyn ServeLink,
    commands: &Receiver<Command>,
    mut attention: Attention,
) {
    loop {
        loop {
            match commands.try_recv() {
                // The thread that asked may have given up.
                Ok(Command::Lend(memory, key, answer)) => {
                    let _ = answer.send(served.lend(&memory, key).map_err(|error| error.to_string()));
                }
                Ok(Command::TakeBack(place, answer)) => {
                    let taken = served.take_back(place);
                    let is_at_an_end = taken.is_err();
                    let _ = answer.send(taken.unwrap_or(false));
                    if is_at_an_end {
                        return;
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if session.is_ended() || !attention.serve(served) {
            return;
        }
    }
}
