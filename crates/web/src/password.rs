//! Owns passwords: their argon2id hashes, and the threads that compute them.
//! Does not know the users.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

use argon2::password_hash::PasswordHasher as _;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use godwit_state::Secret;
use tokio::sync::oneshot;

use crate::problem::ApiError;
use crate::turns::{self, Turns};

/// The shortest password, in signs.
const SIGNS_MIN: usize = 8;

/// The longest password, in bytes: longer ones only cost time.
const BYTES_MAX: usize = 1_024;

/// A thread that computes hashes, one at a time. Each hash takes 19 MiB and a core for about 50 ms, while data moves beside it. The thread
/// keeps this memory: allocating it on any thread came to 500 MiB in a storm of log-ins.
pub(crate) struct Hasher {
    turns: Turns,
    jobs: SyncSender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Hasher {
    /// # Errors
    /// No thread can be started.
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, taken) = sync_channel::<Job>(1);
        // The thread ends when all senders are gone.
        std::thread::Builder::new()
            .name("gw-password".to_owned())
            .spawn(move || taken.into_iter().for_each(|job| job()))?;
        Ok(Self {
            turns: Turns::new(1, 1),
            jobs,
        })
    }

    /// Computes when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.turns.take(turns::holder()).await?;
        let (sender, reported) = oneshot::channel();
        let job = move || {
            // The caller may have stopped waiting. The turn ends only now all the same.
            let _ = sender.send(compute());
            drop(turn);
        };
        let fault = "internal error: the thread for passwords is gone. Please report it";
        let sent = self.jobs.try_send(Box::new(job));
        sent.map_err(|_error| ApiError::internal(fault))?;
        reported.await.map_err(|_error| ApiError::internal(fault))
    }
}

/// The hash of a new password. Blocks for some 50 ms.
pub(crate) fn hash(password: &str) -> Result<Secret, ApiError> {
    if password.chars().count() < SIGNS_MIN || password.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "password: at least {SIGNS_MIN} characters and at most {BYTES_MAX} bytes"
        )));
    }
    let hash: PasswordHash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(|error| ApiError::internal(format!("the password cannot be hashed: {error}")))?;
    Ok(Secret::new(hash.to_string()))
}

/// Whether the password matches the hash. A missing hash takes as long, so that the time does not reveal which users exist. Keeps 19 MiB
/// for the calling thread: see [`Hasher`].
pub(crate) fn verify(password: &str, hash: Option<&Secret>) -> bool {
    if password.len() > BYTES_MAX {
        return false;
    }
    let parsed = hash.and_then(|hash| PasswordHash::new(hash.expose()).ok());
    let Some(parsed) = parsed else {
        // Only the time counts.
        compute(&Argon2::default(), password, &[0; 16], &mut [0; 32]);
        return false;
    };
    let (Ok(algorithm), Ok(params)) = (
        Algorithm::try_from(parsed.algorithm.as_str()),
        Params::try_from(&parsed),
    ) else {
        return false;
    };
    let version = parsed
        .version
        .map_or_else(|| Ok(Version::default()), Version::try_from);
    let (Ok(version), Some(salt), Some(wanted)) = (version, &parsed.salt, &parsed.hash) else {
        return false;
    };
    let mut out = [0; Output::MAX_LENGTH];
    let Some(out) = out.get_mut(..wanted.len()) else {
        return false;
    };
    let argon = Argon2::new(algorithm, version, params);
    // `Output` compares in constant time.
    compute(&argon, password, salt, out) && Output::new(out).is_ok_and(|found| found == *wanted)
}

thread_local! {
    /// Memory for argon2. Allocated once: an allocator that shares memory among threads would not find the same place again.
    static MEMORY: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

fn compute(argon: &Argon2<'_>, password: &str, salt: &[u8], out: &mut [u8]) -> bool {
    let count = argon.params().block_count();
    MEMORY.with_borrow_mut(|memory| {
        if memory.len() < count {
            memory.resize(count, Block::default());
        }
        let blocks = &mut memory[..count];
        let done =
            argon.hash_password_into_with_memory(password.as_bytes(), salt, out, &mut *blocks);
        // No trace of a password stays.
        blocks.fill(Block::default());
        done.is_ok()
    })
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
        // Reused memory keeps nothing.
        assert!(verify("correct horse", Some(&made)));
        assert!(!verify("", Some(&made)));
        assert!(hash("short").is_err());
        assert_ne!(made, hash("correct horse").expect("hashed"));
    }
}
