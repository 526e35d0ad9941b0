//! Owns the relays of a job with several destinations: their keys, their places, and their effect on the destination. A relay is an ordinary
//! job of the same owner, which copies from one destination to another one. A round is a relay of a copy that is not complete.
//! Starts no relay: `queue::relay` does.

use godwit_api::failure::FailureCode;
use godwit_api::job::JobKind;
use godwit_api::rest::{NewJob, Place, Relay};
use godwit_api::units::human_size;
use godwit_state::{Agreed, Families, Job, JobAmounts, JobState, Reader, Reason, RelayKey};

use crate::basis::documents;
use crate::basis::error::JobsError;
use crate::basis::spec;
use crate::basis::stored::Stored;
use crate::basis::words::clip;

/// The jobs of the two destinations that a relay connects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pair {
    /// The destination that gets data.
    pub(crate) taker: String,
    /// The destination that has it.
    pub(crate) giver: String,
    /// The number of a round, which brings the files that are whole at the giver. None for a relay of a complete copy.
    pub(crate) round: Option<u32>,
}

impl Pair {
    /// The pair of a relay; None for any other job.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        let key = RelayKey::of(job.idempotency_key.as_deref()?)?;
        Some(Self {
            taker: key.taker.to_owned(),
            giver: key.giver.to_owned(),
            round: key.round,
        })
    }

    /// The key of a round, or of the only relay of a complete copy, between two destinations.
    pub(crate) fn key(taker: &Job, giver: &Job, round: Option<u32>) -> String {
        let key = RelayKey {
            taker: &taker.id,
            giver: &giver.id,
            round,
        };
        key.text()
    }
}

/// The rounds to a destination, the latest first.
pub(crate) fn rounds(reader: &Reader, taker: &Job) -> Result<Vec<(Pair, Job)>, JobsError> {
    let relays = Families(reader).relays(taker)?.into_iter();
    let rounds = relays.filter_map(|relay| Some((Pair::of(&relay)?, relay)));
    Ok(rounds.filter(|(pair, _)| pair.round.is_some()).collect())
}

/// Whether a round has begun to write at the place of a job. The first one begins only if that place does not exist, so the place has no entries
/// of others.
pub(crate) fn rounds_began(reader: &Reader, job: &Job) -> Result<bool, JobsError> {
    for (_, round) in rounds(reader, job)? {
        if has_begun(reader, &round)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// When a job takes its data from other destinations; never if it has no parent.
pub(crate) fn wish(reader: &Reader, job: &Job) -> Result<Relay, JobsError> {
    match Families(reader).parent(&job.id)? {
        Some(_) => Ok(Stored::of(reader, &job.id)?.new.relay),
        None => Ok(Relay::Never),
    }
}

/// The other destinations of the job's parent, if the job may take its data from them; None for any other job.
pub(crate) fn siblings(reader: &Reader, job: &Job) -> Result<Option<Vec<Job>>, JobsError> {
    let Some(parent) = Families(reader).parent(&job.id)? else {
        return Ok(None);
    };
    if Stored::of(reader, &job.id)?.new.relay == Relay::Never {
        return Ok(None);
    }
    let mut siblings = Families(reader).children(&parent)?;
    siblings.retain(|one| one.id != job.id);
    Ok(Some(siblings))
}

/// The relay from one destination to another one, if there was any.
pub(crate) fn between(reader: &Reader, taker: &Job, giver: &Job) -> Result<Option<Job>, JobsError> {
    Ok(reader.job_by_key(&taker.owner, &Pair::key(taker, giver, None))?)
}

/// The state in which the relays to a destination have left it.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Some data may be there that was not checked, or is wrong: existing files must be compared by their contents.
    pub(crate) doubt: bool,
    /// The reason of the job once it is complete: where its data came from.
    pub(crate) from: Option<Reason>,
    /// Whether a relay may have written there.
    pub(crate) has_begun: bool,
    /// Whether that relay assumed that the source goes into the destination; None without such a guess. An attempt from the source
    /// must assume the same, because the relay may have made the directory.
    pub(crate) into: Option<bool>,
}

/// The state in which relays have left the destination of a job; None for a job that takes no data from other destinations.
pub(crate) fn left(reader: &Reader, job: &Job) -> Result<Option<Left>, JobsError> {
    let Some(siblings) = siblings(reader, job)? else {
        return Ok(None);
    };
    let mut left = Left::default();
    for giver in &siblings {
        let Some(relay) = between(reader, job, giver)? else {
            continue;
        };
        let is_complete = relay.state == JobState::Complete;
        if !is_complete && !has_begun(reader, &relay)? {
            continue;
        }
        left.into = guessed(reader, job, &relay)?;
        left.has_begun = true;
        left.doubt |= !is_complete;
        if is_complete {
            let bytes = JobAmounts(reader).of(&relay.id)?.bytes;
            let text = format!(
                "The whole job is done. {} came from {}, by job {}, and were checked by the digests of the source.",
                human_size(bytes),
                words(giver),
                relay.id
            );
            left.from = Some(Reason::new(FailureCode::Relayed, clip(&text)));
        }
    }
    for (_, round) in rounds(reader, job)? {
        // One is enough: all of them have the same place.
        if has_begun(reader, &round)? {
            left.into = left.into.or(guessed(reader, job, &round)?);
            left.has_begun = true;
            // The relay of a complete copy has compared all contents.
            left.doubt |= left.from.is_none();
            break;
        }
    }
    Ok(Some(left))
}

/// Whether a relay assumed that the source goes into the destination of a job, unless the description of the job says so.
fn guessed(reader: &Reader, job: &Job, relay: &Job) -> Result<Option<bool>, JobsError> {
    let [one, other] = [&relay.destination, &job.destination].map(documents::parts);
    let guess = plain(&one?) != plain(&other?);
    let root = root(&Stored::of(reader, &job.id)?.new, None, guess);
    Ok(root.filter(|root| !root.is_known).map(|root| root.into))
}

/// Whether a relay may have written something.
pub(crate) fn has_begun(reader: &Reader, relay: &Job) -> Result<bool, JobsError> {
    let agreed = Agreed(reader);
    let placed = agreed.placed(&relay.id)?;
    let is_placed = placed.into.is_some() || !placed.tags.is_empty();
    Ok(is_placed || agreed.route(&relay.id)?.is_some())
}

/// A destination in texts. Its path is not among them: a viewer may see only one of the two places.
pub(crate) fn words(giver: &Job) -> String {
    format!(
        "the destination at {} (job {})",
        giver.destination.site, giver.id
    )
}

/// The place that holds the data set of a destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Root {
    pub(crate) place: Place,
    /// Whether the source went into the destination; otherwise it became the destination.
    pub(crate) into: bool,
    /// Whether this is certain. Otherwise no attempt has found out, and `into` is a guess.
    pub(crate) is_known: bool,
}

/// The root of a destination by its description, and `into` as its attempts found it. `guess` is used if no attempt did. None
/// where
/// the root cannot be named.
pub(crate) fn root(new: &NewJob, into: Option<bool>, guess: bool) -> Option<Root> {
    let (sources, destination) = spec::places(new).ok()?;
    let mut all = sources.iter().chain([&destination]);
    if all.any(Place::is_memory) {
        return None;
    }
    let itself = |into: bool, is_known: bool| Root {
        place: plain(&destination),
        into,
        is_known,
    };
    // A synchronisation makes the destination itself the counterpart of its source.
    if new.kind == JobKind::Sync {
        return Some(itself(false, true));
    }
    let source = match sources.as_slice() {
        [source] if !source.contents => source,
        // The names of several sources, and the contents of one, are below the destination.
        _ => return Some(itself(true, true)),
    };
    let known = into.or_else(|| destination.directory.then_some(true));
    if !known.unwrap_or(guess) {
        return Some(itself(false, known.is_some()));
    }
    let name = source.path.rsplit(|byte| *byte == b'/').next()?;
    if name.is_empty() {
        return None;
    }
    let mut place = plain(&destination);
    if !place.path.is_empty() {
        place.path.push(b'/');
    }
    place.path.extend_from_slice(name);
    Some(Root {
        place,
        into: true,
        is_known: known.is_some(),
    })
}

/// The same place, without a mark of how it is meant.
pub(crate) fn plain(place: &Place) -> Place {
    Place {
        directory: false,
        contents: false,
        ..place.clone()
    }
}

/// Settings after which a copy need not be the source, no manifest has its digests, or the source could not replace what a relay brought. A
/// job with one of them relays nothing.
pub(crate) const EXCLUDED: [&str; 9] = [
    "delete-before",
    "dry-run",
    "existing",
    "force",
    "ignore-existing",
    "manifest",
    "no-replace",
    "size-only",
    "update",
];

/// How long a relay and its checks outlive the loss of a connection, whatever the owner chose for the source: a relay has no second attempt. The
/// source can bring the data in any case.
pub(crate) const RETRY_FOR: &str = "30s";

/// Settings of a destination that hold for a relay to it, too: the metadata to keep, and how the data travels.
pub(crate) const CARRIED: [&str; 22] = [
    "acls",
    "archive",
    "block-size",
    "cipher",
    "congestion",
    "digest",
    "direct",
    "encryption",
    "group",
    "handshake-deadline",
    "memory",
    "no-sync",
    "numeric-ids",
    "owner",
    "priority",
    "readers",
    "specials",
    "stall-deadline",
    "streams",
    "verify",
    "writers",
    "xattrs",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn new(source: &str, destination: &str) -> NewJob {
        serde_json::from_value(serde_json::json!({
            "sources": [source], "destination": destination,
        }))
        .expect("a job")
    }

    fn root_of(source: &str, destination: &str, into: Option<bool>) -> Option<(String, bool)> {
        let root = root(&new(source, destination), into, false)?;
        Some((root.place.to_string(), root.is_known))
    }

    #[test]
    fn the_data_set_is_where_an_attempt_put_it() {
        let place = |text: &str, is_known| Some((text.to_owned(), is_known));
        for (destination, into, expected) in [
            ("b:/in", Some(true), place("b:/in/run", true)),
            ("b:/in", Some(false), place("b:/in", true)),
            ("b:/in", None, place("b:/in", false)),
            ("b:/in/", None, place("b:/in/run", true)),
            ("b:/in/deep", Some(true), place("b:/in/deep/run", true)),
        ] {
            assert_eq!(root_of("here:/data/run", destination, into), expected);
        }
        let contents = root_of("here:/data/run/.", "b:/in", None);
        assert_eq!(contents, place("b:/in", true));
        // The name of a whole export is not known here, and memory has none.
        assert_eq!(root_of("here:/data", "b:/in", Some(true)), None);
        assert_eq!(root_of("here:mem:1GiB", "b:/in", Some(true)), None);
    }

    #[test]
    fn a_synchronised_destination_is_the_data_set_itself() {
        let sync = NewJob {
            kind: JobKind::Sync,
            ..new("here:/data/run/", "b:/in/")
        };
        let root = root(&sync, None, true).expect("a root");
        assert_eq!(root.place.to_string(), "b:/in");
        assert!(root.is_known && !root.into, "{root:?}");
    }

    #[test]
    fn several_sources_are_below_their_destination() {
        let several = NewJob {
            sources: vec!["here:/data/a".to_owned(), "here:/data/b".to_owned()],
            ..new("here:/data/a", "b:/in")
        };
        let root = root(&several, None, false).expect("a root");
        assert_eq!(
            (root.place.to_string().as_str(), root.is_known),
            ("b:/in", true)
        );
    }
}
