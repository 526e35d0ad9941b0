//! Owns one call about places. The call resolves the site once, checks the caller's rights before and during the work, and audits each
//! change even if the client hangs up.
//! Touches no file and dials no node: the node's asker does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use axum::http::StatusCode;
use godwit_api::ask::{Answer, Peer, Question, Refusal, code};
use godwit_api::failure::{Code, FailureCode};
use godwit_api::grant::Right;
use godwit_api::grant::lasting::{Lasting, Look};
use godwit_api::rest::{HERE, Place};
use godwit_jobs::sites_of;
use godwit_state::{Actor, AuditEntry, Op, Site};

use crate::app::App;
use crate::caller::Caller;
use crate::problem::ApiError;
use crate::refusals::cut;

/// Outcome for a refusal by another site. The site's own words appear in no log line of this node.
const REFUSED_BY_SITE: FailureCode = FailureCode::RefusedBySite;

/// Asks the site of the places, or this node, if the caller has the rights there. The other site also checks what it allows to this node's
/// identity.
pub(crate) async fn ask(
    app: &Arc<App>,
    caller: Caller,
    wishes: Vec<(Place, Right)>,
    question: Question,
) -> Result<Answer, ApiError> {
    errand(caller, wishes, question, None, |_, _| Ok(()))
        .run(app)
        .await
}

/// Asks for a change, and writes it into the audit log.
pub(crate) async fn change(
    app: &Arc<App>,
    caller: Caller,
    action: &'static str,
    wishes: Vec<(Place, Right)>,
    question: Question,
) -> Result<Answer, ApiError> {
    change_while(app, caller, action, wishes, question, |_, _| Ok(())).await
}

/// Asks for a change as [`change`] does, while another condition also holds. The condition is checked with the rights.
pub(crate) async fn change_while(
    app: &Arc<App>,
    caller: Caller,
    action: &'static str,
    wishes: Vec<(Place, Right)>,
    question: Question,
    holds: impl Fn(&App, &Caller) -> Result<(), ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    let place = wishes.first();
    let object = cut(place.map_or_else(String::new, |(place, _)| place.to_string()));
    let line = Line {
        actor: caller.actor(),
        action,
        object,
    };
    let errand = errand(caller, wishes, question, Some(line), holds);
    errand.run(app).await
}

fn errand(
    caller: Caller,
    wishes: Vec<(Place, Right)>,
    question: Question,
    line: Option<Line>,
    holds: impl Fn(&App, &Caller) -> Result<(), ApiError> + Send + 'static,
) -> Errand<impl Fn(&App) -> Result<(), ApiError> + Send + 'static> {
    let site = wishes.first().map(|(place, _)| place.site.clone());
    Errand {
        site: site.unwrap_or_default(),
        question,
        line,
        allowed: move |app: &App| {
            let caller = caller.again(app)?;
            let granted = app.jobs.access().of(&caller.name, caller.role)?;
            for (place, right) in &wishes {
                granted.check(place, *right)?;
            }
            holds(app, &caller)
        },
    }
}

/// A question to a site, or to this node.
pub(crate) struct Errand<C> {
    pub(crate) site: String,
    pub(crate) question: Question,
    /// Line for the audit log; None for a call that changes nothing.
    pub(crate) line: Option<Line>,
    /// Whether the caller may have this done now. Checked again while the work lasts.
    pub(crate) allowed: C,
}

/// A line of the audit log without its outcome.
pub(crate) struct Line {
    actor: Actor,
    action: &'static str,
    object: String,
}

/// Becomes true when the request is abandoned: it is dropped with its handler.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<C: Fn(&App) -> Result<(), ApiError> + Send + 'static> Errand<C> {
    /// Runs the call. The work and its audit line are on a thread that outlives the request.
    pub(crate) async fn run(self, app: &Arc<App>) -> Result<Answer, ApiError> {
        let flag = Arc::new(AtomicBool::new(false));
        let given_up = GivenUp(Arc::clone(&flag));
        let answer = app.run_at_places(move |app| self.work(app, &flag)).await;
        drop(given_up);
        answer
    }

    fn work(self, app: &App, given_up: &AtomicBool) -> Result<Answer, ApiError> {
        let mut done = 0;
        let mut was_ended = false;
        let mut by_site = false;
        let asked = self.ask(app, &mut by_site, &mut |now| {
            done = done.max(now);
            let goes_on = !given_up.load(Ordering::Relaxed) && !*app.stopping.borrow();
            was_ended |= !goes_on;
            goes_on
        });
        let Some(line) = self.line else {
            return asked;
        };
        let outcome = |error: &ApiError| -> Code {
            match by_site {
                true => REFUSED_BY_SITE.into(),
                false => error.code().clone(),
            }
        };
        match &asked {
            Ok(_) => line.write(app, "ok")?,
            Err(error) if was_ended || done > 0 || is_halfway(error) => {
                line.write(app, outcome(error).as_str())?;
            }
            // Nothing has changed, as far as its site says.
            Err(error) => app.refused(line.actor, line.action, &line.object, outcome(error)),
        }
        asked.map_err(ApiError::written)
    }

    fn ask(
        &self,
        app: &App,
        by_site: &mut bool,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Answer, ApiError> {
        let peer = find(app, &self.site)?;
        let allowed = || self.is_allowed(app, peer.as_ref());
        allowed()?;
        let mut lasting = Lasting::new(Instant::now());
        let look = || look(allowed());
        let mut go_on =
            |done| goes_on(done) && lasting.holds(Instant::now(), &look, &thread::sleep);
        let asked = sites_of(&app.jobs).ask(peer.as_ref(), &self.question, &mut go_on);
        asked.map_err(|refusal| match lasting.take_end() {
            Some(Look::Gone(error) | Look::Unread(error)) => error,
            Some(Look::Holds) | None => {
                *by_site = peer.is_some();
                refuse(refusal)
            }
        })
    }

    /// Checks the caller's rights at the resolved site. Rules for a site apply to its identity.
    fn is_allowed(&self, app: &App, peer: Option<&Peer>) -> Result<(), ApiError> {
        (self.allowed)(app)?;
        let now = find(app, &self.site)?;
        if now.map(|peer| peer.identity) == peer.map(|peer| peer.identity.clone()) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::CONFLICT,
            FailureCode::SiteChanged,
            format!(
                "the identity of site {} has changed meanwhile; check it with: godwit site list",
                self.site
            ),
        ))
    }
}

impl Line {
    fn write(self, app: &App, outcome: &str) -> Result<(), ApiError> {
        let entry = AuditEntry {
            action: self.action.to_owned(),
            object: self.object,
            outcome: outcome.to_owned(),
        };
        app.propose(self.actor, Op::Audit(entry))
    }
}

/// Result of a check of the rights.
fn look(allowed: Result<(), ApiError>) -> Look<ApiError> {
    match allowed {
        Ok(()) => Look::Holds,
        Err(error) if error.status().is_client_error() => Look::Gone(error),
        Err(error) => Look::Unread(error),
    }
}

/// Whether part of the work may have been done before the failure.
fn is_halfway(error: &ApiError) -> bool {
    error
        .code()
        .is_one_of(&[code::GIVEN_UP, code::BROKEN, code::IO])
}

/// The site's peer; None for this node.
fn find(app: &App, name: &str) -> Result<Option<Peer>, ApiError> {
    if name == HERE {
        return Ok(None);
    }
    let site = app.reader().object::<Site>(name)?.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            FailureCode::UnknownSite,
            format!("this node knows no site {name:?}; list the sites with: godwit site list"),
        )
    })?;
    Ok(Some(Peer {
        name: site.name,
        addresses: site.addresses,
        identity: site.identity,
    }))
}

fn refuse(refusal: Refusal) -> ApiError {
    let status = match refusal.code.known() {
        Some(code::INVALID | code::OUTSIDE) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(code::NOT_GRANTED | code::UNKNOWN_IDENTITY | code::PERMISSION) => {
            StatusCode::FORBIDDEN
        }
        Some(code::NO_SUCH_EXPORT | code::NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code::NOT_A_DIRECTORY | code::EXISTS) => StatusCode::CONFLICT,
        Some(code::NO_SPACE) => StatusCode::INSUFFICIENT_STORAGE,
        Some(code::BUSY | code::GIVEN_UP) => StatusCode::SERVICE_UNAVAILABLE,
        Some(code::UNREACHABLE | code::BROKEN) => StatusCode::BAD_GATEWAY,
        Some(code::UNSUPPORTED) => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, refusal.code, refusal.message)
}
