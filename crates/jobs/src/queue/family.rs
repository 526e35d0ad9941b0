//! Checks a job with several destinations or gathered sources, and makes its rows: a parent, and an ordinary job for each of them.
//! Submits and runs none of them. The state derives the parent from its children.

use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_api::job::{JobKind, Text};
use godwit_api::rest::{NewJob, Place};
use godwit_state::{
    Agreed, DESTINATIONS_MAX, LEVEL_DESTINATIONS, NewJob as Submitted, Role, SPEC_BYTES_MAX,
    Timestamp, sortable_id,
};

use super::submit::{self, Admission};
use super::{gather, relay};
use crate::asking::overlaps;
use crate::basis::apart::Apart;
use crate::basis::clock::random;
use crate::basis::error::JobsError;
use crate::basis::stored::Stored;

/// The bits of an id that are random.
const RANDOM_BITS: u32 = (1 << 25) - 1;

/// Whether a job may run, from its sources to its destination.
pub(super) type May<'a> = dyn Fn(&NewJob, &[Place], &Place) -> Result<(), JobsError> + 'a;

/// A job with several destinations or sources that was checked.
pub(super) struct Family {
    children: Vec<Checked>,
    /// The places of the parent: those of the first destination, or all sources.
    places: (Vec<Place>, Place),
    /// The description of the parent.
    text: String,
}

/// A destination or source whose job was checked.
struct Checked {
    new: NewJob,
    places: (Vec<Place>, Place),
    text: String,
}

/// Checks a job with several destinations or gathered sources, which a user of this role submits. Other sites may take this long to compare
/// their directories; an attempt asks them again.
pub(super) fn check(
    admission: &Admission,
    role: Option<Role>,
    new: &NewJob,
    may: &May<'_>,
    within: Duration,
) -> Result<Family, JobsError> {
    check_form(admission, new)?;
    let reader = admission.this.reader();
    let (mut children, mut bytes) = (Vec::new(), 0);
    let each = match new.gather {
        true => gather::each(new)?,
        false => each(new).collect(),
    };
    for one in each {
        let places = submit::check(&admission.this, &one)?;
        let text = Stored::text_of(&reader, &one, role, &places)?;
        may(&one, &places.0, &places.1)?;
        bytes += text.len();
        check_length(bytes)?;
        children.push(Checked {
            new: one,
            places,
            text,
        });
    }
    let places = places_of(admission, new, &children, within)?;
    let text = Stored::text_of(&reader, new, role, &places)?;
    check_length(bytes + text.len())?;
    Ok(Family {
        children,
        places,
        text,
    })
}

/// The places of a parent, whose children are apart.
fn places_of(
    admission: &Admission,
    new: &NewJob,
    children: &[Checked],
    within: Duration,
) -> Result<(Vec<Place>, Place), JobsError> {
    let reader = admission.this.reader();
    let until = Instant::now() + within;
    let apart = Apart {
        reader: &reader,
        cluster: &admission.rights.cluster,
        exported: &*admission.exported,
        elsewhere: &|site, paths| {
            overlaps::of_site(&admission.asking, site, paths, until, &|| true)
        },
    };
    if new.gather {
        let sources = children.iter().flat_map(|one| one.places.0.clone());
        let sources: Vec<Place> = sources.collect();
        let destination = gather::destination(new)?;
        gather::check_apart(&apart, &sources, &destination)?;
        return Ok((sources, destination));
    }
    let Some(first) = children.first() else {
        return Err(invalid("name at least one destination".to_owned()));
    };
    let destinations: Vec<&Place> = children.iter().map(|one| &one.places.1).collect();
    apart.check(&first.places.0, &destinations)?;
    Ok(first.places.clone())
}

impl Family {
    /// The parent and its children as the state takes them. Ids are in the order of the destinations or sources, behind the id of the parent.
    pub(super) fn build(
        &self,
        at: Timestamp,
        owner: &str,
        new: &NewJob,
        key: Option<String>,
    ) -> (Submitted, Vec<Submitted>) {
        let count = u32::try_from(self.children.len()).unwrap_or(u32::MAX);
        let base = (random() & RANDOM_BITS).min(RANDOM_BITS.saturating_sub(count));
        let id = |number: u32| sortable_id(at, base.saturating_add(number));
        let parent = Submitted {
            id: id(0),
            ..submit::build(at, owner, new, self.text.clone(), &self.places, key)
        };
        let children = (1..).zip(&self.children).map(|(number, one)| Submitted {
            id: id(number),
            ..submit::build(at, owner, &one.new, one.text.clone(), &one.places, None)
        });
        (parent, children.collect())
    }
}

pub(super) fn invalid(detail: String) -> JobsError {
    JobsError::invalid(FailureCode::Invalid, detail)
}

/// The job of each destination.
fn each(new: &NewJob) -> impl Iterator<Item = NewJob> {
    let destinations = [&new.destination].into_iter().chain(&new.more_destinations);
    destinations.map(|destination| {
        let mut one = NewJob {
            destination: destination.clone(),
            more_destinations: Vec::new(),
            ..new.clone()
        };
        relay::harden(&mut one);
        one
    })
}

/// Whether a job of this form may have several destinations, or gather its sources.
fn check_form(admission: &Admission, new: &NewJob) -> Result<(), JobsError> {
    gather::check_merge(new)?;
    if new.gather {
        gather::check_form(new)?;
        return check_level(admission, "gather: ");
    }
    let count = new.more_destinations.len() + 1;
    if count > DESTINATIONS_MAX {
        return Err(invalid(format!(
            "more_destinations: {count} destinations; a job takes at most {DESTINATIONS_MAX}, so submit several jobs"
        )));
    }
    if new.kind == JobKind::Verify {
        return Err(invalid(
            "more_destinations: a verification checks one copy; submit one for each".to_owned(),
        ));
    }
    let is_random = |order: &Text| order.0 == b"random";
    if new
        .settings
        .get("order")
        .is_some_and(|given| given.iter().any(is_random))
    {
        return Err(invalid(
            "settings: order random: several destinations read in the order of the source; leave it out".to_owned(),
        ));
    }
    check_level(admission, "more_destinations: ")
}

/// Whether all nodes of the cluster know such jobs.
fn check_level(admission: &Admission, field: &str) -> Result<(), JobsError> {
    let level = Agreed(&admission.this.reader()).level()?;
    if level < LEVEL_DESTINATIONS {
        return Err(invalid(format!(
            "{field}the cluster is at level {level} and takes such jobs from level {LEVEL_DESTINATIONS} on; update all nodes"
        )));
    }
    Ok(())
}

fn check_length(bytes: usize) -> Result<(), JobsError> {
    if bytes <= SPEC_BYTES_MAX {
        return Ok(());
    }
    Err(invalid(format!(
        "the descriptions of all jobs below the parent have {bytes} bytes together, and {SPEC_BYTES_MAX} is the limit: name a directory above the sources, or submit several jobs"
    )))
}
