//! Owns the surroundings of a transfer on a machine that reaches no other one by ssh. Starts no transfer.

use std::path::Path;
use std::sync::Arc;

use godwit_run::{Env, Home};

use crate::Nowhere;

/// Surroundings with this home, all files of the machine, and a separate governor.
#[must_use]
pub fn surroundings(home: &Path) -> Env {
    Env {
        umask: 0o077,
        ..Env::new(Home::at(home.to_owned()), Arc::new(Nowhere))
    }
}
