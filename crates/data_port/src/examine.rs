//! Answers questions about this side and the path to it, for permitted peers. Changes nothing: the file for measuring a storage has no name
//! and disappears.
//!
//! Questions (EXAMINE) may arrive on any connection, also through ssh. They concern this side's clock and machine (`probe`), the path
//! according to its kernel, and the storage of a place that the peer may write to. `store::measure` measures it with a file that has no
//! name. An agent also reports whether it can dial its client.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit_engine::session::{greet_client, receive_frame, send_error};
use godwit_net::{AcceptOptions, Connection, IdentityId, Stream, StreamError, accept};
use godwit_proto::{
    DIALLED_MAX, Dialled, ErrorCode, Examine, Examined, Frame, PathSeen, StorageSeen,
};
use godwit_store::Kind;
use godwit_store::measure::{MeasureLimits, measure};

use crate::allow::Who;
use crate::places::{Target, TreeTarget};
use crate::{Shared, probe};
use godwit_run::local::Access;

/// Limit of questions on one connection.
const QUESTIONS_MAX: usize = 64;
/// Limits of a measurement of the storage.
const MEASURE: MeasureLimits = MeasureLimits {
    bytes: 64 << 20,
    time: Duration::from_millis(500),
};
/// Deadline for one dialled address, for connecting and the handshake together.
const DIAL_DEADLINE: Duration = Duration::from_secs(3);
/// The client of an agent may examine other things in the meantime.
const AGENT_PATIENCE: Duration = Duration::from_secs(60);

/// Serves a connection with questions until it ends.
pub(crate) fn serve(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    first: Examine,
) {
    let mut question = first;
    for _ in 0..QUESTIONS_MAX {
        if let Err(no) = shared.places.may_ask(peer) {
            shared
                .operator
                .refused(peer, &stream.peer().to_string(), None, &no);
            send_error(stream, no.code, &no.message, no.retryable);
            return;
        }
        // A node answers a bounded number of long questions of one peer at a time. An agent has one client.
        let place = match shared.only {
            Some(_) => None,
            None => match shared.gate.question(&shared.places.counted_as(peer)) {
                Ok(place) => Some(place),
                Err(_full) => {
                    let message = "this node has reached its limit of questions; try again later";
                    send_error(stream, ErrorCode::LIMIT, message, true);
                    return;
                }
            },
        };
        if answer(shared, stream, peer, &question).is_err() {
            return;
        }
        drop(place);
        // A client without further questions closes the connection.
        let patience = match shared.only {
            Some(_) => AGENT_PATIENCE,
            None => shared.config.handshake_deadline,
        };
        question = match receive_frame(stream, patience) {
            Ok(Frame::Examine(next)) => next,
            _ => return,
        };
    }
    send_error(
        stream,
        ErrorCode::LIMIT,
        "too many questions on one connection",
        true,
    );
}

fn answer(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    question: &Examine,
) -> Result<(), StreamError> {
    let began = Instant::now();
    let machine = question.machine.then(probe::machine);
    let storage = (!question.place.is_empty()).then(|| storage(shared, peer, &question.place));
    let dialled = if question.dial {
        dial(shared)
    } else {
        Vec::new()
    };
    let way = stream.tcp_info().map(|seen| PathSeen {
        round_trip_ns: nanos(
            [seen.round_trip_min, seen.round_trip]
                .into_iter()
                .filter(|time| !time.is_zero() && *time < Duration::from_secs(3600))
                .min()
                .unwrap_or_default(),
        ),
        path_mtu_bytes: seen.path_mtu_bytes,
        segment_bytes: seen.segment_bytes,
    });
    let filler = vec![0; question.filler_wanted as usize];
    // Read last, so that the clock reading is as fresh as possible when it is sent.
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let answer = Examined {
        nonce: question.nonce,
        clock_seconds: i64::try_from(clock.as_secs()).unwrap_or(i64::MAX),
        clock_nanoseconds: clock.subsec_nanos(),
        held_ns: nanos(began.elapsed()),
        filler,
        way,
        machine,
        storage,
        dialled,
    };
    let mut head = Vec::new();
    match answer.encode(&mut head) {
        Ok(()) => stream.send(&head, &[]),
        Err(error) => {
            send_error(stream, ErrorCode::INTERNAL, &error.to_string(), false);
            Ok(())
        }
    }
}

/// Measures the storage of a place that the peer may write to.
fn storage(shared: &Shared, peer: IdentityId, place: &[u8]) -> StorageSeen {
    let target = shared
        .places
        .target(&Who::itself(peer), place, false, Access::default())
        .map_err(|no| no.message);
    // One at a time, because simultaneous measurements would disturb each other and cost others more.
    if shared.measuring.swap(true, Ordering::SeqCst) {
        return StorageSeen::unknown("another measurement is running there; try again");
    }
    let found = target.and_then(|target| match target {
        Target::Null => Err("null: discards all data, so there is nothing to measure".to_owned()),
        Target::Tree(TreeTarget { place: tree, .. }) => {
            let there = tree.storage.stat(&tree.base);
            let there = there.map_err(|error| error.to_string())?;
            let directory = match there {
                Some(there) if there.kind == Kind::Directory => tree.base.clone(),
                // A transfer makes the last directory of its destination.
                _ => tree.base.parent().unwrap_or_default(),
            };
            let file = tree.storage.scratch(&directory);
            let file = file.map_err(|error| error.to_string())?;
            measure(&file, MEASURE).map_err(|error| error.to_string())
        }
    });
    shared.measuring.store(false, Ordering::SeqCst);
    match found {
        Ok(found) => StorageSeen {
            free_bytes: found.free_bytes,
            write_bytes_per_second: found.write_bytes_per_second,
            read_bytes_per_second: found.read_bytes_per_second,
            problem: String::new(),
        },
        Err(problem) => StorageSeen::unknown(&problem),
    }
}

/// Dials the addresses of the client, which must prove its identity. A daemon has no such addresses, so it dials none.
fn dial(shared: &Arc<Shared>) -> Vec<Dialled> {
    let Some(client) = shared.only else {
        return Vec::new();
    };
    let targets = &shared.dial[..shared.dial.len().min(DIALLED_MAX)];
    let (outcomes, outcome) = sync_channel(targets.len().max(1));
    for (number, target) in targets.iter().copied().enumerate() {
        let (outcomes, own) = (outcomes.clone(), Arc::clone(shared));
        let body = move || match reach(&own, target, client) {
            Ok(mut stream) => {
                // All outcomes are received.
                let _ = outcomes.send((number, Ok(())));
                drop(outcomes);
                meet(&own, &mut stream, client);
            }
            Err(why) => {
                let _ = outcomes.send((number, Err(why)));
            }
        };
        // An address that cannot be tried counts as not answering.
        let _ = std::thread::Builder::new()
            .name("gw-dial".to_owned())
            .spawn(body);
    }
    drop(outcomes);
    let mut problems = vec!["the test could not run".to_owned(); targets.len()];
    for (number, became) in outcome {
        problems[number] = became.err().unwrap_or_default();
    }
    let pairs = targets.iter().zip(&problems);
    pairs
        .map(|(at, why)| Dialled::new(&at.to_string(), why))
        .collect()
}

fn reach(shared: &Shared, target: SocketAddr, client: IdentityId) -> Result<Connection, String> {
    let socket =
        TcpStream::connect_timeout(&target, DIAL_DEADLINE).map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => "no answer".to_owned(),
            _ => error.to_string(),
        })?;
    let options = AcceptOptions {
        deadline: DIAL_DEADLINE,
        ..AcceptOptions::default()
    };
    match accept(socket, &shared.config.tls, &options) {
        Ok(accepted) if accepted.peer == client => Ok(accepted.stream),
        _ => Err("another program answers there".to_owned()),
    }
}

/// The client may ask questions on this path too.
fn meet(shared: &Arc<Shared>, stream: &mut Connection, client: IdentityId) {
    let deadline = shared.config.handshake_deadline;
    let asked = greet_client(stream, deadline).and_then(|_| receive_frame(stream, deadline));
    if let Ok(Frame::Examine(question)) = asked {
        serve(shared, stream, client, question);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
