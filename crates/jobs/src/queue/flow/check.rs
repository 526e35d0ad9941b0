//! Decides whether a flow makes sense: the jobs of its hops, and that the hops lead from place to place and never back.
//! Stores nothing.

use std::time::Instant;

use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{Agreed, HOPS_MAX, LEVEL_FLOWS, Role};

use super::built;
use crate::asking::overlaps;
use crate::basis::apart::Apart;
use crate::basis::error::JobsError;
use crate::basis::removal;
use crate::basis::whole;
use crate::queue::relay;
use crate::queue::submit::{self, Admission};
use crate::rights::access;

/// Defaults of the settings of each hop. The next hop takes only checked files, and small files do not wait behind large ones.
const DEFAULTS: [(&str, &str); 2] = [whole::READ_BACK, ("order", "random")];

/// Checks the jobs of a flow's hops, and returns them in the form that is kept. `who` is the owner, and the role of the user that puts
/// the flow.
///
/// # Errors
/// Names the hop and its fault.
pub(crate) fn check(
    admission: &Admission,
    hops: &[NewJob],
    who: (&str, Role),
) -> Result<Vec<NewJob>, JobsError> {
    check_level(admission)?;
    if hops.is_empty() || hops.len() > HOPS_MAX {
        return Err(invalid(format!("hops: a flow has 1 to {HOPS_MAX} hops")));
    }
    let (mut formed, mut way) = (Vec::new(), Vec::<Place>::new());
    for (number, new) in (1..).zip(hops) {
        let checked = check_hop(admission, new, who, way.last());
        let (new, from, to) = checked.map_err(|error| named(number, error))?;
        if way.is_empty() {
            way.push(from);
        }
        way.push(to);
        formed.push(new);
    }
    let reader = admission.this.reader();
    let until = Instant::now() + overlaps::WITHIN;
    let apart = Apart {
        reader: &reader,
        cluster: &admission.rights.cluster,
        exported: &*admission.exported,
        elsewhere: &|site, paths| {
            overlaps::of_site(&admission.asking, site, paths, until, &|| true)
        },
    };
    let places: Vec<&Place> = way.iter().collect();
    // A place inside another one would send its files round and round.
    apart.check(&[], &places)?;
    Ok(formed)
}

/// The job of a hop in the form that is kept, and its places.
fn check_hop(
    admission: &Admission,
    new: &NewJob,
    (owner, role): (&str, Role),
    before: Option<&Place>,
) -> Result<(NewJob, Place, Place), JobsError> {
    check_form(new)?;
    relay::check_form(new)?;
    removal::check(&admission.this.reader(), new)?;
    if before.is_some() && new.remove_source_after.is_some() {
        return Err(invalid(
            "remove_source_after: the hop before would bring all files again; only the first hop may remove files of its source".to_owned(),
        ));
    }
    let (new, from, to) = formed(new)?;
    if let Some(before) = before
        && (&before.site, &before.export, &before.path) != (&from.site, &from.export, &from.path)
    {
        return Err(invalid(format!(
            "sources: {from} is not {before}, to which the hop before leads"
        )));
    }
    let checked = submit::check(&admission.this, &new)?;
    let (sources, destination) = &checked;
    let there = access::There::of(&new);
    access::check_places(&admission.rights, owner, role, there, sources, destination)?;
    built(admission.this.now(), owner, &new, "{}".to_owned(), &checked)?;
    Ok((new, from, to))
}

/// Whether a job of this form may run again and again.
fn check_form(new: &NewJob) -> Result<(), JobsError> {
    let what = match new {
        _ if new.kind == JobKind::Verify => "kind: a hop copies; name copy or sync",
        _ if new.sources.len() != 1 => "sources: a hop has one source, a directory",
        _ if !new.more_destinations.is_empty() || new.gather => {
            "a hop leads from one place to one place; make a flow for each destination"
        }
        _ if !new.list.is_empty() => {
            "list: a list names the entries of one moment; choose entries by rules"
        }
        _ if new.not_before.is_some() || new.deadline.is_some() => {
            "not_before, deadline: a hop runs again and again; leave the times out"
        }
        _ if new.settings.contains_key("manifest") => {
            "settings: manifest: each run of a hop would read all files at the destination once more; seal them by a schedule"
        }
        _ if access::is_dry(new) => "settings: dry-run: a hop that moves nothing feeds no other",
        _ => return Ok(()),
    };
    Err(invalid(what.to_owned()))
}

/// The job whose contents go from directory to directory, with the settings of all hops.
fn formed(new: &NewJob) -> Result<(NewJob, Place, Place), JobsError> {
    let read = |field: &str, text: &str| {
        let place = text.parse::<Place>();
        let place = place.map_err(|error| invalid(format!("{field}: {error}")))?;
        match place.is_memory() {
            true => Err(invalid(format!(
                "{field}: {place} is memory; name a directory"
            ))),
            false => Ok(place),
        }
    };
    let source = new.sources.first().map_or("", String::as_str);
    let from = Place {
        directory: true,
        contents: true,
        ..read("sources", source)?
    };
    let to = Place {
        directory: true,
        contents: false,
        ..read("destination", &new.destination)?
    };
    let mut settings = new.settings.clone();
    for (name, value) in DEFAULTS {
        let given = settings.entry(name.to_owned());
        given.or_insert_with(|| vec![value.into()]);
    }
    let new = NewJob {
        sources: vec![from.to_string()],
        destination: to.to_string(),
        settings,
        ..new.clone()
    };
    Ok((new, from, to))
}

/// Whether all nodes of the cluster know flows.
fn check_level(admission: &Admission) -> Result<(), JobsError> {
    let level = Agreed(&admission.this.reader()).level()?;
    if level < LEVEL_FLOWS {
        return Err(invalid(format!(
            "the cluster is at level {level} and has flows from level {LEVEL_FLOWS} on; update all nodes"
        )));
    }
    Ok(())
}

/// The error with the number of its hop.
fn named(number: usize, error: JobsError) -> JobsError {
    let named = |detail: String| format!("hop {number}: {detail}");
    match error {
        JobsError::Invalid { code, detail } => JobsError::Invalid {
            code,
            detail: named(detail),
        },
        JobsError::Forbidden { code, detail } => JobsError::Forbidden {
            code,
            detail: named(detail),
        },
        error => error,
    }
}

fn invalid(detail: String) -> JobsError {
    JobsError::invalid(FailureCode::Invalid, detail)
}

#[cfg(test)]
mod tests {
    use godwit_api::job::Text;
    use serde_json::json;

    use super::*;

    fn job(value: serde_json::Value) -> NewJob {
        serde_json::from_value(value).expect("a job")
    }

    #[test]
    fn contents_go_from_directory_to_directory_and_are_read_back() {
        for (from, to) in [("b:/raw", "here:/in/x"), ("b:/raw/", "here:/in/x/")] {
            let new = job(json!({"sources": [from], "destination": to, "limit": 5}));
            let (new, source, destination) = formed(&new).expect("a hop");
            assert_eq!(new.sources, ["b:/raw/."]);
            assert_eq!(new.destination, "here:/in/x/");
            assert_eq!(new.settings["verify"], [Text::from("true")]);
            assert_eq!(new.settings["order"], [Text::from("random")]);
            assert_eq!((source.path, destination.path), (Vec::new(), b"x".to_vec()));
            // The form stays as it is.
            assert_eq!(formed(&new).expect("a hop").0, new);
        }
        let own = job(json!({
            "sources": ["b:/raw"], "destination": "here:/in", "settings": {"verify": ["false"]},
        }));
        let (own, ..) = formed(&own).expect("a hop");
        assert_eq!(own.settings["verify"], [Text::from("false")]);
        for memory in ["here:mem:5", "here:null:"] {
            let new = job(json!({"sources": ["b:/raw"], "destination": memory}));
            assert!(formed(&new).is_err(), "{memory}");
        }
    }

    #[test]
    fn a_job_that_cannot_run_again_and_again_is_no_hop() {
        let with = |more: serde_json::Value| {
            let mut new = json!({"sources": ["b:/raw"], "destination": "here:/in"});
            let fields = new.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            check_form(&job(new))
        };
        assert!(with(json!({})).is_ok());
        assert!(with(json!({"kind": "sync", "settings": {"delete": ["true"]}})).is_ok());
        for more in [
            json!({"kind": "verify"}),
            json!({"sources": ["b:/raw", "b:/other"]}),
            json!({"sources": []}),
            json!({"more_destinations": ["here:/too"]}),
            json!({"gather": true}),
            json!({"list": ["a"]}),
            json!({"not_before": "2100-01-01T00:00:00Z"}),
            json!({"deadline": "2100-01-01T00:00:00Z"}),
            json!({"settings": {"dry-run": ["true"]}}),
            json!({"settings": {"manifest": ["ascmhl"]}}),
        ] {
            assert!(with(more.clone()).is_err(), "{more}");
        }
    }
}
