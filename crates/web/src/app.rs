//! Owns the state that all requests share: the jobs, the figures, and the runners of blocking calls.
//! Answers no request.

use std::sync::Arc;
use std::time::Instant;

use godwit_api::failure::{Code, FailureCode};
use godwit_api::rest::Timestamp;
use godwit_cluster::Cluster;
use godwit_jobs::{Jobs, Seen, now};
use godwit_state::{Actor, AuditEntry, AuditOutcome, Command, Op, Reader};
use tokio::sync::watch;

use crate::caller::{Caller, Need, Request};
use crate::changes::Changes;
use crate::config::{ChangePace, NodeInfo};
use crate::hub::Hub;
use crate::judged::{self, Judged};
use crate::logins::Logins;
use crate::long_answer::LongAnswers;
use crate::metrics::Metrics;
use crate::password::Hasher;
use crate::problem::ApiError;
use crate::rates::Rates;
use crate::refusals::{Refusals, cut};
use crate::turns::{self, Holder, Turns};

/// Blocking calls at once: as many as the state keeps connections for, and as many proposals that wait for the disk.
pub(crate) const BLOCKING_MAX: usize = 40;

/// Calls about places at once. Some are long, so they have separate turns.
pub(crate) const PLACES_MAX: usize = 16;

/// Blocking calls at once of one user, or of all strangers of one place in the network.
const BLOCKING_OF_HOLDER_MAX: usize = 8;
const PLACES_OF_HOLDER_MAX: usize = 4;

/// Authentications at once, of all places and of one place. They are short and wait for no other call.
pub(crate) const AUTHENTICATIONS_MAX: usize = 16;
const AUTHENTICATIONS_OF_PLACE_MAX: usize = 4;

/// The state that all requests share.
pub(crate) struct App {
    pub(crate) jobs: Jobs,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) node: NodeInfo,
    pub(crate) started: Timestamp,
    pub(crate) log: Arc<dyn Fn(&str) + Send + Sync>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) hub: Hub,
    pub(crate) metrics: Metrics,
    pub(crate) rates: Rates,
    pub(crate) refusals: Refusals,
    pub(crate) changes: Changes,
    pub(crate) logins: Logins,
    pub(crate) long_answers: LongAnswers,
    /// The certificate of the API is the operator's, so that browsers may insist on it.
    pub(crate) certified: bool,
    hashes: Hasher,
    hashes_of_strangers: Hasher,
    turns: Turns,
    turns_at_places: Turns,
    authentications: Turns,
}

impl App {
    pub(crate) fn new(
        jobs: Jobs,
        cluster: Option<Cluster>,
        node: NodeInfo,
        log: Arc<dyn Fn(&str) + Send + Sync>,
        certified: bool,
        pace: ChangePace,
        stopping: watch::Receiver<bool>,
    ) -> std::io::Result<Self> {
        let cluster_id = cluster.as_ref().map_or(&*node.identity, Cluster::id);
        let metrics = Metrics::new(&node.version, cluster_id);
        Ok(Self {
            jobs,
            cluster,
            metrics,
            hub: Hub::new(),
            rates: Rates::default(),
            stopping,
            node,
            started: now(),
            log,
            refusals: Refusals::new(),
            changes: Changes::new(pace),
            logins: Logins::new(),
            long_answers: LongAnswers::new(),
            certified,
            hashes: Hasher::new()?,
            hashes_of_strangers: Hasher::new()?,
            turns: Turns::new(BLOCKING_MAX, BLOCKING_OF_HOLDER_MAX),
            turns_at_places: Turns::new(PLACES_MAX, PLACES_OF_HOLDER_MAX),
            authentications: Turns::new(AUTHENTICATIONS_MAX, AUTHENTICATIONS_OF_PLACE_MAX),
        })
    }

    /// Reads the state.
    pub(crate) fn reader(&self) -> Arc<Reader> {
        self.jobs.replica().reader()
    }

    /// The jobs as the caller may see them. Blocks.
    pub(crate) fn seen(&self, caller: &Caller) -> Result<Seen, ApiError> {
        Ok(Seen::by(&self.jobs, &caller.name, caller.role)?)
    }

    /// Runs a blocking call of a request on a separate thread, if its sender still may send the request then.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let judged = judged::of_request();
        let checked = move |app: &Self| {
            app.check_still(judged.as_ref())?;
            call(app)
        };
        self.run_for(turns::holder(), checked).await
    }

    /// Runs a blocking call for this holder, outside of any request.
    pub(crate) async fn run_for<T: Send + 'static>(
        self: &Arc<Self>,
        holder: Option<Holder>,
        call: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let own = Arc::clone(self);
        blocking(&self.turns, holder, move || call(&own)).await?
    }

    /// Identifies the sender of a request and checks what the request needs. Other calls do not delay this one.
    pub(crate) async fn authenticate(
        self: &Arc<Self>,
        request: Request,
        need: Need,
    ) -> Result<Caller, ApiError> {
        let own = Arc::clone(self);
        let (place, member) = (request.place(), request.member.clone());
        let of = request.clone();
        let found = blocking(&self.authentications, place, move || {
            request.caller(need, &own)
        });
        let caller = found.await??;
        if let Some(member) = member {
            member.prove(&caller.name, caller.credential())?;
        }
        of.is_of(&caller);
        judged::keep(&caller, of.only_reads());
        if !of.only_reads() {
            let shown = caller.standing.as_ref();
            self.changes.take(&caller.name, shown, Instant::now())?;
        }
        turns::proven(&caller.name);
        Ok(caller)
    }

    /// Checks that the sender of a request may still do what the request needs, and in the same role: a request waits for its body,
    /// for its turn, and for passwords. Blocks.
    fn check_still(&self, judged: Option<&Judged>) -> Result<(), ApiError> {
        let Some(caller) = judged.and_then(|judged| judged.to_check(Instant::now())) else {
            return Ok(());
        };
        if caller.again(self)?.role == caller.role {
            return Ok(());
        }
        let detail = "your role changed while the request was being sent; send it again";
        Err(ApiError::forbidden(FailureCode::RoleTooSmall, detail))
    }

    /// Runs a call about places on a separate thread. The call may take long.
    pub(crate) async fn run_at_places<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (own, judged) = (Arc::clone(self), judged::of_request());
        let checked = move || {
            own.check_still(judged.as_ref())?;
            call(&own)
        };
        blocking(&self.turns_at_places, turns::holder(), checked).await?
    }

    /// Computes with a password; one computation runs at a time.
    pub(crate) async fn hash<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.hashes.run(compute).await
    }

    /// Computes with a password for an unknown sender. A storm of log-ins does not delay known users.
    pub(crate) async fn hash_of_stranger<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.hashes_of_strangers.run(compute).await
    }

    /// Changes the state. Blocks.
    pub(crate) fn propose(&self, actor: Actor, op: Op) -> Result<(), ApiError> {
        let command = Command::new(now(), actor, op);
        self.jobs.replica().propose_blocking(command)?;
        Ok(())
    }

    /// Writes a refused request into the log. A refusal to a user goes into the audit log too, unless there are too many. A stranger
    /// changes no state. Blocks.
    pub(crate) fn refused(
        &self,
        actor: Actor,
        action: &str,
        object: &str,
        outcome: impl Into<Code>,
    ) {
        let outcome = outcome.into();
        let object = cut(object.to_owned());
        if !self.refusals.take(&actor, Instant::now()) {
            return;
        }
        let from = actor.remote.as_deref().unwrap_or("unknown");
        (self.log)(&format!(
            "{from}: refused: {action} {object} by {:?}: {outcome}, request {}",
            actor.name,
            actor.request.as_deref().unwrap_or("unknown")
        ));
        if actor.role.is_none() {
            return;
        }
        let entry = AuditEntry {
            action: action.to_owned(),
            object,
            outcome: AuditOutcome::Refused(outcome),
        };
        // The refusal itself matters more than its log line.
        let _ = self.propose(actor, Op::Audit(entry));
    }
}

/// Runs a call that blocks, when it is its turn.
async fn blocking<T: Send + 'static>(
    turns: &Turns,
    holder: Option<Holder>,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let turn = turns.take(holder).await?;
    let called = tokio::task::spawn_blocking(move || {
        let answer = call();
        // Only now: the call continues when its client is gone.
        drop(turn);
        answer
    });
    called
        .await
        .map_err(|error| ApiError::internal(format!("internal error: {error}. Please report it")))
}
