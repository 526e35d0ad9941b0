//! Serves the verification of a copy in an export: finds the place, checks rights, starts the reading threads.
//! Compares nothing; the engine does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::grant::Right;
use godwit_api::record::TransferNews;
use godwit_engine::session::{Examination, Findings, send_error, serve_verification};
use godwit_engine::{Counters, limits};
use godwit_net::{IdentityId, Stream};
use godwit_proto::{Error as WireFailure, ErrorCode, Open, Opened, Record, TransferId, Verdict};
use godwit_tree::TreeRoot;
use godwit_tree::verification::{Expected, Verifier, VerifierConfig};

use crate::allow::{Denial, Who};
use crate::begin::{journals, place_for};
use crate::leave::{Leave, Round};
use crate::places::SourcePlace;
use crate::{Shared, news};
use godwit_run::local::Access;

/// Serves the connection to its end.
pub(crate) fn verify(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
) {
    if let Err(no) = run(shared, stream, peer, request) {
        shared
            .operator
            .refused(peer, &stream.peer().to_string(), Some(request), &no);
        send_error(stream, no.code, &no.message, no.retryable);
    }
}

fn run(
    shared: &Arc<Shared>,
    stream: &mut dyn Stream,
    peer: IdentityId,
    request: &Open,
) -> Result<(), Denial> {
    let internal =
        |error: &dyn std::fmt::Display| Denial::new(ErrorCode::INTERNAL, error.to_string());
    let source = request.sources.first().map_or(&[][..], Vec::as_slice);
    let who = Who::opens(peer, request);
    let root = root(shared, &who, source)?;
    // A verification reads as much as a transfer, so it counts as one.
    let _place = place_for(shared, peer, None)?;
    let asked = request.verification.unwrap_or_default();
    if asked.durable {
        // A sync writes, and holds up all others that use the file system.
        shared.places.may_also(&who, source, Right::Write)?;
    }
    let digest = godwit_engine::digest_kind(request.digest_kind()).ok_or_else(|| {
        Denial::new(
            ErrorCode::NOT_SUPPORTED,
            "this daemon does not know the requested digest",
        )
    })?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = match request.threads as usize {
        0 => cores,
        threads => threads.min(cores),
    };
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| internal(&error))?;
    let transfer = TransferId(id);
    let config = VerifierConfig {
        roots: vec![root.clone()],
        digest,
        contents_only: asked.contents_only,
        durable: asked.durable,
        touched: None,
        threads,
    };
    let findings = Findings::new(stream.waker());
    let reported = findings.clone();
    let verifier = Verifier::start(
        config,
        Arc::new(Counters::default()),
        Box::new(move |checked| reported.add(checked.number, checked.into_verdicts())),
    )
    .map_err(|error| internal(&error))?;
    let opened = Opened {
        transfer: id.to_vec(),
        destination: source.to_vec(),
        block_bytes: limits::BLOCK_BYTES,
        streams_max: 1,
        durable: asked.durable,
        ..Opened::default()
    };
    let mut one = One {
        shared,
        root,
        expected: asked.extra.then(|| Expected::new(&journals(shared))),
        entries: 0,
        failed: 0,
        leave: shared.places.leave(peer, request)?,
        looked: Instant::now(),
        was_taken_back: false,
    };
    let counted_as = shared.places.counted_as(peer);
    let start = news::started(transfer, peer, stream, request, &counted_as);
    let since = news::now();
    shared
        .operator
        .report(&TransferNews::Started(start.clone()));
    let served = serve_verification(stream, &opened, transfer, &verifier, &findings, &mut one);
    let reported = news::verified(start, since, (one.entries, one.failed), served);
    shared.operator.report(&reported);
    Ok(())
}

fn root(shared: &Shared, who: &Who, source: &[u8]) -> Result<TreeRoot, Denial> {
    let found = shared
        .places
        .sources(who, &[source.to_vec()], Access::default())?;
    match found.into_iter().next() {
        Some(SourcePlace::Tree(tree)) => Ok(tree.root),
        Some(SourcePlace::Failed(failed)) => Err(failed.no),
        _ => Err(Denial::new(
            ErrorCode::SOURCE,
            "mem: and null: cannot be verified",
        )),
    }
}

struct One<'a> {
    shared: &'a Shared,
    root: TreeRoot,
    expected: Option<Expected>,
    entries: u64,
    /// Entries whose copy is not as announced.
    failed: u64,
    leave: Leave,
    /// Time of the latest check of the rights, and whether they were gone.
    looked: Instant,
    was_taken_back: bool,
}

/// Interval of checks whether the client still has the right to read here.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Examination for One<'_> {
    fn announced(&mut self, records: &[Record]) -> Result<(), String> {
        self.entries += records.len() as u64;
        if let Some(expected) = &mut self.expected {
            for record in records {
                expected
                    .add(&record.path)
                    .map_err(|error| format!("names cannot be sorted on disk: {error}"))?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, verdicts: &[Verdict]) {
        let failed = verdicts
            .iter()
            .filter(|verdict| matches!(verdict, Verdict::Failed(_)));
        self.failed += failed.count() as u64;
    }

    fn extra(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), WireFailure> {
        let Some(expected) = self.expected.take() else {
            return Ok(());
        };
        let root = self.root.clone();
        let mut why = None;
        let mut goes_on = || {
            why = self.goes_on().err();
            why.is_none()
        };
        let found = expected.find_extra(&root, &mut goes_on, &mut |path| each(path.as_bytes()));
        found.map_err(|error| {
            let other = || failure(Denial::new(ErrorCode::DESTINATION, error.to_string()));
            why.unwrap_or_else(other)
        })
    }

    fn goes_on(&mut self) -> Result<(), WireFailure> {
        if self.shared.stopping() {
            return Err(failure(Denial {
                retryable: true,
                ..Denial::new(ErrorCode::CANCELLED, "the daemon was stopped")
            }));
        }
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        // Checked twice in a row, because a file of grants that is being written is empty for a moment.
        let places = &self.shared.places;
        let no = places.taken_back(&self.leave, &Round::default());
        let before = std::mem::replace(&mut self.was_taken_back, no.is_some());
        match no {
            Some(no) if before => Err(failure(no)),
            _ => Ok(()),
        }
    }
}

fn failure(no: Denial) -> WireFailure {
    WireFailure {
        code: no.code.0,
        message: no.message,
        retryable: no.retryable,
    }
}
