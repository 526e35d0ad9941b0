//! Owns the submission of a job for another site: whether there is room for it, its names here, and the bounds of its description.
//! Checks no right: `rights` does.

use godwit_api::ask::{Peer, Refusal, RunJob, code};
use godwit_api::failure::FailureCode;
use godwit_api::job::Text;
use godwit_api::rest::{NewJob, Place};
use godwit_state::{
    Actor, Agreed, JOBS_OF_SITE_MAX, JobState, Kept, LEVEL_SITES, Op, Reader,
    SPEC_BYTES_OF_SITE_MAX, Site,
};

use crate::basis::error::{JobsError, refuse};
use crate::basis::owners::{actor, key, owner};
use crate::basis::sealing;
use crate::basis::stored::{Guest, Stored};
use crate::basis::this_node::ThisNode;
use crate::queue::records::{self, Records};
use crate::queue::submit;

/// Jobs that wait for one asker.
const WAITING_MAX: u64 = 1_000;

/// Jobs of one asker that the state holds, ended ones included. History keeps half as many ended ones (`state::Prune`).
const KEPT_MAX: u64 = 2 * JOBS_OF_SITE_MAX;

/// Bytes of their descriptions, under the same rule.
const KEPT_BYTES_MAX: u64 = 2 * SPEC_BYTES_OF_SITE_MAX;

/// The highest priority of a job for another site: the default of this site's jobs.
pub(super) const PRIORITY_MAX: i32 = 0;

/// The longest label of a job for another site.
const LABEL_BYTES_MAX: usize = 255;

/// Bytes of the settings of a job for another site: lists of patterns fit.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// Name that replaces the name of a site, if another site has that name here.
pub(super) const NAMELESS: &str = "other-site";

/// Whether one more job of this asker may come.
pub(super) fn check_room(reader: &Reader, records: &Records, asker: &str) -> Result<(), Refusal> {
    let counts = reader.job_counts(Some(&owner(asker)));
    let counts = counts.map_err(|error| refuse(&error.into()))?;
    let bytes = Kept(reader).spec_bytes(&owner(asker));
    let bytes = bytes.map_err(|error| refuse(&error.into()))?;
    check_kept(counts.iter().map(|(_, count)| count).sum(), bytes)?;
    if let Some(why) = records::full(records, asker).map_err(|error| refuse(&error))? {
        return Err(Refusal::later(code::BUSY, why));
    }
    check_waiting(&counts)
}

/// Whether an ended job of this asker may run again. The state holds the job already.
pub(super) fn check_room_again(reader: &Reader, asker: &str) -> Result<(), Refusal> {
    let counts = reader.job_counts(Some(&owner(asker)));
    check_waiting(&counts.map_err(|error| refuse(&error.into()))?)
}

/// Whether one more job may wait for an asker with these jobs.
fn check_waiting(counts: &[(JobState, u64)]) -> Result<(), Refusal> {
    let waiting = counts.iter().filter(|(state, _)| !state.ended());
    if waiting.map(|(_, count)| count).sum::<u64>() < WAITING_MAX {
        return Ok(());
    }
    Err(Refusal::later(
        code::BUSY,
        format!(
            "{WAITING_MAX} jobs of this identity have not ended here, which is the limit; try again later"
        ),
    ))
}

/// Whether the state has room for one more job of an asker with this many, and descriptions of this many bytes.
fn check_kept(count: u64, bytes: u64) -> Result<(), Refusal> {
    let full = match (count, bytes) {
        (KEPT_MAX.., _) => format!("{KEPT_MAX} jobs"),
        (_, KEPT_BYTES_MAX..) => format!("{} MiB of job descriptions", KEPT_BYTES_MAX >> 20),
        _ => return Ok(()),
    };
    Err(Refusal::later(
        code::BUSY,
        format!(
            "{full} of this identity are in the history here, which is the limit; the oldest ended jobs are removed within minutes, so try again later"
        ),
    ))
}

/// The description, with the names of this node.
pub(super) fn stored(this: &ThisNode, asker: &str, wish: &RunJob) -> Result<Stored, Refusal> {
    let invalid = |what: String| Refusal::new(code::INVALID, what);
    let mut new = wish.new.clone();
    new.not_before = None;
    if let Some(left) = wish.deadline_ms {
        new.deadline = Some(this.now().after(left));
    }
    bound(&mut new)?;
    let mut other = wish.other.clone();
    let asked = other.as_ref().map(|peer| peer.name.clone());
    if let Some(peer) = &mut other {
        peer.name = name_here(this, peer).map_err(|error| refuse(&error))?;
    }
    let rename = |text: &mut String| -> Result<bool, Refusal> {
        let mut place: Place = text
            .parse()
            .map_err(|error| invalid(format!("{text:?}: {error}")))?;
        if place.is_here() {
            return Ok(true);
        }
        match &other {
            Some(peer) if asked.as_ref() == Some(&place.site) => {
                place.site.clone_from(&peer.name);
                *text = place.to_string();
                Ok(false)
            }
            _ => Err(invalid(format!(
                "{place} is neither at this site nor at the site named with the job"
            ))),
        }
    };
    let mut sources_here = Vec::new();
    for source in &mut new.sources {
        sources_here.push(rename(source)?);
    }
    let destination_here = rename(&mut new.destination)?;
    let one_end = sources_here.iter().all(|here| *here != destination_here);
    let both_ends = destination_here && sources_here.iter().all(|here| *here);
    if !(both_ends && other.is_none() || one_end && other.is_some()) {
        return Err(invalid(
            "a job for another node must have at least one end here".to_owned(),
        ));
    }
    // Older nodes of this cluster do not read `may_list`. A job without it hides names.
    let level = Agreed(&this.reader()).level();
    let is_read = level.map_err(|error| refuse(&error.into()))? >= LEVEL_SITES;
    let guest = Guest {
        asker: asker.to_owned(),
        other,
        may_list: wish.may_list == Some(true) && is_read,
        may_read: wish.may_read == Some(true) && is_read,
    };
    Ok(Stored::for_guest(new, guest))
}

/// The setting that keeps files in the transfer buffer, which others need, too.
const KEEPS: &str = "keep-in-buffer";

/// Bounds the description of another site's job: the job does not outrank the jobs of this site, keeps nothing in the buffer of this node, and
/// a long label is cut.
fn bound(new: &mut NewJob) -> Result<(), Refusal> {
    new.priority = new.priority.min(PRIORITY_MAX);
    new.settings.remove(KEEPS);
    let end = new.label.floor_char_boundary(LABEL_BYTES_MAX);
    new.label.truncate(end);
    let bytes = |(name, values): (&String, &Vec<Text>)| {
        name.len() + values.iter().map(|value| value.0.len()).sum::<usize>()
    };
    if new.settings.iter().map(bytes).sum::<usize>() <= SETTINGS_BYTES_MAX {
        return Ok(());
    }
    let what = format!(
        "settings: a job for another site may have at most {SETTINGS_BYTES_MAX} bytes of settings"
    );
    Err(Refusal::new(code::INVALID, what))
}

/// The name of the site at this node: this node's name for the identity, else the asker's name, unless another site has that name here.
fn name_here(this: &ThisNode, peer: &Peer) -> Result<String, JobsError> {
    let sites = this.reader().objects::<Site>()?;
    let known = sites.iter().find(|site| site.identity == peer.identity);
    let taken = sites.iter().any(|site| site.name == peer.name);
    Ok(match known {
        Some(site) => site.name.clone(),
        None if taken => NAMELESS.to_owned(),
        None => peer.name.clone(),
    })
}

pub(super) fn submit_for(
    this: &ThisNode,
    asker: &str,
    wish: &RunJob,
    stored: Stored,
) -> Result<String, JobsError> {
    let Some(guest) = stored.guest else {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "the job does not belong to another node",
        ));
    };
    if sealing::kinds(&stored.new).is_some() {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "settings: --manifest ascmhl: the node of the job has its copies sealed, not the site that runs it",
        ));
    }
    if stored.new.remove_source_after.is_some() {
        return Err(JobsError::invalid(
            FailureCode::Invalid,
            "remove_source_after: a site removes none of its files for the job of another node",
        ));
    }
    let other = guest.other.as_ref().map(|peer| peer.name.clone());
    let checked =
        submit::check_known(
            this,
            &stored.new,
            &|site| Ok(other.as_deref() == Some(site)),
        )?;
    let text = Stored::text_for(stored.new.clone(), guest)?;
    let by = Actor {
        request: wish.request.clone(),
        ..actor(asker)
    };
    let (id, _) = submit::propose(this, by, &|at| {
        let key = Some(key(&wish.job));
        let (owner, text) = (owner(asker), text.clone());
        let job = submit::build(at, &owner, &stored.new, text, &checked, key);
        Ok((job.id.clone(), Op::Submit(Box::new(job))))
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests;
