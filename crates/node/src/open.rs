//! Opens transfers and lets further streams join them, and sees to it that each has a keeper.
//! Does not make engines (`begin`) and does not move data (the engine).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_engine::session::send_error;
use godwit_engine::{End, limits};
use godwit_net::{IdentityId, Stream};
use godwit_proto::{Direction, ErrorCode, Join, Joined, Open, Opened, TransferId};

use crate::Shared;
use crate::announce::announced;
use crate::begin::{Begun, begin, wanted_file};
use crate::table::{Session, TOKENS};

/// Serves a connection that asks for a new transfer.
pub(crate) fn open(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
) {
    if request.direction() == Direction::VERIFY {
        crate::verify::verify(shared, stream, peer, request);
        return;
    }
    match begin(shared, peer, request) {
        Ok((transfer, begun, block_bytes)) => {
            run(shared, stream, peer, request, transfer, begun, block_bytes)
        }
        Err(no) => {
            shared.log(&format!("{}: refused: {}", stream.peer(), no.message));
            send_error(stream, no.code, &no.message, no.retryable);
        }
    }
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
    // The same answer for a transfer of somebody else's as for none: nobody learns what others do.
    let Some(session) = session.filter(|session| session.owner == peer) else {
        send_error(
            stream,
            ErrorCode::UNKNOWN_TRANSFER,
            "no such transfer; it has ended, or the daemon was restarted",
            true,
        );
        return;
    };
    // Before the token is used up: it is good for another attempt.
    if session.engine.stream_count() >= limits::STREAMS_MAX as usize {
        send_error(
            stream,
            ErrorCode::LIMIT,
            "this transfer has as many streams as it may",
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
        serve(shared, &session, stream);
    }
}

fn serve(shared: &Arc<Shared>, session: &Session, stream: &mut dyn Stream) {
    if stream.carries_blocks() {
        session.reached.store(true, Ordering::Relaxed);
    }
    if let Err(loss) = session.engine.run_stream(stream) {
        shared.log(&format!("{}: a stream was lost: {loss}", session.label));
    }
    shared.table.stream_ended();
}

fn run(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
    transfer: TransferId,
    begun: Begun,
    block_bytes: u32,
) {
    let keep_for = Duration::from_millis(request.retry_for_ms).min(shared.config.keep_for);
    let label = format!("{} {}", stream.peer(), transfer);
    let digest = begun.digest;
    let session = Arc::new(Session::new(
        transfer, begun, peer, request, keep_for, label, shared,
    ));
    let tokens = match session.issue(TOKENS) {
        Ok(tokens) => tokens,
        Err(error) => {
            session.engine.join();
            send_error(
                stream,
                ErrorCode::INTERNAL,
                &format!("no random numbers: {error}"),
                true,
            );
            return;
        }
    };
    shared.table.insert(&session);
    let (own, kept) = (Arc::clone(shared), Arc::clone(&session));
    let keeper = move || {
        let taken_back = |session: &Session| own.places.taken_back(session.owner, &session.leave);
        let end = own.table.keep(&kept, &taken_back);
        own.log(&format!("{}: {}", kept.label, describe(&end)));
    };
    if let Err(error) = std::thread::Builder::new()
        .name("gw-keeper".to_owned())
        .spawn(keeper)
    {
        session.engine.cancel("no thread");
        session.engine.join();
        shared.table.remove(&session.transfer);
        send_error(
            stream,
            ErrorCode::INTERNAL,
            &format!("no thread: {error}"),
            true,
        );
        return;
    }
    if shared.stopping() {
        session.engine.cancel("the daemon was stopped");
    }
    let opened = Opened {
        transfer: transfer.0.to_vec(),
        tokens,
        resumed: session.resumed,
        lost_bytes: session.lost_bytes,
        destination: session.mapped.clone(),
        block_bytes,
        addresses: announced(&shared.config.announce, &shared.listening, stream),
        streams_max: limits::STREAMS_MAX,
        digest: if digest == request.digest_kind() {
            0
        } else {
            digest.0.into()
        },
        buffer_bytes: session.engine.buffer_bytes(),
    };
    let mut head = Vec::new();
    if opened.encode(&mut head).is_ok() && stream.send(&head, &[]).is_ok() {
        stream.set_plain_payload(request.plain_payload);
        serve(shared, &session, stream);
    }
}

fn describe(end: &End) -> String {
    match end {
        End::Finished(finished) => format!(
            "complete: {} files, {} bytes, {} skipped, {} failed",
            finished.files, finished.bytes, finished.skipped, finished.failed
        ),
        End::Cancelled(reason) => format!("interrupted: {reason}"),
        End::Failed { message, .. } => format!("failed: {message}"),
    }
}

impl Session {
    fn new(
        transfer: TransferId,
        begun: Begun,
        owner: IdentityId,
        request: &Open,
        keep_for: Duration,
        label: String,
        shared: &Shared,
    ) -> Self {
        Self {
            streams_wanted: request.streams.clamp(1, limits::STREAMS_MAX) as usize,
            wanted: begun
                .key
                .as_ref()
                .map(|key| wanted_file(&shared.config.home, key)),
            transfer,
            engine: begun.engine,
            owner,
            plain_payload: request.plain_payload,
            key: begun.key,
            alone: begun.alone,
            resumed: begun.resumed,
            lost_bytes: begun.lost_bytes,
            mapped: begun.mapped,
            writes_to: begun.writes_to,
            keep_for,
            reached: AtomicBool::new(false),
            label,
            tokens: std::sync::Mutex::default(),
            leave: shared.places.leave(request),
        }
    }
}
