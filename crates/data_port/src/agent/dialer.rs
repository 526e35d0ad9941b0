//! Dials a peer that does not connect, so that a firewall on this side does not matter: as many connections as the peer wants
//! streams. Does not know their purpose; each is served as if the peer had dialled.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use godwit_net::Waker;

use crate::Shared;
use crate::accept;

/// The peer's own attempts have precedence for this time: a round trip and a handshake.
const PATIENCE: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);

/// Main function of the dialling thread.
pub(super) fn run(shared: &Arc<Shared>, targets: &[SocketAddr], waker: &Waker) {
    let active = Arc::new(AtomicUsize::new(0));
    let mut working = None;
    let mut pause = PATIENCE;
    loop {
        // Any end of the wait leads to a full new check.
        let _ = waker.wait(pause);
        if shared.stopping() {
            return;
        }
        pause = PATIENCE;
        loop {
            let ours = active.load(Ordering::SeqCst);
            // The peer made a connection, so this direction works and the peer can connect again.
            let theirs = shared.carriers.load(Ordering::SeqCst).saturating_sub(ours);
            if theirs > 0 || ours >= shared.table.streams_wanted() {
                break;
            }
            let known = working.as_ref().map_or(targets, std::slice::from_ref);
            let Some((target, socket)) = connect(known) else {
                working = None;
                pause = (pause * 2).min(BACKOFF_MAX);
                break;
            };
            working = Some(target);
            serve(shared, &active, socket, target);
            if shared.stopping() {
                return;
            }
        }
    }
}

fn serve(shared: &Arc<Shared>, active: &Arc<AtomicUsize>, socket: TcpStream, target: SocketAddr) {
    active.fetch_add(1, Ordering::SeqCst);
    let (own, count) = (Arc::clone(shared), Arc::clone(active));
    let body = move || {
        if let Ok(place) = own.gate.stranger(&socket, target.ip(), Instant::now()) {
            accept::serve(&own, socket, place);
        }
        count.fetch_sub(1, Ordering::SeqCst);
    };
    if std::thread::Builder::new()
        .name("gw-conn".to_owned())
        .spawn(body)
        .is_err()
    {
        active.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The first connection that succeeds.
fn connect(targets: &[SocketAddr]) -> Option<(SocketAddr, TcpStream)> {
    let (outcomes, outcome) = sync_channel(targets.len());
    for target in targets.iter().copied() {
        let outcomes = outcomes.clone();
        let body = move || {
            if let Ok(socket) = godwit_net::connect(target, CONNECT_DEADLINE) {
                // Another address may have been faster.
                let _ = outcomes.send((target, socket));
            }
        };
        // An address that cannot be tried counts as not answering.
        let _ = std::thread::Builder::new()
            .name("gw-dial".to_owned())
            .spawn(body);
    }
    drop(outcomes);
    outcome.recv().ok()
}
