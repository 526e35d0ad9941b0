//! Owns the rate of changes per user and per credential, and the rate of sign-ins per credential.
//! Decides no right, and reads no clock.
//!
//! Each change is a command of the consensus, an event and a line of the audit log at every node. A session or a token of a log-in is a
//! change, too. A stolen token leaves its user able to revoke it: sign-ins have a separate rate, and one credential cannot use up all
//! changes of its user.

use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::config::ChangePace;
use crate::problem::ApiError;
use crate::standing::Standing;
use crate::throttle::{Key, Throttle, key};
use godwit_api::failure::FailureCode;

/// Remaining changes of each user and credential, and remaining sign-ins with each credential.
pub(crate) struct Changes {
    pace: ChangePace,
    of_credentials: Throttle,
    of_users: Throttle,
    sign_ins: Throttle,
}

impl Changes {
    pub(crate) fn new(pace: ChangePace) -> Self {
        Self {
            pace,
            of_credentials: Throttle::new(pace.changes, pace.change_each),
            // A quarter more, and a quarter faster.
            of_users: Throttle::new(
                pace.changes.saturating_add(pace.changes.div_ceil(4)),
                pace.change_each * 4 / 5,
            ),
            sign_ins: Throttle::new(pace.sign_ins, pace.sign_in_each),
        }
    }

    /// Takes one change from the allowance of a user, and of the token or session that the request shows, if any.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take(
        &self,
        user: &str,
        shown: Option<&Standing>,
        now: Instant,
    ) -> Result<(), ApiError> {
        self.take_many(user, shown, 1, now)
    }

    /// Takes several changes at once: a request may add many rows.
    ///
    /// # Errors
    /// Too few are left.
    pub(crate) fn take_many(
        &self,
        user: &str,
        shown: Option<&Standing>,
        count: u32,
        now: Instant,
    ) -> Result<(), ApiError> {
        let refused = |wait| {
            let detail = format!(
                "{user} has made too many changes recently: the limit is {} changing requests in a row, then one every {:?}; send fewer",
                self.pace.changes, self.pace.change_each
            );
            later(FailureCode::TooManyChanges, detail, wait)
        };
        let of_user = key(&["user", user]);
        self.of_users.take(&of_user, count, now).map_err(refused)?;
        let Some(shown) = shown else {
            return Ok(());
        };
        let taken = self.of_credentials.take(&first_of(shown), count, now);
        taken.map_err(|wait| {
            self.of_users.give_back(&of_user, count);
            refused(wait)
        })
    }

    /// Takes one of the sign-ins with a user's password.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take_sign_in(&self, user: &str, now: Instant) -> Result<(), ApiError> {
        self.sign_in(&key(&["password", user]), now)
    }

    /// Takes one of the sign-ins with a token, and with all tokens that came from the same one.
    ///
    /// # Errors
    /// None is left.
    pub(crate) fn take_sign_in_by(&self, token: &Standing, now: Instant) -> Result<(), ApiError> {
        self.sign_in(&first_of(token), now)
    }

    fn sign_in(&self, credential: &Key, now: Instant) -> Result<(), ApiError> {
        let taken = self.sign_ins.take(credential, 1, now);
        taken.map_err(|wait| {
            let detail = format!(
                "too many log-ins recently: the limit is {} in a row, then one every {:?}; reuse the session or token of one of them",
                self.pace.sign_ins, self.pace.sign_in_each
            );
            later(FailureCode::TooManyLogins, detail, wait)
        })
    }
}

/// The token from which this token was made. All tokens made from it count together with it.
fn first_of(token: &Standing) -> Key {
    key(&["token", token.first()])
}

fn later(code: FailureCode, detail: String, wait: Duration) -> ApiError {
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
            let all = 0..6_500;
            all.filter(|_| changes.take(user, None, now).is_ok())
                .count()
        };
        assert_eq!(taken("vera", now), 6_250);
        assert_eq!(taken("walt", now), 6_250);
        assert_eq!(taken("vera", now + Duration::from_secs(2)), 25);
    }

    #[test]
    fn a_request_may_take_several_changes() {
        let (changes, now) = (Changes::new(ChangePace::default()), Instant::now());
        let families = (0..200).filter(|_| changes.take_many("vera", None, 64, now).is_ok());
        assert_eq!(families.count(), 6_250 / 64);
    }

    #[test]
    fn exhausted_changes_of_a_user_leave_its_sign_ins() {
        let (changes, now) = (Changes::new(ChangePace::default()), Instant::now());
        let signed = |user: &str, now: Instant| {
            let all = 0..1_100;
            all.filter(|_| changes.take_sign_in(user, now).is_ok())
                .count()
        };
        while changes.take("vera", None, now).is_ok() {}
        assert_eq!(signed("vera", now), 1_000);
        assert_eq!(signed("walt", now), 1_000);
        assert_eq!(signed("vera", now + Duration::from_secs(2)), 2);
    }
}
