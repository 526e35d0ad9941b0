//! Owns the rights that a running transfer needs, and checks whether they are still valid. Does not read grants or end transfers
//! (`keeper`).
//!
//! A transfer with many sources needs only the areas of the grants that cover its sources. A check costs as much as these areas, and
//! nothing if no grant of the peer has changed. If an area is gone, the areas are computed again, because narrower grants may also cover
//! the sources.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use godwit_api::grant::{Area, Right};
use godwit_proto::{Direction, ErrorCode, Open};
use godwit_store::RelPath;

use crate::allow::{AllGrants, Denial, Granted, Grantor, Who, find};
use crate::export::{Export, ExportPath};
use crate::places::is_dry;
use crate::session::locked;

/// Places of sources that are needed one by one; if there are more, areas of grants are used instead.
const APART_MAX: usize = 64;

/// Most needs of one transfer.
const NEEDS_MAX: usize = 1_024;

/// The rights that a running transfer needs, and the peer that needs them.
#[derive(Debug)]
pub(crate) struct Leave {
    pub(crate) who: Who,
    /// All sources of a request with more than [`APART_MAX`] of them.
    many: Vec<Vec<u8>>,
    held: Mutex<Held>,
}

/// The current needs of a transfer.
#[derive(Debug, Default)]
struct Held {
    needs: HashSet<Need>,
    /// The grants that satisfied all needs at the latest check.
    by: Option<Arc<Granted>>,
}

/// An export and a path below it; `None` stands for a place outside all exports.
type NeededPlace = Option<(String, RelPath)>;

/// A right: to read below a place, to write there, or to learn the names of entries there.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Need {
    place: NeededPlace,
    right: Right,
}

/// A check of the rights of many peers: all grants are read once, and the grants of each peer are selected once.
#[derive(Default)]
pub(crate) struct Round {
    all: OnceCell<Option<AllGrants>>,
    found: RefCell<HashMap<Who, Option<Arc<Granted>>>>,
}

impl Round {
    /// The rights of a peer; `None` while grants cannot be read.
    pub(crate) fn granted(&self, grantor: &Grantor<'_>, who: &Who) -> Option<Arc<Granted>> {
        let all = self.all.get_or_init(|| grantor.all().ok()).as_ref()?;
        let mut found = self.found.borrow_mut();
        if let Some(known) = found.get(who) {
            return known.clone();
        }
        let granted = grantor.granted_of(all, who).ok().map(Arc::new);
        found.insert(who.clone(), granted.clone());
        granted
    }
}

impl Leave {
    /// The rights of a transfer that needs none.
    pub(crate) fn unbound(who: Who) -> Self {
        Self {
            who,
            many: Vec::new(),
            held: Mutex::default(),
        }
    }

    /// The rights that a request needs while its transfer runs.
    ///
    /// # Errors
    /// It needs more rights than a transfer may.
    pub(crate) fn asked(
        exports: &[Export],
        grantor: &Grantor<'_>,
        who: Who,
        request: &Open,
    ) -> Result<Self, Denial> {
        let (right, paths) = asked_paths(request);
        // No transfer begins while grants cannot be read; an earlier check has read them.
        let granted = grantor.granted(&who).ok();
        let granted = granted.as_ref();
        let mut needs = needs_of(exports, granted, right, paths)?;
        if let (Right::Write, [path]) = (right, paths)
            && let Some(place) = place_of(exports, path)
        {
            let seen = granted.map_or_else(Vec::new, |granted| seen(granted, request, &place));
            needs.extend(seen.into_iter().map(|right| Need {
                place: Some(place.clone()),
                right,
            }));
        }
        // Such a verification syncs the file system of its copy, the first source.
        if let (true, Some(path)) = (is_durable(request), paths.first()) {
            let copy = std::slice::from_ref(path);
            needs.extend(needs_of(exports, granted, Right::Write, copy)?);
        }
        Ok(Self {
            who,
            many: match paths.len() > APART_MAX && !is_durable(request) {
                true => paths.to_vec(),
                false => Vec::new(),
            },
            held: Mutex::new(Held { needs, by: None }),
        })
    }

    /// The reason why these rights are no longer valid, if so. While grants cannot be read, no transfer begins, but running ones continue.
    pub(crate) fn taken_back(
        &self,
        exports: &[Export],
        grantor: &Grantor<'_>,
        round: &Round,
    ) -> Option<Denial> {
        let mut held = locked(&self.held);
        if held.needs.is_empty() {
            return None;
        }
        let granted = round.granted(grantor, &self.who)?;
        if held.by.as_ref().is_some_and(|last| last.says(&granted)) {
            return None;
        }
        let mut no = first_refused(&granted, &held.needs);
        if no.is_some() && !self.many.is_empty() {
            let formed = needs_of(exports, Some(&granted), Right::Read, &self.many);
            no = match formed {
                Ok(needs) => {
                    let no = first_refused(&granted, &needs);
                    if no.is_none() {
                        held.needs = needs;
                    }
                    no
                }
                Err(too_many) => Some(too_many),
            };
        }
        held.by = no.is_none().then_some(granted);
        no.map(|no| Denial {
            message: format!("this access was revoked or has expired: {}", no.message),
            ..no
        })
    }
}

fn place_of(exports: &[Export], path: &[u8]) -> Option<(String, RelPath)> {
    match find(exports, path) {
        Ok(ExportPath::Below(export, below)) => Some((export.name.clone(), below)),
        _ => None,
    }
}

/// The needs for these paths; for many paths, the widest areas of grants that cover them.
fn needs_of(
    exports: &[Export],
    granted: Option<&Granted>,
    right: Right,
    paths: &[Vec<u8>],
) -> Result<HashSet<Need>, Denial> {
    let areas = match paths.len() > APART_MAX {
        true => granted.map_or_else(Vec::new, |granted| granted.areas(exports, right)),
        false => Vec::new(),
    };
    let mut needs = HashSet::new();
    for path in paths {
        let place = place_of(exports, path).map(|place| widest(&areas, place));
        needs.insert(Need { place, right });
        if needs.len() > NEEDS_MAX {
            return Err(Denial::new(
                ErrorCode::LIMIT,
                format!(
                    "these sources need more than {NEEDS_MAX} rights, the limit for one transfer; name common directories, or fewer sources"
                ),
            ));
        }
    }
    Ok(needs)
}

/// The denial of the first need that is not granted.
fn first_refused(granted: &Granted, needs: &HashSet<Need>) -> Option<Denial> {
    needs.iter().find_map(|need| {
        let place = need.place.as_ref();
        let place = place.map(|(export, below)| (export.as_str(), below.as_bytes()));
        match need.right {
            Right::List => granted.may_report(place).err(),
            right => granted.allowed(place, right).err(),
        }
    })
}

/// The right that a request needs, and the paths where it needs it.
pub(crate) fn asked_paths(request: &Open) -> (Right, &[Vec<u8>]) {
    match request.direction() {
        Direction::PUSH => (Right::Write, std::slice::from_ref(&request.destination)),
        _ => (Right::Read, request.sources.as_slice()),
    }
}

/// Whether the request is for a verification that makes its copy durable.
fn is_durable(request: &Open) -> bool {
    let asked = request.verification.as_ref();
    request.direction() == Direction::VERIFY && asked.is_some_and(|asked| asked.durable)
}

/// The peer's rights to see entries at a destination. A push uses these rights, so it ends when they end. A dry run has no other purpose.
fn seen(granted: &Granted, request: &Open, (export, below): &(String, RelPath)) -> Vec<Right> {
    let at = Some((export.as_str(), below.as_bytes()));
    let has = |right: &Right| match right {
        Right::List => is_dry(request) || !request.may_not_list && granted.may_report(at).is_ok(),
        right => !request.may_not_read && granted.allowed(at, *right).is_ok(),
    };
    [Right::List, Right::Read].into_iter().filter(has).collect()
}

/// The first of these areas that covers the place, otherwise the place itself.
fn widest(areas: &[Area], (export, below): (String, RelPath)) -> (String, RelPath) {
    let covers = |area: &&Area| area.covers(&export, below.as_bytes());
    let root = match areas.iter().find(covers) {
        Some(Area::Export { path, .. }) => RelPath::parse(path.as_bytes()).ok(),
        _ => None,
    };
    (export, root.unwrap_or(below))
}

#[cfg(test)]
mod tests;
