//! Owns the right to a long-lived answer. The right is checked again once a second, and the answer ends with it.
//! Decides nothing: `caller` does, as for the first byte.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::caller::{Caller, Need, Request};
use crate::problem::ApiError;
use crate::turns::Holder;

/// How often the right is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A missing right is checked once more after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long an answer lasts while its right cannot be checked, because the node is busy or its state cannot be read.
const UNTOLD_MAX: Duration = Duration::from_secs(10);

/// The right of a caller to a long-lived answer.
pub(crate) struct Lasting {
    app: Arc<App>,
    request: Request,
    need: Need,
    next: Instant,
    held: Instant,
    allowed: Option<Arc<Allowed>>,
}

/// Whether the caller has the right to the content of the answer.
type Allowed = dyn Fn(&App, &Caller) -> Result<(), ApiError> + Send + Sync;

impl Lasting {
    /// The right of a request that has just been admitted with this need.
    pub(crate) fn new(app: Arc<App>, request: Request, need: Need) -> Self {
        let now = Instant::now();
        Self {
            app,
            request,
            need,
            next: now + LOOK_EVERY,
            held: now,
            allowed: None,
        }
    }

    /// The right to an answer that needs more than a role.
    pub(crate) fn while_allowed(
        self,
        allowed: impl Fn(&App, &Caller) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            allowed: Some(Arc::new(allowed)),
            ..self
        }
    }

    /// The request that asked for the answer.
    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// When [`holds`](Self::holds) looks again.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Whether the caller may still have the answer, as checked within the last second.
    pub(crate) async fn holds(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return true;
        }
        self.next = now + LOOK_EVERY;
        let mut checked = self.check().await;
        // A file of grants that is being written is empty for a moment.
        if checked.is_err() && self.allowed.is_some() {
            sleep(LOOK_AGAIN_AFTER).await;
            checked = self.check().await;
        }
        match checked {
            Ok(()) => {
                self.held = now;
                true
            }
            Err(error) => !error.status().is_client_error() && now < self.held + UNTOLD_MAX,
        }
    }

    async fn check(&self) -> Result<(), ApiError> {
        let (request, need) = (self.request.clone(), self.need);
        let caller = self.app.authenticate(request, need).await?;
        let Some(allowed) = self.allowed.clone() else {
            return Ok(());
        };
        let holder = Holder::User(caller.name.clone());
        let check = move |app: &App| allowed(app, &caller);
        self.app.run_for(Some(holder), check).await
    }
}
