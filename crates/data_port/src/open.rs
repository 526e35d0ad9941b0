//! Opens transfers and lets more streams join them. Does not make engines (`begin`), does not end transfers
//! (`keeper`) and does not move data (the engine).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_api::record::{TransferNews, TransferStart};
use godwit_engine::limits;
use godwit_engine::session::{Engine, send_error};
use godwit_net::{IdentityId, Stream};
use godwit_proto::{Direction, ErrorCode, Join, Joined, Open, Opened, TransferId};

use crate::allow::Denial;
use crate::announce::announced;
use crate::begin::{StartedEnd, begin, wanted_file};
use crate::gate::Slot;
use crate::keeper::Watch;
use crate::leave::Leave;
use crate::session::{Claim, Session, TOKENS};
use crate::{Shared, news};

/// Most sources of a job in the state of a node.
const SOURCES_OF_JOB_MAX: usize = 1_024;

/// Serves a connection that asks for a new transfer. `slot` is the slot of a request of several frames.
pub(crate) fn open(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
    slot: Option<Slot<IdentityId>>,
) {
    if let Err(no) = check_count(request) {
        shared
            .operator
            .refused(peer, &stream.peer().to_string(), Some(request), &no);
        send_error(stream, no.code, &no.message, no.retryable);
        return;
    }
    if request.direction() == Direction::VERIFY {
        crate::verify::verify(shared, stream, peer, request);
        return;
    }
    let leave = shared.places.leave(peer, request);
    let begun = leave.and_then(|leave| Ok((leave, begin(shared, peer, request)?)));
    // From here on its sources count as memory of the transfer.
    drop(slot);
    match begun {
        Ok((leave, begun)) => run(shared, stream, peer, request, leave, begun),
        Err(no) => {
            shared
                .operator
                .refused(peer, &stream.peer().to_string(), Some(request), &no);
            send_error(stream, no.code, &no.message, no.retryable);
        }
    }
}

/// Limits the number of a job's sources. Precedes the checks of rights, because each source needs one.
pub(crate) fn check_count(request: &Open) -> Result<(), Denial> {
    let count = request.sources.len();
    if request.mandate.is_none() || count <= SOURCES_OF_JOB_MAX {
        return Ok(());
    }
    let what =
        format!("{count} sources: a job of another node can have at most {SOURCES_OF_JOB_MAX}");
    Err(Denial::new(ErrorCode::NOT_SUPPORTED, what))
}

/// Serves a connection that joins a transfer.
pub(crate) fn join(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Join,
) {
    let session = request
        .transfer_id()
        .ok()
        .and_then(|transfer| shared.table.find(&transfer));
    // The answer is the same for another owner's transfer and for none, so the peer learns nothing about others.
    let session = session.filter(|session| session.claim.owner == peer);
    // The client of a suspended transfer must open a new one, which resumes from the journal.
    let entered = session.as_ref().and_then(|session| session.enter());
    let (Some(session), Some(serving)) = (&session, entered) else {
        send_error(
            stream,
            ErrorCode::UNKNOWN_TRANSFER,
            "no such transfer; the transfer has ended, or the daemon was restarted",
            true,
        );
        return;
    };
    // This check precedes the use of the token, so the token remains valid for another attempt.
    let streams_max = shared.streams_max.min(session.engine.streams_max());
    if session.engine.stream_count() >= streams_max as usize {
        send_error(
            stream,
            ErrorCode::LIMIT,
            "this transfer has reached its limit of streams",
            true,
        );
        return;
    }
    if !request.token().is_ok_and(|token| session.redeem(&token)) {
        send_error(
            stream,
            ErrorCode::BAD_TOKEN,
            "the token was used before, or never issued",
            true,
        );
        return;
    }
    let mut head = Vec::new();
    let joined = session.issue(1).map(|tokens| Joined { tokens });
    let said = joined
        .map_err(|error| error.to_string())
        .and_then(|joined| joined.encode(&mut head).map_err(|error| error.to_string()));
    if let Err(error) = said {
        send_error(stream, ErrorCode::INTERNAL, &error, true);
        return;
    }
    if stream.send(&head, &[]).is_ok() {
        stream.set_plain_payload(session.plain_payload);
        stream.set_channel(request.channel);
        serve(shared, session, stream);
    }
    drop(serving);
    shared.table.stream_ended();
}

fn serve(shared: &Arc<Shared>, session: &Session, stream: &mut dyn Stream) {
    if stream.carries_blocks() {
        session.reached.store(true, Ordering::Relaxed);
    }
    if let Err(loss) = session.engine.run_stream(stream) {
        let line = format!("{}: a stream was lost: {loss}", session.claim.label);
        shared.operator.log_peer(session.claim.owner, &line);
    }
}

fn run(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
    leave: Leave,
    (transfer, mut begun, block_bytes): (TransferId, StartedEnd<'_>, u32),
) {
    let label = format!("{} {}", stream.peer(), transfer);
    let digest = begun.digest;
    let (beacon, unproved) = (begun.beacon.take(), begun.unproved);
    let entering = begun.entering.take();
    let counted_as = shared.places.counted_as(peer);
    let start = news::started(transfer, peer, stream, request, &counted_as);
    let session = Session::new(transfer, begun, leave, request, label, start, shared);
    let session = Arc::new(session);
    let tokens = match session.issue(TOKENS) {
        Ok(tokens) => tokens,
        Err(error) => {
            drop(entering);
            session.engine.join();
            send_error(
                stream,
                ErrorCode::RESOURCES,
                &format!("no random numbers: {error}"),
                true,
            );
            return;
        }
    };
    // The stream is counted before the keeper sees the transfer, so that the transfer never seems to have no client.
    let serving = session.enter();
    shared.table.insert(&session);
    drop(entering);
    shared
        .operator
        .report(&TransferNews::Started(session.start.clone()));
    if shared.stopping() {
        session.engine.cancel("the daemon was stopped");
    }
    let opened = Opened {
        transfer: transfer.0.to_vec(),
        tokens,
        resumed: session.resumed,
        lost_bytes: session.arrived.lost_bytes,
        destination: session.mapped.clone(),
        block_bytes,
        addresses: announced(&shared.config.announce, &shared.listening, stream),
        // The most that the daemon ever allows; its current share may change later.
        streams_max: shared.streams_max,
        digest: if digest == request.digest_kind() {
            0
        } else {
            digest.0.into()
        },
        buffer_bytes: session.engine.buffer_bytes(),
        mapping: session.placed.map_or(0, |(mapping, _)| mapping.0),
        tag: session.placed.map_or(0, |(_, tag)| tag),
        beacon,
        unproved,
        held_bytes: session.arrived.held_bytes,
        held_files: session.arrived.held_files,
        durable: false,
    };
    let mut head = Vec::new();
    if opened.encode(&mut head).is_ok() && stream.send(&head, &[]).is_ok() {
        stream.set_plain_payload(request.plain_payload);
        serve(shared, &session, stream);
    }
    drop(serving);
    shared.table.stream_ended();
}

impl Session {
    fn new(
        transfer: TransferId,
        begun: StartedEnd<'_>,
        leave: Leave,
        request: &Open,
        label: String,
        start: TransferStart,
        shared: &Shared,
    ) -> Self {
        let claim = Claim {
            transfer,
            owner: leave.who.peer,
            key: begun.key,
            // The daemon decides; the client may ask for less.
            keep_for: Duration::from_millis(request.retry_for_ms).min(shared.config.keep_for),
            label,
            job: request.label.clone(),
            heirs: request.heirs.iter().flat_map(|heir| heir.parse()).collect(),
            writes_to: begun.writes_to,
            lease: begun.lease,
            fence: begun.fence,
            leave,
            wanted: begun
                .key
                .as_ref()
                .map(|key| wanted_file(&shared.config.home, key)),
            held: Mutex::new(Some(begun.held)),
        };
        let received = &shared.config.process.received;
        let receiving = match &begun.engine {
            Engine::Receiver(receiver) => Some(received.count(receiver.counters())),
            Engine::Sender(_) => None,
        };
        Self {
            claim: Arc::new(claim),
            start,
            began: news::now(),
            streams_wanted: request.streams.clamp(1, limits::STREAMS_MAX) as usize,
            engine: begun.engine,
            plain_payload: request.plain_payload,
            output_once: request.in_order,
            alone: begun.alone,
            resumed: begun.resumed,
            arrived: begun.arrived,
            mapped: begun.mapped,
            placed: begun.placed,
            reached: AtomicBool::new(false),
            tokens: Mutex::default(),
            serving: Mutex::new(Some(0)),
            watch: Mutex::new(Watch::new(Instant::now())),
            _receiving: receiving,
        }
    }
}
