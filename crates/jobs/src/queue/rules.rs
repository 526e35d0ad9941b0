//! Reads limits and shares from the state, as they hold at a moment.
//! Applies none.

use chrono::{DateTime, Datelike as _, Timelike as _};
use chrono_tz::Tz;
use godwit_state::{Limit, LimitScope, Reader, Share, Timestamp};

use crate::basis::error::JobsError;
use crate::basis::zone::zone;
use crate::queue::order::{ActiveJob, Rules, rate};

/// Limits and shares at one moment.
pub(crate) struct Policy {
    limits: Vec<Limit>,
    shares: Vec<Share>,
    at: Timestamp,
}

impl Policy {
    /// Reads them.
    pub(crate) fn read(reader: &Reader, at: Timestamp) -> Result<Self, JobsError> {
        Ok(Self {
            limits: reader.objects()?,
            shares: reader.objects()?,
            at,
        })
    }

    /// The rules for the order of jobs.
    pub(crate) fn rules(&self, node_max: usize) -> Rules {
        let mut rules = Rules {
            node_max,
            ..Rules::default()
        };
        for limit in &self.limits {
            let Some(max) = limit.jobs_max else {
                continue;
            };
            match limit.scope {
                LimitScope::Node => rules.node_max = rules.node_max.min(max as usize),
                LimitScope::Owner => {
                    rules.owner_max.insert(limit.name.clone(), max);
                }
                LimitScope::Site => {
                    rules.site_max.insert(limit.name.clone(), max);
                }
                LimitScope::JobDefault => {}
            }
        }
        for share in &self.shares {
            rules.weights.insert(share.owner.clone(), share.weight);
        }
        rules
    }

    fn rate_of(&self, scope: LimitScope, name: Option<&str>) -> Option<u64> {
        let limit = self
            .limits
            .iter()
            .find(|limit| limit.scope == scope && name.is_none_or(|name| limit.name == name))?;
        let (day, minute) = time_of_week(self.at, &limit.time_zone);
        limit.rate_at(day, minute)
    }

    /// The limit of a job of `owner` with `sites`, among the running jobs; 0 is none.
    pub(crate) fn rate(
        &self,
        own: Option<u64>,
        owner: &str,
        sites: &[String],
        running: &[ActiveJob],
    ) -> u64 {
        let own = own.or_else(|| self.rate_of(LimitScope::JobDefault, None));
        let of_owner = running.iter().filter(|job| job.owner == owner).count();
        let mut shared = vec![
            (self.rate_of(LimitScope::Node, None), running.len()),
            (self.rate_of(LimitScope::Owner, Some(owner)), of_owner),
        ];
        for site in sites {
            let with_site = running
                .iter()
                .filter(|job| job.sites.contains(site))
                .count();
            shared.push((self.rate_of(LimitScope::Site, Some(site)), with_site));
        }
        rate(own, &shared)
    }
}

/// A week, after which the windows of limits repeat, in steps of a quarter of an hour.
const AHEAD_STEPS: i64 = 7 * 24 * 4;
const AHEAD_STEP: i64 = 15 * 60 * 1_000;

impl Policy {
    /// The changes of a job's limit in the coming week, as `rate` returns the limit, each with its time. A window that begins
    /// within a
    /// quarter of an hour counts from the next quarter on.
    pub(crate) fn ahead(
        &self,
        own: Option<u64>,
        owner: &str,
        sites: &[String],
        running: &[ActiveJob],
    ) -> Vec<(Timestamp, u64)> {
        if self.limits.iter().all(|limit| limit.windows.is_empty()) {
            return Vec::new();
        }
        let first = self.at.0.div_euclid(AHEAD_STEP) + 1;
        let mut changes: Vec<(Timestamp, u64)> = Vec::new();
        let mut then = Self {
            limits: self.limits.clone(),
            shares: Vec::new(),
            at: self.at,
        };
        let mut before = self.rate(own, owner, sites, running);
        for step in first..first + AHEAD_STEPS {
            then.at = Timestamp(step * AHEAD_STEP);
            let limit = then.rate(own, owner, sites, running);
            if limit != before {
                changes.push((then.at, limit));
                before = limit;
            }
        }
        changes
    }
}

/// Day of the week, Monday 0, and minute of the day in a time zone. An unknown zone counts as UTC. New ones are refused; the log and the
/// view of a limit from an earlier version report it.
fn time_of_week(at: Timestamp, name: &str) -> (u8, u16) {
    let zone = zone(name).unwrap_or(Tz::UTC);
    let Some(utc) = DateTime::from_timestamp_millis(at.0) else {
        return (0, 0);
    };
    let local = utc.with_timezone(&zone);
    let day = local.weekday().num_days_from_monday();
    let minute = local.hour() * 60 + local.minute();
    (
        u8::try_from(day).unwrap_or(0),
        u16::try_from(minute).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use godwit_state::LimitWindow;

    use super::*;

    #[test]
    fn the_time_of_week_is_that_of_the_zone() {
        // 2026-11-24 is a Tuesday.
        let at = Timestamp(1_795_564_800_000 + 23 * 3_600_000);
        let (utc_day, _) = time_of_week(at, "UTC");
        let (berlin_day, berlin) = time_of_week(at, "Europe/Berlin");
        let (_, utc) = time_of_week(at, "UTC");
        assert_eq!((berlin + 1_440 - utc) % 1_440, 60);
        assert!(berlin_day == utc_day || berlin_day == (utc_day + 1) % 7);
        assert_eq!(time_of_week(at, "Nowhere/Land"), time_of_week(at, "UTC"));
    }

    #[test]
    fn the_changes_of_a_week_are_those_of_the_windows() {
        let limit = |rate, windows| Limit {
            scope: LimitScope::Node,
            name: "*".to_owned(),
            rate,
            jobs_max: None,
            windows,
            time_zone: "UTC".to_owned(),
        };
        let policy = |windows| Policy {
            limits: vec![limit(Some(500), windows)],
            shares: Vec::new(),
            // A Wednesday, at midnight.
            at: Timestamp(1_795_564_800_000),
        };
        let running = [ActiveJob {
            owner: "ada".to_owned(),
            sites: Vec::new(),
        }];
        let ahead = |policy: &Policy| policy.ahead(None, "ada", &[], &running);
        assert_eq!(ahead(&policy(Vec::new())), []);
        let day = policy(vec![LimitWindow {
            days: vec![2],
            from: 8 * 60,
            to: 18 * 60,
            rate: Some(100),
        }]);
        let hour = 3_600_000;
        let at = |hours: i64| Timestamp(day.at.0 + hours * hour);
        assert_eq!(ahead(&day), [(at(8), 100), (at(18), 500)]);
    }
}
