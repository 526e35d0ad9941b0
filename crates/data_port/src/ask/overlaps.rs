//! Compares places of this node's exports for an asker that may write to all of them: which are one directory, or lie in one another.
//! Tells no device, inode or path of this machine.

use godwit_api::ask::{OVERLAPS_MAX, PlaceOverlap, Refusal, code};
use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_run::itself::{Located, Overlap};

use super::here::{Here, May};
use crate::claims::check as check_place;

/// Each pair of these places that overlaps. A place that this node cannot use now is compared with no other one: another node of the site
/// may serve it.
pub(super) fn overlaps(
    here: &Here,
    paths: &[Text],
    may: &May<'_>,
) -> Result<Vec<PlaceOverlap>, Refusal> {
    if paths.len() > OVERLAPS_MAX {
        let message = format!("paths: at most {OVERLAPS_MAX} places are compared");
        return Err(Refusal::new(code::INVALID, message));
    }
    let mut known: Vec<(usize, Located)> = Vec::new();
    let mut overlaps = Vec::new();
    for (other, path) in paths.iter().enumerate() {
        let Some(place) = located(here, path, may)? else {
            continue;
        };
        for (one, before) in &known {
            if let Some(overlap) = before.overlap(&place) {
                overlaps.push(PlaceOverlap {
                    one: *one,
                    other,
                    same: overlap == Overlap::Same,
                });
            }
        }
        known.push((other, place));
    }
    Ok(overlaps)
}

/// The directory of a place, which need not exist; `None` if this node cannot use it now.
fn located(here: &Here, path: &Text, may: &May<'_>) -> Result<Option<Located>, Refusal> {
    let found = match here.find(path, Right::Write, may) {
        Ok(found) => found,
        Err(refusal) if refusal.code.is_one_of(&[code::NO_SUCH_EXPORT, code::IO]) => {
            return Ok(None);
        }
        Err(refusal) => return Err(refusal),
    };
    check_place(found.path.as_bytes())
        .map_err(|error| Refusal::new(code::INVALID, error.to_string()))?;
    // A link that leads out of the export is not followed, so the asker learns nothing of what is there.
    let is_within = found.storage.stat(&found.path).is_ok();
    Ok(is_within.then(|| Located::at(found.absolute())))
}
