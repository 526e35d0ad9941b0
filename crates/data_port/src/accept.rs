//! Accepts connections: one thread each, a deadline for the request of a peer, then open or join. Does not decide the rights of a peer
//! (`open`) and does not run transfers (the engine).

use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use godwit_api::record::StrangerAction;
use godwit_engine::session::{GreetError, greet_client, receive_frame, receive_rest, send_error};
use godwit_net::{
    AcceptOptions, IdentityId, Stream, StreamOptions, Waker, Wants, accept, client_wants,
};
use godwit_proto::{ErrorCode, Frame, Open};
use godwit_store::close_kept_handles;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Shared;
use crate::allow::{Denial, Who};
use crate::gate::{Full, Slot, StrangerSlot};
use crate::{ask, examine, open};

/// Pause after the system refused a connection because descriptors or memory were missing; the system sends no event when they are available again.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Deadline for the first bytes of a connection.
const FIRST_BYTES_DEADLINE: Duration = Duration::from_secs(3);

/// Main function of a listener's thread.
pub(crate) fn listen(shared: &Arc<Shared>, listener: &TcpListener, waker: &Waker) {
    // Logged once each time the system begins to refuse connections.
    let mut refusing = false;
    while !shared.stopping() {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(waker, PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        match listener.accept() {
            Ok((socket, address)) => {
                refusing = false;
                admit(shared, socket, address.ip());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                if !refusing {
                    shared.operator.log(&format!(
                        "connections cannot be accepted: {error}; new connections wait until descriptors are free"
                    ));
                }
                refusing = true;
                close_kept_handles();
                let pause = Timespec {
                    tv_sec: 0,
                    tv_nsec: i64::from(REFUSED_PAUSE.subsec_nanos()),
                };
                // The result of the wait does not matter.
                let _ = poll(&mut [PollFd::new(waker, PollFlags::IN)], Some(&pause));
            }
        }
    }
}

fn admit(shared: &Arc<Shared>, socket: TcpStream, address: IpAddr) {
    let place = match shared.gate.stranger(&socket, address, Instant::now()) {
        Ok(place) => place,
        Err(error) => {
            let line = format!("{address}: a connection could not be accepted: {error}");
            shared.operator.log_stranger(StrangerAction::Connect, &line);
            return;
        }
    };
    let own = Arc::clone(shared);
    let body = move || serve(&own, socket, place);
    if let Err(error) = std::thread::Builder::new()
        .name("gw-conn".to_owned())
        .spawn(body)
    {
        let line = format!("{address}: no thread for a connection: {error}");
        shared.operator.log_stranger(StrangerAction::Connect, &line);
    }
}

/// Whether the first bytes arrive soon. A client sends first, so a connection that is silent for longer is not a client.
fn speaks(socket: &TcpStream, deadline: Duration) -> bool {
    let wait = Timespec::try_from(deadline.min(FIRST_BYTES_DEADLINE)).ok();
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    // A connection that closes without sending, or is closed to admit another one, is not logged.
    matches!(poll(&mut fds, wait.as_ref()), Ok(1..)) && matches!(socket.peek(&mut [0]), Ok(1..))
}

/// Main function of a connection's thread.
pub(crate) fn serve(shared: &Arc<Shared>, socket: TcpStream, stranger: StrangerSlot) {
    // One deadline for all steps: a stranger who hesitates in each of them gains nothing.
    let until = Instant::now() + shared.config.handshake_deadline;
    let left = || until.saturating_duration_since(Instant::now());
    if let Err(error) = socket.set_nonblocking(false) {
        let line = format!("a connection could not be used: {error}");
        shared.operator.log_stranger(StrangerAction::Connect, &line);
        return;
    }
    if !speaks(&socket, left()) {
        return;
    }
    if let Some(web) = &shared.config.web
        && client_wants(&socket, left()) == Wants::Other
    {
        // The API counts its own connections.
        drop(stranger);
        web(socket);
        return;
    }
    let options = AcceptOptions {
        deadline: left(),
        stream: StreamOptions {
            stall_limit: shared.config.stall_limit,
            ..StreamOptions::default()
        },
    };
    let accepted = match accept(socket, &shared.config.tls, &options) {
        Ok(accepted) => accepted,
        Err(error) => {
            shared
                .operator
                .log_stranger(StrangerAction::Connect, &error.to_string());
            return;
        }
    };
    if shared.only.is_some_and(|only| only != accepted.peer) {
        let line = format!(
            "{}: this transfer belongs to a different peer",
            accepted.stream.peer()
        );
        shared.operator.log_stranger(StrangerAction::Connect, &line);
        return;
    }
    let (mut stream, peer) = (accepted.stream, accepted.peer);
    let place = || shared.gate.peer(&shared.places.counted_as(peer));
    // A peer with a proven, known key no longer competes with silent connections: from now on the connection counts as one of this peer's.
    // A peer with one connection too many is refused only after its request. Until then it counts as a stranger.
    let known = shared.places.may_ask(peer).is_ok().then(place);
    let stranger = match &known {
        Some(Ok(_)) => {
            stranger.free_as_known();
            None
        }
        _ => Some(stranger),
    };
    // Nodes of the cluster ask each other with long documents. No other peer without a grant has a reason to.
    let is_let_in = known.is_some() || ask::is_member(shared, peer) == Ok(true);
    if !is_let_in {
        stream.keep_heads_up_to(ask::STRANGER_BYTES_MAX);
    }
    let frame = greet_client(&mut stream, left()).and_then(|_| receive_frame(&mut stream, left()));
    stream.keep_heads_up_to(u32::MAX);
    let frame = match frame {
        Ok(frame) => frame,
        Err(error @ GreetError::TooLong { .. }) => {
            // The answer is the same as for any other request of this peer.
            let no = ask::let_in(shared, peer).err().unwrap_or_else(|| Denial {
                retryable: true,
                ..Denial::new(ErrorCode::PROTOCOL, error.to_string())
            });
            let address = stream.peer();
            shared.operator.refused(peer, &address, None, &no);
            send_error(&mut stream, no.code, &no.message, no.retryable);
            return;
        }
        Err(error) => {
            // A known peer that closes without a request is not logged: a client may not need all of its connections.
            if known.is_none() {
                shared
                    .operator
                    .log_stranger(StrangerAction::Connect, &error.to_string());
            } else if !error.is_end() {
                shared.operator.log_peer(peer, &error.to_string());
            }
            return;
        }
    };
    let place = match known.unwrap_or_else(place) {
        Ok(place) => place,
        Err(full) => {
            let message = match full {
                Full::Peer => {
                    "too many connections of this identity; close some, or raise --connections-per-peer on the daemon"
                }
                Full::All => {
                    "the daemon has reached its limit of connections; try again later, or ask its operator to raise --connections-max"
                }
            };
            send_error(&mut stream, ErrorCode::LIMIT, message, true);
            return;
        }
    };
    drop(stranger);
    shared.carriers.fetch_add(1, Ordering::SeqCst);
    dispatch(shared, &mut stream, peer, frame);
    shared.carriers.fetch_sub(1, Ordering::SeqCst);
    drop(place);
}

pub(crate) fn dispatch(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    frame: Frame,
) {
    match frame {
        Frame::Open(request) => match rest_of(shared, stream, peer, request) {
            Ok((request, slot)) => open::open(shared, stream, peer, &request, slot),
            Err(no) => {
                send_error(stream, no.code, &no.message, no.retryable);
                stream.shutdown();
            }
        },
        Frame::Join(request) => open::join(shared, stream, peer, &request),
        Frame::Examine(question) => examine::serve(shared, stream, peer, question),
        Frame::Ask(question) => ask::serve(shared, stream, peer, question),
        other => {
            let message = format!(
                "a connection begins with OPEN, JOIN, EXAMINE or ASK, not with {}",
                other.name()
            );
            let line = format!("{}: {message}", stream.peer());
            match shared.places.may_ask(peer) {
                Ok(()) => shared.operator.log_peer(peer, &line),
                Err(_) => shared.operator.log_stranger(StrangerAction::Connect, &line),
            }
            send_error(stream, ErrorCode::PROTOCOL, &message, false);
        }
    }
}

/// The complete OPEN of a peer with a grant. Any other peer gets the same answer to any request. An OPEN of several frames is read
/// completely only if the peer has the right to the places in its first frame. The number of such requests is limited, because their
/// sources are not bounded otherwise until the transfer is admitted. The request is counted before the rights are looked up, because a
/// frame may name thousands of paths.
fn rest_of(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: Open,
) -> Result<(Open, Option<Slot<IdentityId>>), Denial> {
    let who = Who::opens(peer, &request);
    let may = shared.places.may_open(&who, &request);
    let slot = may.and_then(|()| {
        if !request.more {
            return Ok(None);
        }
        open::check_count(&request)?;
        let place = shared.gate.long_open(&shared.places.counted_as(peer));
        let place = place.map_err(|_full| Denial {
            retryable: true,
            ..Denial::new(
                ErrorCode::LIMIT,
                "this daemon has reached its limit of requests with long lists of sources; try again later",
            )
        })?;
        shared.places.may_continue(&who, &request)?;
        Ok(Some(place))
    });
    let slot = slot.inspect_err(|no| {
        shared
            .operator
            .refused(peer, &stream.peer().to_string(), Some(&request), no);
    })?;
    if slot.is_none() {
        return Ok((request, None));
    }
    match receive_rest(stream, request, shared.config.handshake_deadline) {
        Ok(whole) => Ok((whole, slot)),
        Err(error) => {
            shared.operator.log_peer(peer, &error.to_string());
            Err(Denial::new(ErrorCode::PROTOCOL, error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests;
