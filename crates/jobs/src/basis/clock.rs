//! The clock and the random numbers of this crate.
//! Decides nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::rest::Timestamp;
pub use godwit_history::now;

/// Clock for the jobs of a node.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that shows the time that `show` returns.
    pub fn new(show: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// The time now.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    /// The clock of this machine.
    fn default() -> Self {
        Self::new(now)
    }
}

/// Random bits; the time replaces them if the system has none.
pub(crate) fn random() -> u32 {
    getrandom::u32().unwrap_or_else(|_| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .subsec_nanos()
    })
}

/// A text that no other start of a node has.
pub(crate) fn random_text() -> String {
    format!("{:x}-{:08x}{:08x}", now().0, random(), random())
}
