//! Owns which refusals are logged, and how many of strangers, of each user, and of all users together.
//! Decides no refusal. Each refusal to a known user goes into the audit log, from any route. A route that writes a more
//! detailed line has marked its error as written.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use godwit_api::failure::FailureCode;
use godwit_api::rest::Problem;
use godwit_jobs::OWN_FILE_FAILS;
use godwit_state::{Actor, Role};

use crate::app::App;
use crate::problem::Written;
use crate::throttle::{Throttle, key};
use crate::turns::Holder;

/// Longest object of a line of the audit log. The beginning of an object identifies it.
pub(crate) const OBJECT_BYTES_MAX: usize = 256;

/// Cuts an object to the length that a line of the audit log takes.
pub(crate) fn cut(mut object: String) -> String {
    object.truncate(object.floor_char_boundary(OBJECT_BYTES_MAX));
    object
}

/// The proven sender of a request, once known.
#[derive(Clone, Default)]
pub(crate) struct Proven(Arc<Mutex<Option<Actor>>>);

impl Proven {
    pub(crate) fn is(&self, actor: Actor) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(actor);
    }

    fn take(&self) -> Option<Actor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Logs a refusal to a known user.
pub(crate) async fn log_refusals(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let proven = Proven::default();
    request.extensions_mut().insert(proven.clone());
    let uri = request.uri();
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let what = cut(format!("{} {path}", request.method()));
    let mut response = next.run(request).await;
    let proven = proven.take();
    if proven.as_ref().and_then(|actor| actor.role) != Some(Role::Admin) {
        hide_paths(&mut response);
    }
    let extensions = response.extensions();
    let is_new =
        response.status() == StatusCode::FORBIDDEN && extensions.get::<Written>().is_none();
    if let Some(actor) = proven.filter(|_| is_new)
        && let Some(problem) = extensions.get::<Problem>()
    {
        let code = problem.code.clone();
        let holder = Some(Holder::User(actor.name.clone()));
        let write = move |app: &App| {
            app.refused(actor, "request", &what, code);
            Ok(())
        };
        // The refusal itself matters more than its log line.
        let _ = app.run_for(holder, write).await;
    }
    response
}

/// Faults of the node's own files. Their texts contain paths of the machine and lines of the file of grants.
const OF_OWN_FILES: [FailureCode; 4] = [
    FailureCode::GrantsUnreadable,
    FailureCode::FileUnreadable,
    FailureCode::StateUnreadable,
    FailureCode::StateStopped,
];

/// Hides paths of the machine from all but admins, as in settings. The answer is written from its problem later.
fn hide_paths(response: &mut Response) {
    let problem = response.extensions_mut().get_mut::<Problem>();
    if let Some(problem) = problem.filter(|problem| problem.code.is_one_of(&OF_OWN_FILES)) {
        OWN_FILE_FAILS.clone_into(&mut problem.detail);
    }
}

/// Burst of refusals of all strangers, or of one user.
const BURST: u32 = 100;

/// Interval between further refusals, which protects the disk: about 43,000 lines a day.
const EVERY: Duration = Duration::from_secs(2);

/// Burst of refusals of all users together.
const BURST_OF_USERS: u32 = 1_000;
const EVERY_OF_USERS: Duration = Duration::from_millis(500);

/// Remaining refusals that may be logged.
pub(crate) struct Refusals {
    each: Throttle,
    users: Throttle,
}

impl Refusals {
    pub(crate) fn new() -> Self {
        Self {
            each: Throttle::new(BURST, EVERY),
            users: Throttle::new(BURST_OF_USERS, EVERY_OF_USERS),
        }
    }

    /// Whether a refusal of this actor is logged. Strangers use no allowance of users, nor does one user use that of another.
    pub(crate) fn take(&self, actor: &Actor, now: Instant) -> bool {
        if actor.role.is_none() {
            return self.each.take(&key(&["strangers"]), 1, now).is_ok();
        }
        let user = key(&["user", &actor.name]);
        self.each.take(&user, 1, now).is_ok() && self.users.take(&key(&[]), 1, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(refusals: &Refusals, name: &str, role: Option<Role>, now: Instant) -> usize {
        let actor = Actor {
            role,
            ..Actor::node(name)
        };
        (0..2_000).filter(|_| refusals.take(&actor, now)).count()
    }

    #[test]
    fn a_user_does_not_exhaust_the_refusals_of_another() {
        let (refusals, now) = (Refusals::new(), Instant::now());
        let viewer = Some(Role::Viewer);
        assert_eq!(taken(&refusals, "anonymous", None, now), 100);
        assert_eq!(taken(&refusals, "vera", viewer, now), 100);
        assert_eq!(taken(&refusals, "walt", viewer, now), 100);
        let all = (0..20).map(|number| taken(&refusals, &number.to_string(), viewer, now));
        assert_eq!(all.sum::<usize>(), 800, "all users together");
    }
}
