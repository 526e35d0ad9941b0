//! Owns which jobs may remove files of their source, and how far the destinations of one job have come when one of them ends.
//! Removes nothing: `attempt::removal` does.

use godwit_api::failure::FailureCode;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{Divide, NewJob, Place, Relay};
use godwit_state::{Agreed, Job, LEVEL_REMOVALS, Reader, Site};

use crate::basis::error::JobsError;

/// Settings after which a copy need not be the source, or may be lost in a power cut, or that remove entries at the destination.
const EXCLUDED: [&str; 12] = [
    "ascmhl-digest",
    "delete",
    "delete-before",
    "dry-run",
    "existing",
    "force",
    "ignore-existing",
    "manifest",
    "no-replace",
    "no-sync",
    "size-only",
    "update",
];

/// Settings of the transfer, whatever its owner chose: manifests are merged by their order, and proofs need strong digests.
pub(crate) const SETTINGS: [(&str, &str); 2] = [("digest", "blake3"), ("manifest-sorted", "true")];

/// Whether all nodes of the cluster know such jobs, and this one may be such a job.
pub(crate) fn check(reader: &Reader, new: &NewJob) -> Result<(), JobsError> {
    let Some(copies) = new.remove_source_after else {
        return Ok(());
    };
    let refused = |what: String| {
        let what = format!("remove_source_after: {what}");
        Err(JobsError::invalid(FailureCode::Invalid, what))
    };
    let level = Agreed(reader).level()?;
    if level < LEVEL_REMOVALS {
        return refused(format!(
            "the cluster is at level {level} and takes such jobs from level {LEVEL_REMOVALS} on; update all nodes"
        ));
    }
    let to = [&new.destination].into_iter().chain(&new.more_destinations);
    for place in to.filter_map(|text| text.parse::<Place>().ok()) {
        let site = reader.object::<Site>(&place.site)?;
        if let Err(what) = site.as_ref().map_or(Ok(()), check_site) {
            return refused(what);
        }
    }
    check_form(new, copies).or_else(refused)
}

/// Whether a copy at this site can count. Whichever of several independent nodes answers would speak for the copy of another one.
pub(crate) fn check_site(site: &Site) -> Result<(), String> {
    match site.independent().next() {
        None => Ok(()),
        Some(_) => Err(format!(
            "site {} has independent nodes, and none of them proves a copy of another; name another destination",
            site.name
        )),
    }
}

fn check_form(new: &NewJob, copies: u32) -> Result<(), String> {
    let destinations = new.more_destinations.len() + 1;
    let sources = new.sources.iter().map(|text| text.parse::<Place>());
    // Places that cannot be read are refused later.
    let sources: Vec<Place> = sources.filter_map(Result::ok).collect();
    let to = [&new.destination].into_iter().chain(&new.more_destinations);
    let mut to = to.filter_map(|text| text.parse::<Place>().ok());
    let excluded = EXCLUDED
        .iter()
        .find(|name| new.settings.contains_key(**name));
    let is_weak = |digest: &Text| digest.0 != b"blake3";
    let what = match excluded {
        _ if copies == 0 => "name at least one copy".to_owned(),
        _ if usize::try_from(copies).is_ok_and(|copies| copies > destinations) => format!(
            "{copies} copies are wanted, and the job has {destinations}; name that many destinations"
        ),
        _ if new.kind == JobKind::Verify => {
            "a verification copies nothing; leave it out".to_owned()
        }
        _ if new.gather => {
            "gathered sources share one destination; submit a job for each source".to_owned()
        }
        _ if new.sources.len() != 1 => "submit one job for each source".to_owned(),
        _ if !new.list.is_empty() => {
            "choose the entries by rules, or name a directory, and leave the list out".to_owned()
        }
        _ if sources.iter().any(|place| !place.is_here()) => {
            "the source is at another site; submit the job at that site".to_owned()
        }
        _ if sources.iter().any(Place::is_memory) || to.any(|place| place.is_memory()) => {
            "memory holds no copies and no files; name directories".to_owned()
        }
        _ if sources
            .iter()
            .any(|place| place.path.is_empty() && !place.contents) =>
        {
            "for the contents of a whole export, end the source with /.".to_owned()
        }
        _ if new.divide == Divide::Always => {
            "a divided job records no digests of whole files; leave divide out".to_owned()
        }
        _ if new.relay != Relay::Never => {
            "each copy is to come from the source itself; leave relay out".to_owned()
        }
        _ if new
            .settings
            .get("digest")
            .is_some_and(|given| given.iter().any(is_weak)) =>
        {
            "copies are proven by BLAKE3; leave the setting digest out".to_owned()
        }
        Some(name) => format!("leave the setting {name} out, or keep the source"),
        None => return Ok(()),
    };
    Err(what)
}

/// How far a destination of a job has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Come {
    /// It waits, is paused, or moves data.
    Open,
    /// Its attempt ends now.
    Ends,
    /// Its attempt waits for the ends of the others, to remove files then.
    Waits,
    /// It has ended.
    Ended,
}

impl Come {
    /// The reason that a moving destination reports.
    pub(crate) const fn code(self) -> FailureCode {
        match self {
            Self::Waits => FailureCode::Waiting,
            _ => FailureCode::NotDeleted,
        }
    }

    /// How far a job has come, by its row in the state.
    pub(crate) fn of(job: &Job) -> Self {
        if job.state.ended() {
            return Self::Ended;
        }
        let reason = job.reason.as_ref().filter(|_| job.state.moves());
        let says = |come: Self| reason.is_some_and(|reason| reason.code == come.code());
        if says(Self::Ends) {
            Self::Ends
        } else if says(Self::Waits) {
            Self::Waits
        } else {
            Self::Open
        }
    }
}

/// The next step of an attempt that ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Turn {
    /// It ends, and another one removes.
    End,
    /// It waits for the ends of others.
    Wait,
    /// All others have ended: it removes.
    Remove,
}

/// Decides the next step of the job `own`, whose row says at least [`Come::Ends`], by the rows of the others.
///
/// The state has one order of all reports. So the last one to report that it ends sees that none is open, and waits. Of several that wait, the
/// one with the last id stays, and it removes when all others have ended. If its node is lost, it runs again, and is the last one then.
pub(crate) fn turn(own: &str, others: &[(&str, Come)], waits: bool) -> Turn {
    let any = |is_it: &dyn Fn(&str, Come) -> bool| others.iter().any(|(id, come)| is_it(id, *come));
    if any(&|_, come| come == Come::Open) {
        return Turn::End;
    }
    if others.iter().all(|(_, come)| *come == Come::Ended) {
        return Turn::Remove;
    }
    match waits && any(&|id, come| come == Come::Waits && id > own) {
        true => Turn::End,
        false => Turn::Wait,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_copy_at_a_site_of_independent_nodes_does_not_count() {
        let node = |independent: bool| json!({"name": "b2", "addresses": ["b2:1"], "identity": "gw1-b", "independent": independent});
        let site = |nodes: serde_json::Value| -> Site {
            let site = json!({"name": "b", "addresses": ["b1:1"], "identity": "gw1-a", "comment": "", "nodes": nodes});
            serde_json::from_value(site).expect("a site")
        };
        check_site(&site(json!([]))).expect("one node");
        check_site(&site(json!([node(false)]))).expect("a cluster");
        let why = check_site(&site(json!([node(true)]))).expect_err("refused");
        assert!(why.starts_with("site b has independent nodes"), "{why}");
    }

    #[test]
    fn a_job_that_could_not_prove_its_copies_is_refused() {
        let with = |more: serde_json::Value| {
            let mut new = json!({
                "sources": ["here:/data/run"], "destination": "b:/in/", "more_destinations": ["c:/in/"],
            });
            let fields = new.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            serde_json::from_value::<NewJob>(new).expect("a job")
        };
        for copies in [1, 2] {
            check_form(&with(json!({})), copies).expect("good");
        }
        let strong = with(json!({"settings": {"digest": ["blake3"], "streams": ["4"]}}));
        check_form(&strong, 2).expect("good");
        check_form(&with(json!({"sources": ["here:/data/."]})), 2).expect("good");
        for copies in [0, 3, u32::MAX] {
            check_form(&with(json!({})), copies).expect_err("refused");
        }
        for (more, words) in [
            (json!({"sources": ["a:/data/run"]}), "another site"),
            (
                json!({"sources": ["here:/data/a", "here:/data/b"]}),
                "each source",
            ),
            (json!({"sources": ["here:/data"]}), "whole export"),
            (json!({"sources": ["here:mem:1GiB"]}), "memory"),
            (json!({"more_destinations": ["here:null:"]}), "memory"),
            (json!({"kind": "verify"}), "verification"),
            (json!({"gather": true}), "gathered"),
            (json!({"list": ["a"]}), "list"),
            (json!({"divide": "always"}), "divided"),
            (json!({"relay": "first"}), "relay"),
            (json!({"settings": {"digest": ["crc64-nvme"]}}), "BLAKE3"),
            (json!({"settings": {"manifest": ["ascmhl"]}}), "manifest"),
            (json!({"settings": {"delete": ["true"]}}), "delete"),
            (json!({"settings": {"no-sync": ["true"]}}), "no-sync"),
        ] {
            let why = check_form(&with(more), 1).expect_err("refused");
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn one_destination_removes_however_they_end() {
        use Come::{Ended, Ends, Open, Waits};
        assert_eq!(turn("a", &[], false), Turn::Remove);
        assert_eq!(
            turn("a", &[("b", Ended), ("c", Ended)], false),
            Turn::Remove
        );
        assert_eq!(turn("a", &[("b", Ended), ("c", Open)], false), Turn::End);
        // One that waited ends if another one runs again.
        assert_eq!(turn("a", &[("b", Open)], true), Turn::End);
        assert_eq!(turn("a", &[("b", Ends)], false), Turn::Wait);
        assert_eq!(turn("a", &[("b", Ends)], true), Turn::Wait);
        // Both wait: the one with the last id stays.
        assert_eq!(turn("a", &[("b", Waits)], false), Turn::Wait);
        assert_eq!(turn("a", &[("b", Waits)], true), Turn::End);
        assert_eq!(turn("b", &[("a", Waits)], true), Turn::Wait);
        assert_eq!(turn("b", &[("a", Ended)], true), Turn::Remove);
    }

    /// A destination that ends, in this model of the state.
    #[derive(Clone, Copy, Eq, PartialEq)]
    enum Step {
        Report,
        Look,
        Over(bool),
    }

    #[test]
    fn in_each_order_of_looks_and_reports_exactly_one_removes() {
        const IDS: [&str; 3] = ["a", "b", "c"];
        // Each digit of the number says which destination acts next.
        for order in 0..3_u32.pow(8) {
            let mut come = [Come::Open; 3];
            let mut steps = [Step::Report; 3];
            let digits = (0..8).map(|place| order / 3_u32.pow(place) % 3);
            // Then all act in turn until they have ended.
            for one in digits.chain((0..30).map(|step| step % 3)) {
                let one = usize::try_from(one).expect("a digit");
                act(&IDS, &mut come, &mut steps, one);
            }
            let removed = steps.iter().filter(|step| **step == Step::Over(true));
            assert_eq!(removed.count(), 1, "order {order}");
            let ended = steps.iter().all(|step| matches!(step, Step::Over(_)));
            assert!(ended, "order {order}");
        }
    }

    /// One step of one destination: its report, its look, or its end.
    fn act(ids: &[&str; 3], come: &mut [Come; 3], steps: &mut [Step; 3], one: usize) {
        match steps[one] {
            Step::Report => {
                come[one] = match come[one] {
                    Come::Open => Come::Ends,
                    _ => Come::Waits,
                };
                steps[one] = Step::Look;
            }
            Step::Look => {
                let others: Vec<(&str, Come)> = (0..3)
                    .filter(|other| *other != one)
                    .map(|other| (ids[other], come[other]))
                    .collect();
                let waits = come[one] == Come::Waits;
                match turn(ids[one], &others, waits) {
                    Turn::Wait if waits => {}
                    Turn::Wait => steps[one] = Step::Report,
                    turn => steps[one] = Step::Over(turn == Turn::Remove),
                }
            }
            Step::Over(_) => come[one] = Come::Ended,
        }
    }
}
