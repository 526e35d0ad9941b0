//! Owns passwords: their argon2id hashes, and the threads that compute them.
//! Does not know whose they are.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use godwit_state::Secret;
use tokio::sync::{Semaphore, oneshot};

use crate::app::turn;
use crate::problem::ApiError;

/// The shortest password, in signs.
const SIGNS_MIN: usize = 8;

/// The longest password, in bytes: longer ones only cost time.
const BYTES_MAX: usize = 1_024;

/// A thread that computes hashes, one at a time: each takes 19 MiB and a core for some 50 ms, and data is to be moved beside it. The
/// allocator keeps that memory for the thread that had it, so hashes on any thread would take it once for each.
pub(crate) struct Hasher {
    turns: Arc<Semaphore>,
    jobs: SyncSender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Hasher {
    /// # Errors
    /// No thread can be started.
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, taken) = sync_channel::<Job>(1);
        // It ends when nobody can send it a job any more.
        std::thread::Builder::new()
            .name("gw-password".to_owned())
            .spawn(move || taken.into_iter().for_each(|job| job()))?;
        Ok(Self {
            turns: Arc::new(Semaphore::new(1)),
            jobs,
        })
    }

    /// Computes when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = turn(&self.turns).await?;
        let (tell, told) = oneshot::channel();
        let job = move || {
            // Nobody may wait any more; the turn is over only now all the same.
            let _ = tell.send(compute());
            drop(turn);
        };
        let fault = "internal error: the thread for passwords is gone. Please report it";
        let sent = self.jobs.try_send(Box::new(job));
        sent.map_err(|_error| ApiError::internal(fault))?;
        told.await.map_err(|_error| ApiError::internal(fault))
    }
}

/// The hash of a new password. Blocks for some 50 ms.
pub(crate) fn hash(password: &str) -> Result<Secret, ApiError> {
    if password.chars().count() < SIGNS_MIN || password.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "password: at least {SIGNS_MIN} signs and at most {BYTES_MAX} bytes"
        )));
    }
    let hash: PasswordHash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(|error| ApiError::internal(format!("the password cannot be hashed: {error}")))?;
    Ok(Secret::new(hash.to_string()))
}

/// Whether the password is the one of the hash. Takes as long where there is no hash, so that nobody learns which users there are.
pub(crate) fn verify(password: &str, hash: Option<&Secret>) -> bool {
    if password.len() > BYTES_MAX {
        return false;
    }
    let parsed = hash.and_then(|hash| PasswordHash::new(hash.expose()).ok());
    let argon = Argon2::default();
    match parsed {
        Some(parsed) => argon.verify_password(password.as_bytes(), &parsed).is_ok(),
        None => {
            // Only the time counts.
            let _ = argon.hash_password_into(password.as_bytes(), &[0; 16], &mut [0; 32]);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again_and_no_other() {
        let made = hash("correct horse").expect("hashed");
        assert!(made.expose().starts_with("$argon2id$"), "{}", made.expose());
        assert!(verify("correct horse", Some(&made)));
        assert!(!verify("correct house", Some(&made)));
        assert!(!verify("correct horse", None));
        assert!(!verify("x", Some(&Secret::new("no hash at all"))));
        assert!(hash("short").is_err());
        assert_ne!(made, hash("correct horse").expect("hashed"));
    }
}
