//! Owns the names of time zones: which are known, and the message about limits and schedules with an unknown one.
//! Keeps no limit and no schedule: the state does.

use std::collections::BTreeSet;

use chrono_tz::Tz;
use godwit_api::failure::FailureCode;
use godwit_state::{Limit, Object as _, Reader, Schedule};

use crate::basis::error::JobsError;

/// The time zone of that name; an empty name is UTC. None if this program does not know it.
pub(crate) fn zone(name: &str) -> Option<Tz> {
    match name {
        "" => Some(Tz::UTC),
        name => name.parse().ok(),
    }
}

/// Refuses the name of a time zone that this program does not know. An empty name is UTC.
///
/// # Errors
/// The name is not known.
pub fn check_time_zone(name: &str) -> Result<(), JobsError> {
    let unknown = |what| JobsError::invalid(FailureCode::Invalid, format!("time_zone: {what}"));
    time_zone_trouble(name).map_or(Ok(()), |what| Err(unknown(what)))
}

/// The fault in the name of a time zone; None if the zone is known.
#[must_use]
pub fn time_zone_trouble(name: &str) -> Option<String> {
    zone(name)
        .is_none()
        .then(|| format!("{name:?} is unknown; write a name such as Europe/Berlin, or UTC"))
}

/// Limits and schedules whose unknown time zone was logged.
#[derive(Default)]
pub(crate) struct UnknownZones(BTreeSet<String>);

impl UnknownZones {
    /// Logs once for each limit and schedule that its time zone is not known. A corrected zone that is wrong again is logged again.
    pub(crate) fn report(&mut self, reader: &Reader, log: &dyn Fn(&str)) -> Result<(), JobsError> {
        let limits = reader.objects::<Limit>()?.into_iter();
        let limits = limits.map(|limit| {
            let what = format!("limit {}", limit.id());
            (what, "its times are read as UTC", limit.time_zone)
        });
        let schedules = reader.objects::<Schedule>()?.into_iter();
        let schedules = schedules.filter(|schedule| !schedule.disabled);
        let schedules = schedules.map(|schedule| {
            let what = format!("schedule {}", schedule.id);
            (what, "it submits nothing", schedule.time_zone)
        });
        let mut unknown = BTreeSet::new();
        for (what, effect, name) in limits.chain(schedules) {
            let Some(trouble) = time_zone_trouble(&name) else {
                continue;
            };
            if !self.0.contains(&what) {
                log(&format!(
                    "{what}: {effect}, because its time zone {trouble}"
                ));
            }
            unknown.insert(what);
        }
        self.0 = unknown;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_known_by_its_name_alone() {
        for name in ["", "UTC", "Europe/Berlin", "America/Argentina/Ushuaia"] {
            assert_eq!(time_zone_trouble(name), None, "{name}");
            assert!(check_time_zone(name).is_ok());
        }
        for name in ["Nowhere/Land", "Berlin", "UTC+1", " ", "Europe/Berlin "] {
            let reported = check_time_zone(name).expect_err(name).to_string();
            assert!(
                reported.contains(name) && reported.contains("Europe/Berlin"),
                "{reported}"
            );
        }
    }
}
