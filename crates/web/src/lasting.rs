//! Owns the right to an answer that lasts: it is looked at again once a second, and the answer ends with it.
//! Decides nothing: `caller` does, as for the first byte.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::app::App;
use crate::caller::{Need, Request};

/// How often it is looked whether the caller may still have the answer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long an answer lasts while nobody can tell, for the node is busy or its state cannot be read.
const UNTOLD_MAX: Duration = Duration::from_secs(10);

/// The right of a caller to an answer that lasts.
pub(crate) struct Lasting {
    app: Arc<App>,
    request: Request,
    need: Need,
    next: Instant,
    held: Instant,
}

impl Lasting {
    /// The right of a request that has just been let in by this need.
    pub(crate) fn new(app: Arc<App>, request: Request, need: Need) -> Self {
        let now = Instant::now();
        Self {
            app,
            request,
            need,
            next: now + LOOK_EVERY,
            held: now,
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

    /// Whether the caller may still have the answer, as it was found within the last second.
    pub(crate) async fn holds(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return true;
        }
        self.next = now + LOOK_EVERY;
        let (request, need) = (self.request.clone(), self.need);
        let checked = self.app.authenticate(request, need).await;
        match checked {
            Ok(_) => {
                self.held = now;
                true
            }
            Err(error) => !error.status().is_client_error() && now < self.held + UNTOLD_MAX,
        }
    }
}
