//! Owns how many requests of one user the node works at, from the credentials of each until its answer has gone.
//! Refuses no stranger.
//!
//! Each may have a body of 1 MiB and an answer that its client does not read, and a user may have a hundred connections with dozens of
//! requests each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::http::StatusCode;

use crate::problem::ApiError;

/// Requests of one user at once, event streams included.
const OF_USER_MAX: usize = 64;

/// The requests that are worked at, by user. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Crowd(Arc<Mutex<HashMap<String, usize>>>);

/// One request. It is nobody's until it proves a user, and ends when its last clone is dropped.
#[derive(Clone)]
pub(crate) struct Member(Arc<Inner>);

struct Inner {
    crowd: Crowd,
    user: OnceLock<String>,
}

impl Crowd {
    /// One more request.
    pub(crate) fn enter(&self) -> Member {
        Member(Arc::new(Inner {
            crowd: self.clone(),
            user: OnceLock::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// The request has proven this user. The first one counts.
    ///
    /// # Errors
    /// The user has as many requests as one may have.
    pub(crate) fn prove(&self, user: &str) -> Result<(), ApiError> {
        let Inner { crowd, user: own } = &*self.0;
        let mut crowd = crowd.lock();
        if own.get().is_some() {
            return Ok(());
        }
        let count = crowd.entry(user.to_owned()).or_default();
        if *count >= OF_USER_MAX {
            let detail = format!(
                "{user} has {OF_USER_MAX} requests at once, and no more; send fewer at a time"
            );
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(ApiError::later(status, "too_many_requests", detail, 1));
        }
        *count += 1;
        // Nobody sets it twice: the lock is held.
        let _ = own.set(user.to_owned());
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(user) = self.user.get() else {
            return;
        };
        let mut crowd = self.crowd.lock();
        if let Some(count) = crowd.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                crowd.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_until_its_last_clone_is_gone() {
        let crowd = Crowd::default();
        let members: Vec<Member> = (0..OF_USER_MAX).map(|_| crowd.enter()).collect();
        for member in &members {
            member.prove("vera").expect("room");
            member.prove("vera").expect("the same request");
        }
        let (more, clone) = (crowd.enter(), members[0].clone());
        let error = more.prove("vera").expect_err("too many");
        assert_eq!(error.code(), "too_many_requests");
        more.prove("walt").expect("another user");
        drop(members);
        assert_eq!(crowd.lock().get("vera"), Some(&1));
        drop((more, clone));
        assert!(crowd.lock().is_empty());
    }
}
