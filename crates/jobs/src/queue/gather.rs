//! Owns the form of a job that gathers: a job for each source, each below the name of its site, and places that must be apart.
//! Submits nothing; `family` does.

use std::collections::HashMap;

use godwit_api::job::JobKind;
use godwit_api::rest::{NewJob, Place};
use godwit_state::DESTINATIONS_MAX;

use super::family::invalid;
use crate::basis::apart::{Apart, is_below};
use crate::basis::error::JobsError;

/// Whether a job of this form may gather its sources.
pub(super) fn check_form(new: &NewJob) -> Result<(), JobsError> {
    let count = new.sources.len();
    let what = match new {
        _ if !new.more_destinations.is_empty() => {
            "gather: several sources go to one destination; leave more_destinations out".to_owned()
        }
        _ if count < 2 => "gather: name at least two sources".to_owned(),
        _ if count > DESTINATIONS_MAX => format!(
            "gather: {count} sources; a job gathers at most {DESTINATIONS_MAX}, so submit several jobs"
        ),
        _ if new.kind != JobKind::Copy => {
            "gather: only a copy gathers; submit one job for each source".to_owned()
        }
        _ if !new.list.is_empty() => {
            "gather: a list names entries of one source; leave the list out".to_owned()
        }
        _ => return Ok(()),
    };
    Err(invalid(what))
}

/// The destination of the parent.
pub(super) fn destination(new: &NewJob) -> Result<Place, JobsError> {
    read("destination", &new.destination)
}

fn read(field: &str, text: &str) -> Result<Place, JobsError> {
    let place = text.parse::<Place>();
    let place = place.map_err(|error| invalid(format!("{field}: {error}")))?;
    match place.is_memory() {
        true => Err(invalid(format!(
            "{field}: {place} is memory; a gather takes directories"
        ))),
        false => Ok(place),
    }
}

/// The job of each source: its contents go below its name in the destination.
pub(super) fn each(new: &NewJob) -> Result<Vec<NewJob>, JobsError> {
    let below = destination(new)?;
    let sources = new.sources.iter().map(|text| read("sources", text));
    let sources: Vec<Place> = sources.collect::<Result<_, _>>()?;
    let names = names(&sources)?;
    let jobs = sources.into_iter().zip(names).map(|(source, name)| {
        let source = Place {
            directory: true,
            contents: true,
            ..source
        };
        let mut destination = Place {
            directory: true,
            contents: false,
            ..below.clone()
        };
        if !destination.path.is_empty() {
            destination.path.push(b'/');
        }
        destination.path.extend(name);
        NewJob {
            sources: vec![source.to_string()],
            destination: destination.to_string(),
            gather: false,
            ..new.clone()
        }
    });
    Ok(jobs.collect())
}

/// The name of each source in the destination: its site, and the last name of its path if the site has several sources.
fn names(sources: &[Place]) -> Result<Vec<Vec<u8>>, JobsError> {
    let mut of_site: HashMap<&str, usize> = HashMap::new();
    for source in sources {
        *of_site.entry(source.site.as_str()).or_default() += 1;
    }
    let mut known: HashMap<Vec<u8>, &Place> = HashMap::new();
    let mut names = Vec::new();
    for source in sources {
        let mut name = source.site.clone().into_bytes();
        if of_site
            .get(source.site.as_str())
            .is_some_and(|count| *count > 1)
        {
            let mut parts = source.path.split(|byte| *byte == b'/');
            let last = parts.rfind(|part| !part.is_empty());
            name.push(b'-');
            name.extend(last.unwrap_or(source.export.as_bytes()));
        }
        if let Some(other) = known.insert(name.clone(), source) {
            let name = String::from_utf8_lossy(&name);
            return Err(invalid(format!(
                "sources: {other} and {source} would both be {name} in the destination; submit one of them alone"
            )));
        }
        names.push(name);
    }
    Ok(names)
}

/// Refuses sources that are one place, and a source inside the destination or around it. The identity of a site counts, not its name.
pub(super) fn check_apart(
    apart: &Apart<'_>,
    sources: &[Place],
    destination: &Place,
) -> Result<(), JobsError> {
    let target = apart.identity_of(&destination.site)?;
    let mut known: Vec<(String, &Place)> = Vec::new();
    for source in sources {
        let site = apart.identity_of(&source.site)?;
        if site == target && is_below(source, destination) {
            return Err(invalid(format!(
                "source {source} is inside the destination {destination}"
            )));
        }
        if site == target && is_below(destination, source) {
            return Err(invalid(format!(
                "destination {destination} is inside the source {source}"
            )));
        }
        let same = known.iter().find(|(other_site, other)| {
            *other_site == site && is_below(source, other) && is_below(other, source)
        });
        if let Some((_, other)) = same {
            return Err(invalid(format!(
                "{other} and {source} are one place: name each source once"
            )));
        }
        known.push((site, source));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(sources: &[&str], destination: &str) -> NewJob {
        serde_json::from_value(serde_json::json!({
            "sources": sources, "destination": destination, "gather": true
        }))
        .expect("a job")
    }

    #[test]
    fn each_source_goes_below_the_name_of_its_site() {
        let new = gather(
            &["a:/raw", "b:/raw/x/", "b:/raw/deep/y/.", "here:/data/z"],
            "here:/archive/all",
        );
        check_form(&new).expect("good");
        let jobs = each(&new).expect("good");
        let places: Vec<(&str, &str)> = jobs
            .iter()
            .map(|job| (job.sources[0].as_str(), job.destination.as_str()))
            .collect();
        assert_eq!(
            places,
            [
                ("a:/raw/.", "here:/archive/all/a/"),
                ("b:/raw/x/.", "here:/archive/all/b-x/"),
                ("b:/raw/deep/y/.", "here:/archive/all/b-y/"),
                ("here:/data/z/.", "here:/archive/all/here/"),
            ]
        );
        assert!(jobs.iter().all(|job| !job.gather));
    }

    #[test]
    fn names_that_collide_are_refused() {
        for sources in [
            ["a:/raw/one/x", "a:/raw/two/x", "b:/raw"],
            ["a:/raw/x", "a:/raw/y", "a-x:/raw"],
        ] {
            let refused = each(&gather(&sources, "here:/archive")).expect_err("a collision");
            assert!(refused.to_string().contains("would both be"), "{refused}");
        }
    }

    #[test]
    fn a_gather_is_a_copy_of_directories_to_one_place() {
        let good = || gather(&["a:/x", "b:/x"], "here:/archive");
        check_form(&good()).expect("good");
        let mut one = good();
        one.sources.truncate(1);
        let mut many = good();
        many.sources = (0..=DESTINATIONS_MAX)
            .map(|n| format!("a:/x/{n}"))
            .collect();
        let mut apart = good();
        apart.more_destinations = vec!["b:/y".to_owned()];
        let mut sync = good();
        sync.kind = JobKind::Sync;
        for new in [one, many, apart, sync] {
            check_form(&new).expect_err("refused");
        }
        each(&gather(&["a:/x", "b:mem:1GiB"], "here:/archive")).expect_err("memory");
        each(&gather(&["a:/x", "b:/x"], "here:null:")).expect_err("memory");
    }
}
