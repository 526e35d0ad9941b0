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
use godwit_state::{Actor, AuditEntry, AuditOutcome, Op, Site};

use crate::app::App;
use crate::caller::Caller;
use crate::machine::machine_admins;
use crate::problem::ApiError;
use crate::refusals::OBJECT_BYTES_MAX;

/// Outcome for a refusal by another site. The site's own words appear in no log line of this node.
const REFUSED_BY_SITE: FailureCode = FailureCode::RefusedBySite;

/// Seconds after which a client may ask a node again that does not hear from its cluster.
const RETRY_SECONDS: u64 = 10;

/// Asks the site of the places, or this node, if the caller has the rights there. The other site also checks the rights of this node's
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
    let line = Line {
        actor: caller.actor(),
        action,
        object: object(&wishes),
    };
    let errand = errand(caller, wishes, question, Some(line), holds);
    errand.run(app).await
}

/// The places of a change, each once: a rename has two. Long places lose their ends.
fn object(wishes: &[(Place, Right)]) -> String {
    const TO: &str = " -> ";
    let mut places: Vec<String> = wishes.iter().map(|(place, _)| place.to_string()).collect();
    places.dedup();
    let whole = places.join(TO);
    if whole.len() <= OBJECT_BYTES_MAX {
        return whole;
    }
    let most = OBJECT_BYTES_MAX / places.len() - TO.len();
    for place in &mut places {
        place.truncate(place.floor_char_boundary(most));
    }
    places.join(TO)
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
        node: None,
        question,
        line,
        allowed: move |app: &App| {
            let caller = caller.again(app)?;
            check_current(app, &caller)?;
            let granted = app.jobs.access().of(&caller.name, caller.role)?;
            for (place, right) in &wishes {
                granted.check(place, *right)?;
            }
            holds(app, &caller)
        },
    }
}

/// Checks that this node would know if the rights of the caller had been revoked. Accounts of the machine are its admins in any case.
pub(crate) fn check_current(app: &App, caller: &Caller) -> Result<(), ApiError> {
    let is_of_machine = caller.standing.is_none() && machine_admins().contains(&caller.name);
    judged(is_of_machine, app.jobs.replica().readiness().is_outdated())
}

fn judged(is_of_machine: bool, is_outdated: bool) -> Result<(), ApiError> {
    if is_of_machine || !is_outdated {
        return Ok(());
    }
    Err(ApiError::later(
        StatusCode::SERVICE_UNAVAILABLE,
        FailureCode::NoMajority,
        "this node has heard nothing from its cluster for minutes, so rights of users do not count at places; ask another node, or act as root or as the node's own user",
        RETRY_SECONDS,
    ))
}

/// A question to a site, or to this node.
pub(crate) struct Errand<C> {
    pub(crate) site: String,
    /// Identity of the node of the site that is asked; None for the first one that the operator named.
    pub(crate) node: Option<String>,
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
            Ok(_) => line.write(app, AuditOutcome::Done)?,
            Err(error) if was_ended || done > 0 || may_be_partly_done(error) => {
                line.write(app, AuditOutcome::Refused(outcome(error)))?;
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
        let mut asked = self.ask_node(app, self.node.as_deref(), by_site, goes_on);
        // A node that is out of reach has done nothing.
        let is_away = |error: &ApiError| error.code().is_one_of(&[code::UNREACHABLE]);
        if !asked.as_ref().is_err_and(is_away) {
            return asked;
        }
        for other in self.others(app)? {
            if !goes_on(0) {
                break;
            }
            asked = self.ask_node(app, Some(&other), by_site, goes_on);
            if !asked.as_ref().is_err_and(is_away) {
                break;
            }
        }
        asked
    }

    /// Identities of the independent nodes that may answer in place of the first one.
    fn others(&self, app: &App) -> Result<Vec<String>, ApiError> {
        if self.node.is_some() || self.site == HERE {
            return Ok(Vec::new());
        }
        let site = app.reader().object::<Site>(&self.site)?;
        let others = site.iter().flat_map(Site::independent);
        Ok(others.map(|node| node.peer.identity.clone()).collect())
    }

    /// Asks the node of the site with this identity, or the first one.
    fn ask_node(
        &self,
        app: &App,
        node: Option<&str>,
        by_site: &mut bool,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Answer, ApiError> {
        let peer = find(app, &self.site, node)?;
        let allowed = || self.is_allowed(app, node, peer.as_ref());
        allowed()?;
        let mut lasting = Lasting::new(Instant::now());
        let look = || look(allowed());
        let mut go_on =
            |done| goes_on(done) && lasting.holds(Instant::now(), &look, &thread::sleep);
        let asked = app
            .jobs
            .sites()
            .ask(peer.as_ref(), &self.question, &mut go_on);
        asked.map_err(|refusal| match lasting.take_end() {
            Some(Look::Gone(error) | Look::Unread(error)) => error,
            Some(Look::Holds) | None => {
                *by_site = peer.is_some();
                refuse(refusal)
            }
        })
    }

    /// Checks the caller's rights at the resolved site. Rules for a site apply to its identity.
    fn is_allowed(
        &self,
        app: &App,
        node: Option<&str>,
        peer: Option<&Peer>,
    ) -> Result<(), ApiError> {
        (self.allowed)(app)?;
        let now = find(app, &self.site, node)?;
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
    fn write(self, app: &App, outcome: AuditOutcome) -> Result<(), ApiError> {
        let entry = AuditEntry {
            action: self.action.to_owned(),
            object: self.object,
            outcome,
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
fn may_be_partly_done(error: &ApiError) -> bool {
    error
        .code()
        .is_one_of(&[code::GIVEN_UP, code::BROKEN, code::IO])
}

/// The site's peer, or the node that the operator named with this identity; None for this node.
fn find(app: &App, name: &str, identity: Option<&str>) -> Result<Option<Peer>, ApiError> {
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
    let Some(identity) = identity.filter(|identity| *identity != site.identity) else {
        return Ok(Some(Peer {
            name: site.name,
            addresses: site.addresses,
            identity: site.identity,
        }));
    };
    let mut nodes = site.independent();
    let node = nodes.find(|node| node.peer.identity == identity);
    let peer = node.map(|node| Peer {
        name: site.name.clone(),
        ..node.peer.clone()
    });
    peer.map(Some).ok_or_else(|| {
        ApiError::not_found(format!(
            "the site {name} has no independent node {identity:?}; list the nodes with: godwit site list"
        ))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_may_have_missed_a_revocation_serves_its_own_machine_alone() {
        for is_of_machine in [false, true] {
            assert!(judged(is_of_machine, false).is_ok());
        }
        assert!(judged(true, true).is_ok());
        let no = judged(false, true).expect_err("outdated");
        assert!(no.code().is_one_of(&[FailureCode::NoMajority]));
        // Work that has begun continues for a moment.
        assert!(matches!(look(Err(no)), Look::Unread(_)));
    }

    #[test]
    fn a_line_of_the_audit_log_names_both_places_of_a_rename() {
        let wish = |path: &str, right| {
            let place = Place::from_bytes(path.as_bytes()).expect("a place");
            (place, right)
        };
        let one = [
            wish("here:/data/a", Right::Read),
            wish("here:/data/a", Right::Write),
        ];
        assert_eq!(object(&one), "here:/data/a");
        let two = [one[0].clone(), wish("here:/data/b", Right::Delete)];
        assert_eq!(object(&two), "here:/data/a -> here:/data/b");
        let [from, to] = ["a", "b"].map(|name| format!("here:/data/{name}/{}", "x".repeat(500)));
        let long = object(&[wish(&from, Right::Read), wish(&to, Right::Write)]);
        assert!(long.len() <= OBJECT_BYTES_MAX, "{long}");
        assert!(long.contains(" -> here:/data/b/x"), "{long}");
        assert!(object(&[]).is_empty());
    }
}
