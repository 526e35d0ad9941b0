//! Refuses a transfer whose source and destination overlap, if this node can detect that. Does not search places; `run::itself` compares
//! them.

use godwit_net::IdentityId;
use godwit_proto::{Beacon, ErrorCode, Open};
use godwit_run::itself::{self, Judged, Look};
use godwit_tree::{PreparedDestination, TreeRoot};

use crate::Shared;
use crate::allow::Denial;

/// The destination of a push that does not overlap its source, as far as this node knows.
pub(super) struct Marked {
    pub(super) prepared: PreparedDestination,
    /// The mark that the source searches for.
    pub(super) beacon: Option<Beacon>,
    /// The transfer deletes, but no beacon could be made.
    pub(super) unproved: bool,
}

/// Makes the beacon at the destination of a push, if the source must search for it. If the destination overlaps its source, its preparation
/// is undone.
pub(super) fn marked(
    shared: &Shared,
    peer: IdentityId,
    request: &Open,
    mut prepared: PreparedDestination,
) -> Result<Marked, Denial> {
    let (why, beacon, looks) = match itself::judge_push(request, &prepared.destinations) {
        Judged::Apart => (None, None, false),
        Judged::ApartHere { alike } => match itself::light(&mut prepared, shared.only.is_none()) {
            Some(beacon) => (None, Some(beacon), true),
            None => (alike, None, true),
        },
        Judged::Meet(why) => (Some(why), None, false),
    };
    if let Some(why) = why {
        if let Err(error) = prepared.put_away() {
            shared.operator.log_peer(peer, &error.to_string());
        }
        return Err(meets(shared, why));
    }
    Ok(Marked {
        unproved: looks && beacon.is_none() && request.deletes(),
        prepared,
        beacon,
    })
}

/// A source of a pull.
pub(super) struct Sought {
    pub(super) root: TreeRoot,
    /// The real path of the source.
    pub(super) real: Vec<u8>,
    /// The name in messages.
    pub(super) shown: Vec<u8>,
    /// Name of the source in a destination directory.
    pub(super) name: Vec<u8>,
}

/// Refuses a pull whose sources overlap its destination, and requests a beacon if the client has not made one yet. `goes_to` contains the
/// paths at the client.
pub(super) fn keep_apart(
    shared: &Shared,
    request: &Open,
    sought: &[Sought],
    goes_to: &[Vec<u8>],
) -> Result<(), Denial> {
    let real: Vec<Vec<u8>> = sought.iter().map(|source| source.real.clone()).collect();
    match itself::judge_pull(request, &real, goes_to) {
        Judged::Meet(why) => return Err(meets(shared, why)),
        // This machine may see the destination through another file system.
        Judged::ApartHere { .. } if request.beacon.is_none() && request.keeps_beacon() => {
            return Err(Denial::new(ErrorCode::BEACON, itself::WANTS_BEACON));
        }
        // No beacon can be made at the destination.
        Judged::ApartHere { alike: Some(why) } if request.beacon.is_none() => {
            return Err(meets(shared, why));
        }
        Judged::ApartHere { .. } | Judged::Apart => {}
    }
    let Some(look) = Look::asked(request, shared.only.is_none()) else {
        return Ok(());
    };
    let sought = sought.iter().map(|source| itself::Sought {
        root: &source.root,
        real: &source.real,
        absolute: &source.shown,
        name: &source.name,
    });
    let sought: Vec<itself::Sought<'_>> = sought.collect();
    match look.reason(&sought) {
        Some(why) => Err(Denial::new(ErrorCode::INTO_ITSELF, why)),
        None => Ok(()),
    }
}

/// The denial of a transfer whose ends overlap. A peer does not learn the path of an export; otherwise a peer that claims to see the same
/// files could ask for it.
fn meets(shared: &Shared, why: String) -> Denial {
    let why = match shared.only {
        None => itself::without_paths(&why).to_owned(),
        Some(_) => why,
    };
    Denial::new(ErrorCode::INTO_ITSELF, why)
}
