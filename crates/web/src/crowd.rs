//! Bounds how many requests of one user the node handles at once, from the credentials of each until its answer has gone.
//! Refuses no stranger.
//!
//! Each request may have a body of 1 MiB and an answer that its client does not read. A user may have a hundred connections with dozens of
//! requests each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::http::StatusCode;

use crate::problem::ApiError;
use crate::throttle::Key;
use godwit_api::failure::FailureCode;

/// Requests of one user at once, event streams included.
const OF_USER_MAX: usize = 64;

/// Requests with one token or session and its derivatives. Fewer than for a user, so that a program leaves room for its user.
const OF_CREDENTIAL_MAX: usize = 48;

/// Key by which requests are counted together.
#[derive(Clone, Eq, Hash, PartialEq)]
enum Whose {
    User(String),
    Credential(Key),
}

impl Whose {
    const fn most(&self) -> usize {
        match self {
            Self::User(_) => OF_USER_MAX,
            Self::Credential(_) => OF_CREDENTIAL_MAX,
        }
    }
}

/// Requests in progress, by user and by credential. Clones share one count.
#[derive(Clone, Default)]
pub(crate) struct Crowd(Arc<Mutex<HashMap<Whose, usize>>>);

/// One request. It has no owner until it proves a user, and ends when its last clone is dropped.
#[derive(Clone)]
pub(crate) struct Member(Arc<Inner>);

struct Inner {
    crowd: Crowd,
    own: OnceLock<Vec<Whose>>,
}

impl Crowd {
    /// One more request.
    pub(crate) fn enter(&self) -> Member {
        Member(Arc::new(Inner {
            crowd: self.clone(),
            own: OnceLock::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Whose, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Assigns the request to a user, and to a token or session if there is one. Only the first call counts.
    ///
    /// # Errors
    /// The user or the credential has the maximum number of requests.
    pub(crate) fn prove(&self, user: &str, credential: Option<Key>) -> Result<(), ApiError> {
        let Inner { crowd, own } = &*self.0;
        let mut crowd = crowd.lock();
        if own.get().is_some() {
            return Ok(());
        }
        let mut all = vec![Whose::User(user.to_owned())];
        all.extend(credential.map(Whose::Credential));
        let is_full = |whose: &&Whose| crowd.get(whose).is_some_and(|n| *n >= whose.most());
        if let Some(full) = all.iter().find(is_full) {
            let most = full.most();
            let who = match full {
                Whose::User(user) => user,
                Whose::Credential(_) => "this token",
            };
            let detail = format!(
                "{who} already has {most} requests at once, which is the limit; send fewer at a time"
            );
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(ApiError::later(
                status,
                FailureCode::TooManyRequests,
                detail,
                1,
            ));
        }
        for whose in &all {
            *crowd.entry(whose.clone()).or_default() += 1;
        }
        // No other thread sets it: the lock is held.
        let _ = own.set(all);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(own) = self.own.get() else {
            return;
        };
        let mut crowd = self.crowd.lock();
        for whose in own {
            if let Some(count) = crowd.get_mut(whose) {
                *count -= 1;
                if *count == 0 {
                    crowd.remove(whose);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle;

    #[test]
    fn a_request_counts_once_until_its_last_clone_is_gone() {
        let crowd = Crowd::default();
        let members: Vec<Member> = (0..OF_USER_MAX).map(|_| crowd.enter()).collect();
        for member in &members {
            member.prove("vera", None).expect("room");
            member.prove("vera", None).expect("the same request");
        }
        let (more, clone) = (crowd.enter(), members[0].clone());
        let error = more.prove("vera", None).expect_err("too many");
        assert_eq!(*error.code(), FailureCode::TooManyRequests);
        more.prove("walt", None).expect("another user");
        drop(members);
        assert_eq!(crowd.lock().get(&Whose::User("vera".to_owned())), Some(&1));
        drop((more, clone));
        assert!(crowd.lock().is_empty());
    }

    #[test]
    fn a_token_leaves_room_to_its_user() {
        let crowd = Crowd::default();
        let key = || Some(throttle::key(&["secret"]));
        let members: Vec<Member> = (0..OF_CREDENTIAL_MAX).map(|_| crowd.enter()).collect();
        for member in &members {
            member.prove("vera", key()).expect("room");
        }
        let more = crowd.enter();
        let error = more.prove("vera", key()).expect_err("too many");
        assert_eq!(*error.code(), FailureCode::TooManyRequests);
        let other = Some(throttle::key(&["other"]));
        more.prove("vera", other).expect("another token");
        drop((members, more));
        assert!(crowd.lock().is_empty());
    }
}
