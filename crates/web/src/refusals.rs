//! Owns how many refusals are written down: of strangers, of each user, and of all users together.
//! Writes nothing.

use std::time::{Duration, Instant};

use godwit_state::Actor;

use crate::throttle::{Throttle, key};

/// Refusals of all strangers, or of one user, in a row.
const BURST: u32 = 100;

/// After that one each so often, so that nobody fills the disk: some 43,000 lines a day.
const EVERY: Duration = Duration::from_secs(2);

/// The same for all users together.
const BURST_OF_USERS: u32 = 1_000;
const EVERY_OF_USERS: Duration = Duration::from_millis(500);

/// What is left of the refusals that are written down.
pub(crate) struct Refusals {
    each: Throttle,
    users: Throttle,
}

impl Refusals {
    pub(crate) fn new() -> Self {
        Self {
            each: Throttle::new(BURST, EVERY),
            users: Throttle::new(BURST_OF_USERS, EVERY_OF_USERS),
        }
    }

    /// Whether a refusal of this actor is written down. Strangers use up nothing of users, nor one user of another.
    pub(crate) fn take(&self, actor: &Actor, now: Instant) -> bool {
        if actor.role.is_none() {
            return self.each.take(&key(&["strangers"]), 1, now).is_ok();
        }
        let user = key(&["user", &actor.name]);
        self.each.take(&user, 1, now).is_ok() && self.users.take(&key(&[]), 1, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use godwit_state::Role;

    use super::*;

    fn taken(refusals: &Refusals, name: &str, role: Option<Role>, now: Instant) -> usize {
        let actor = Actor {
            role,
            ..Actor::node(name)
        };
        (0..2_000).filter(|_| refusals.take(&actor, now)).count()
    }

    #[test]
    fn nobody_uses_up_the_refusals_of_another() {
        let (refusals, now) = (Refusals::new(), Instant::now());
        let viewer = Some(Role::Viewer);
        assert_eq!(taken(&refusals, "anonymous", None, now), 100);
        assert_eq!(taken(&refusals, "vera", viewer, now), 100);
        assert_eq!(taken(&refusals, "walt", viewer, now), 100);
        let all = (0..20).map(|number| taken(&refusals, &number.to_string(), viewer, now));
        assert_eq!(all.sum::<usize>(), 800, "all users together");
    }
}
