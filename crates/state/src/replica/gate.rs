//! Decides whether a replica still takes part in its cluster. A node that a recovery left behind must not continue beside the new cluster.
//! Ends nothing: the process does.

use std::io;
use std::sync::{Arc, OnceLock};

use super::ProposeError;

/// Open until another node was made the only one of this cluster. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<OnceLock<String>>);

impl Gate {
    /// Closes the gate for good. From now on the replica gives no vote, sends no message, leads nothing and accepts no command.
    pub fn close(&self, why: &str) {
        // The first reason stays.
        let _ = self.0.set(why.to_owned());
    }

    /// Whether the replica takes part.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.get().is_none()
    }

    /// Refuses a command.
    pub(super) fn check(&self) -> Result<(), ProposeError> {
        match self.0.get() {
            Some(why) => Err(ProposeError::LeftBehind(why.clone())),
            None => Ok(()),
        }
    }

    /// Refuses a message, which has then certainly not arrived.
    pub(super) fn check_message(&self) -> io::Result<()> {
        let closed = |error: ProposeError| io::Error::new(io::ErrorKind::NotConnected, error);
        self.check().map_err(closed)
    }
}
