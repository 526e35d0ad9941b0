//! Owns the form of a job that gathers: a job for each source, its place by the rule for names that collide, and places that must be apart.
//! Submits nothing; `family` does.

use std::collections::{BTreeMap, HashMap};

use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{Merge, NewJob, Place};
use godwit_state::DESTINATIONS_MAX;

use super::family::invalid;
use crate::basis::apart::{Apart, is_below};
use crate::basis::error::JobsError;

/// Settings that would hide from a merge which of two files is the other one, or the newer one.
const BLIND: [&str; 2] = ["ignore-existing", "size-only"];

/// The setting that follows the other rule.
const fn other_rule(merge: Merge) -> Option<&'static str> {
    match merge {
        Merge::BySite => None,
        Merge::Refuse => Some("update"),
        Merge::Newest => Some("no-replace"),
    }
}

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
        _ if new.kind == JobKind::Sync && new.merge != Merge::BySite => {
            "merge: a sync removes what its source lacks, so each source would remove the files of the others; gather by a copy"
                .to_owned()
        }
        _ if new.kind != JobKind::Copy => {
            "gather: only a copy gathers; submit one job for each source".to_owned()
        }
        _ if !new.list.is_empty() => {
            "gather: a list names entries of one source; leave the list out".to_owned()
        }
        _ => return check_settings(new),
    };
    Err(invalid(what))
}

/// Whether the settings let a merge see which of two files is the other one, or the newer one, and follow no other rule.
fn check_settings(new: &NewJob) -> Result<(), JobsError> {
    if let Some(name) = other_rule(new.merge).filter(|name| new.settings.contains_key(*name)) {
        return Err(invalid(format!(
            "settings: {name} keeps files by another rule than the merge; leave it out"
        )));
    }
    let blind = BLIND.iter().find(|name| new.settings.contains_key(**name));
    match blind {
        Some(name) if new.merge != Merge::BySite => Err(invalid(format!(
            "settings: {name} keeps an entry without a look at the other one, so the merge could not follow its rule; leave it out"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a rule for names that collide where nothing is gathered.
pub(super) fn check_merge(new: &NewJob) -> Result<(), JobsError> {
    match new.gather || new.merge == Merge::BySite {
        true => Ok(()),
        false => Err(invalid(
            "merge: only a job that gathers its sources merges them; set gather".to_owned(),
        )),
    }
}

/// The settings of the job of each source.
fn settings(new: &NewJob) -> BTreeMap<String, Vec<Text>> {
    let mut settings = new.settings.clone();
    let keeps = match new.merge {
        Merge::BySite => return settings,
        Merge::Refuse => "no-replace",
        Merge::Newest => "update",
    };
    settings.insert(keeps.to_owned(), vec![Text(b"true".to_vec())]);
    settings
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

/// One job for each source. The contents of a source go below its name in the destination, or into the destination itself.
pub(super) fn each(new: &NewJob) -> Result<Vec<NewJob>, JobsError> {
    let below = destination(new)?;
    let sources = new.sources.iter().map(|text| read("sources", text));
    let sources: Vec<Place> = sources.collect::<Result<_, _>>()?;
    let names = match new.merge {
        Merge::BySite => names(&sources)?,
        Merge::Refuse | Merge::Newest => vec![Vec::new(); sources.len()],
    };
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
        if !destination.path.is_empty() && !name.is_empty() {
            destination.path.push(b'/');
        }
        destination.path.extend(name);
        NewJob {
            sources: vec![source.to_string()],
            destination: destination.to_string(),
            gather: false,
            merge: Merge::BySite,
            settings: settings(new),
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
    fn merged_sources_go_into_the_destination_itself_and_their_settings_follow_the_rule() {
        for (merge, setting) in [(Merge::Refuse, "no-replace"), (Merge::Newest, "update")] {
            for destination in ["here:/archive/all", "here:/archive/all/", "here:/archive"] {
                let new = NewJob {
                    merge,
                    ..gather(&["a:/raw/x", "b:/raw/x/"], destination)
                };
                check_form(&new).expect("good");
                let jobs = each(&new).expect("good");
                let sources: Vec<&str> = jobs.iter().map(|job| job.sources[0].as_str()).collect();
                assert_eq!(sources, ["a:/raw/x/.", "b:/raw/x/."]);
                for job in jobs {
                    let into = format!("{}/", destination.trim_end_matches('/'));
                    assert_eq!(job.destination, into);
                    assert_eq!(job.settings[setting], [Text(b"true".to_vec())]);
                    assert_eq!(job.merge, Merge::BySite);
                }
            }
        }
    }

    #[test]
    fn a_merge_that_could_not_follow_its_rule_is_refused() {
        let merged = |merge| NewJob {
            merge,
            ..gather(&["a:/x", "b:/x"], "here:/archive")
        };
        for merge in [Merge::Refuse, Merge::Newest] {
            let new = merged(merge);
            check_merge(&new).expect("it gathers");
            let alone = NewJob {
                gather: false,
                ..new.clone()
            };
            check_merge(&alone).expect_err("nothing is gathered");
            let sync = NewJob {
                kind: JobKind::Sync,
                ..new.clone()
            };
            let refused = check_form(&sync).expect_err("it deletes").to_string();
            assert!(refused.contains("the files of the others"), "{refused}");
            for name in BLIND.into_iter().chain(other_rule(merge)) {
                let mut blind = new.clone();
                let value = vec![Text(b"true".to_vec())];
                blind.settings.insert(name.to_owned(), value);
                let refused = check_form(&blind).expect_err("it is blind").to_string();
                assert!(refused.contains(name), "{refused}");
                blind.merge = Merge::BySite;
                check_form(&blind).expect("names do not meet");
            }
        }
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
