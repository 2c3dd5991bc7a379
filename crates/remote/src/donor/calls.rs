//! What borrowers ask.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::deed::What;
use super::lending::BorrowerId;
use super::session::Session;
use super::shares::{Account, Claim};
use super::state::State;
use super::strangers::Stranger;
use crate::control::{
    Answer, BORROWINGS_MAX, Borrowing, Call, Channel, ChannelError, Greeting, HostRole, MEMBERS_BYTES_MAX,
    Peer, Refusal, Role, SlabId, Stream, VERSION, Welcome, machine_id,
};
use crate::random;
use crate::transport::Place;
use crate::words::Words;

/// What somebody who looks may ask.
const QUESTIONS_MAX: usize = 2;

/// Lets channels in until the donor ends.
pub fn accept_until_ended(state: &Arc<State>, listener: &TcpListener) {
    for socket in listener.incoming() {
        if state.is_ending() {
            return;
        }
        let Ok((stranger, socket)) = socket.and_then(|socket| Ok((state.strangers.come(&socket)?, socket)))
        else {
            // No descriptor is left, or the other side is gone already.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let state = Arc::clone(state);
        let spawned = thread::Builder::new().name("aq-donor-calls".into()).spawn(move || {
            if let Ok(Some(borrower)) = greet(&state, socket, stranger) {
                serve(&state, &borrower.session, borrower.calls);
            }
        });
        // Without a thread the connection is closed, and the borrower tries again.
        drop(spawned);
    }
}

/// A stranger that has proved to be a borrower.
struct Borrower {
    session: Arc<Session>,
    calls: Channel<Stream>,
}

/// What a donor says to a stranger.
type Answered = Result<Option<Welcome>, Refusal>;

/// Finds out who it is. A channel for notices goes to its session, and nothing is left to do.
fn greet(state: &State, socket: TcpStream, _stranger: Stranger) -> Result<Option<Borrower>, ChannelError> {
    let stream = Stream::accepted(socket, &state.options.security)?;
    let ender = stream.ender()?;
    let mut channel = Channel::new(stream);
    let greeting: Greeting = channel.receive()?;
    let may_borrow = channel.stream().peer().is_none_or(|peer| peer.may_be(HostRole::Borrower));
    if let Some(refusal) = refusal(state, &greeting, may_borrow) {
        channel.send(&Answered::Err(refusal))?;
        return Ok(None);
    }
    match greeting.role {
        Role::Look => {
            channel.send(&Answered::Ok(Some(welcome(state, String::new()))))?;
            for _ in 0..QUESTIONS_MAX {
                let answer = match channel.receive()? {
                    Call::Ask => Answer::Offer(state.lending().offer()),
                    Call::Members => Answer::Members(state.members()),
                    Call::Borrowings => Answer::Borrowings(borrowings(state)),
                    _ => Answer::Refused(Refusal::Token),
                };
                channel.send_within(&answer, MEMBERS_BYTES_MAX)?;
            }
            Ok(None)
        }
        Role::Calls => {
            let (id, weight) = (next_borrower(), greeting.weight);
            let (host, claim) = match channel.stream().peer() {
                Some(Peer { host, weight: account_weight, .. }) => {
                    (host.clone(), Claim { account: Account::Host(host), account_weight, weight })
                }
                None => (String::new(), Claim::own(id, weight)),
            };
            let name = Words::of(&greeting.name).as_str().to_string();
            let session = Arc::new(Session::new(id, host, name, random::bytes()?, ender));
            state.lending().come(session.id, claim);
            state.add_session(&session);
            let token = random::to_hex(&session.token);
            if let Err(error) = channel.send(&Answered::Ok(Some(welcome(state, token)))) {
                state.remove_session(session.id);
                return Err(error);
            }
            Ok(Some(Borrower { session, calls: channel }))
        }
        Role::Notices(token) => {
            let session = random::from_hex::<32>(&token).and_then(|token| state.session_with(&token));
            let answer = session.as_ref().map(|_| None).ok_or(Refusal::Token);
            channel.send(&answer as &Answered)?;
            if let Some(session) = session {
                session.notify_on(channel);
            }
            Ok(None)
        }
    }
}

fn next_borrower() -> BorrowerId {
    static BORROWERS: AtomicU64 = AtomicU64::new(1);
    BorrowerId(BORROWERS.fetch_add(1, Ordering::Relaxed))
}

fn refusal(state: &State, greeting: &Greeting, may_borrow: bool) -> Option<Refusal> {
    if greeting.version != VERSION {
        return Some(Refusal::Version { donor: VERSION, borrower: greeting.version });
    }
    if state.is_ending() {
        return Some(Refusal::Ending);
    }
    if greeting.role != Role::Look && !may_borrow {
        return Some(Refusal::NoBorrower);
    }
    let is_own = greeting.role != Role::Look && greeting.machine == machine_id();
    if state.options.is_for_own_machine_alone() {
        let is_other = greeting.role != Role::Look && !is_own;
        return is_other.then_some(Refusal::OtherMachine);
    }
    (is_own && !state.options.lends_to_own_machine).then_some(Refusal::OwnMachine)
}

fn welcome(state: &State, token: String) -> Welcome {
    Welcome {
        slab_bytes: state.options.slab_bytes,
        provider: state.options.provider.clone(),
        port: state.port,
        token,
        domain: state.options.domain.clone(),
        address: state.address,
        instance: state.instance.clone(),
    }
}

/// Answers a borrower until it is gone.
fn serve(state: &State, session: &Session, mut channel: Channel<Stream>) {
    let mut places = Vec::new();
    while let Ok(call) = channel.wait_for_next::<Call>() {
        let answer = answer(state, session, call, &mut places).unwrap_or_else(Answer::Refused);
        if state.is_ending() || channel.send_within(&answer, MEMBERS_BYTES_MAX).is_err() {
            break;
        }
    }
    session.end();
    // The link's thread ends by itself, and then gives the slabs back; without one there is none to wait for.
    if session.link().is_some() {
        state.remove_session(session.id);
    }
}

fn answer(
    state: &State,
    session: &Session,
    call: Call,
    places: &mut Vec<(SlabId, Place)>,
) -> Result<Answer, Refusal> {
    match call {
        Call::Ask => Ok(Answer::Offer(state.lending().offer())),
        Call::Members => Ok(Answer::Members(state.members())),
        Call::Borrowings => Ok(Answer::Borrowings(borrowings(state))),
        Call::Reserve => {
            let mut lending = state.lending();
            let offer = lending.offer();
            let reservation = lending.reserve(session.id, state.moment())?;
            Ok(Answer::Reserved { reservation, offer })
        }
        Call::Take(reservation) => {
            let slab = state.lending().take(session.id, reservation, state.moment())?;
            let lent = random::bytes().map_err(|error| Some(error.to_string())).and_then(|key| {
                let memory = state.memory_of(slab).ok_or_else(|| Some("its memory is gone".to_owned()))?;
                session.lend(memory, u64::from_le_bytes(key))
            });
            let place = lent.map_err(|reason| match reason {
                Some(reason) => {
                    give_back(state, session, slab);
                    Refusal::Register(reason)
                }
                None => {
                    // It may be reached later, so nobody else may have it before the link has ended.
                    session.end();
                    Refusal::Register("the borrower's connection for transfers does not move".into())
                }
            })?;
            places.push((slab, place));
            state.note(What::Lent, session, Some(slab));
            Ok(Answer::Lent { slab, address: place.address, key: place.key })
        }
        Call::Cancel(reservation) => {
            state.lending().cancel(session.id, reservation)?;
            Ok(Answer::Done)
        }
        Call::GiveBack(slab) => {
            let nth = places.iter().position(|(lent, _)| *lent == slab).ok_or(Refusal::NotLent)?;
            let (_, place) = places.swap_remove(nth);
            if !session.take_back(place) {
                // It can still be reached, so nobody else may have it: the end of the session settles it.
                return Err(Refusal::NotLent);
            }
            state.note(What::GivenBack, session, Some(slab));
            give_back(state, session, slab);
            Ok(Answer::Done)
        }
    }
}

fn borrowings(state: &State) -> Vec<Borrowing> {
    let mut all = state.borrowers();
    all.truncate(BORROWINGS_MAX);
    all
}

fn give_back(state: &State, session: &Session, slab: SlabId) {
    let outcome = state.lending().give_back(session.id, slab);
    if let Ok(is_wanted) = outcome {
        state.settle_returned(slab, is_wanted);
    }
}
