//! Owns how many requests that may change something one user sends, and how often one credential signs in.
//! Decides no right, and reads no clock.
//!
//! Each change is a command of the consensus, an event and a line of the audit log at every node. A session or a token of a log-in is one,
//! too. Who signs in has a rate of its own, so that a token that somebody stole does not keep its user from signing in.

use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::config::ChangePace;
use crate::problem::ApiError;
use crate::standing::Standing;
use crate::throttle::{Throttle, key};

/// What is left of the changes of each user, and of the sign-ins with each credential.
pub(crate) struct Changes {
    pace: ChangePace,
    changes: Throttle,
    sign_ins: Throttle,
}

impl Changes {
    pub(crate) fn new(pace: ChangePace) -> Self {
        Self {
            pace,
            changes: Throttle::new(pace.changes, pace.change_each),
            sign_ins: Throttle::new(pace.sign_ins, pace.sign_in_each),
        }
    }

    /// Takes one of the changes that a user may make.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take(&self, user: &str, now: Instant) -> Result<(), ApiError> {
        let taken = self.changes.take(&key(&["user", user]), 1, now);
        taken.map_err(|wait| {
            let detail = format!(
                "{user} has changed too much of late: {} requests in a row that may change something, then one every {:?}; send fewer",
                self.pace.changes, self.pace.change_each
            );
            later("too_many_changes", detail, wait)
        })
    }

    /// Takes one of the sign-ins with a user's password.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take_sign_in(&self, user: &str, now: Instant) -> Result<(), ApiError> {
        self.sign_in(&["password", user], now)
    }

    /// Takes one of the sign-ins with a token, and with all tokens that came from the same one.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take_sign_in_by(&self, token: &Standing, now: Instant) -> Result<(), ApiError> {
        let first = token.chain.last().unwrap_or(&token.token.id);
        self.sign_in(&["token", first], now)
    }

    fn sign_in(&self, parts: &[&str], now: Instant) -> Result<(), ApiError> {
        let taken = self.sign_ins.take(&key(parts), 1, now);
        taken.map_err(|wait| {
            let detail = format!(
                "too many sign-ins of late: {} in a row, then one every {:?}; keep the session or token of one of them",
                self.pace.sign_ins, self.pace.sign_in_each
            );
            later("too_many_logins", detail, wait)
        })
    }
}

fn later(code: &str, detail: String, wait: Duration) -> ApiError {
    ApiError::later(
        StatusCode::TOO_MANY_REQUESTS,
        code,
        detail,
        wait.as_secs() + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_user_have_a_rate_and_those_of_another_do_not_wait() {
        let (changes, now) = (Changes::new(ChangePace::default()), Instant::now());
        let taken = |user: &str, now: Instant| {
            let all = 0..5_100;
            all.filter(|_| changes.take(user, now).is_ok()).count()
        };
        assert_eq!(taken("vera", now), 5_000);
        assert_eq!(taken("walt", now), 5_000);
        assert_eq!(taken("vera", now + Duration::from_secs(1)), 10);
    }

    #[test]
    fn who_uses_up_the_changes_of_a_user_leaves_its_sign_ins() {
        let (changes, now) = (Changes::new(ChangePace::default()), Instant::now());
        let signed = |user: &str, now: Instant| {
            let all = 0..1_100;
            all.filter(|_| changes.take_sign_in(user, now).is_ok())
                .count()
        };
        while changes.take("vera", now).is_ok() {}
        assert_eq!(signed("vera", now), 1_000);
        assert_eq!(signed("walt", now), 1_000);
        assert_eq!(signed("vera", now + Duration::from_secs(2)), 2);
    }
}
