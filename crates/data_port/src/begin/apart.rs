//! Refuses a transfer whose ends meet, as far as this node can tell.
//! Finds no places; `run::itself` compares them.

use godwit_proto::{Beacon, ErrorCode, Open};
use godwit_run::itself::{self, Judged, Look};
use godwit_tree::{PreparedDestination, TreeRoot};

use crate::Shared;
use crate::allow::Denial;

/// The destination of a push that its source does not meet, as far as this node can tell.
pub(super) struct Marked {
    pub(super) prepared: PreparedDestination,
    /// The mark that the source looks for.
    pub(super) beacon: Option<Beacon>,
    /// It deletes, and no beacon could be made.
    pub(super) unproved: bool,
}

/// Writes the beacon at the destination of a push if the source must look for this file. A destination that meets its source is put away again.
pub(super) fn marked(
    shared: &Shared,
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
            shared.log(&error.to_string());
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
    /// Its real path.
    pub(super) real: Vec<u8>,
    /// The name in messages.
    pub(super) shown: Vec<u8>,
    /// Its name where it goes into a directory.
    pub(super) name: Vec<u8>,
}

/// Refuses a pull whose sources meet their destination, and asks for a beacon if the client has kept one back. `goes_to` has the paths at
/// the client.
pub(super) fn keep_apart(
    shared: &Shared,
    request: &Open,
    sought: &[Sought],
    goes_to: &[Vec<u8>],
) -> Result<(), Denial> {
    let real: Vec<Vec<u8>> = sought.iter().map(|source| source.real.clone()).collect();
    match itself::judge_pull(request, &real, goes_to) {
        Judged::Meet(why) => return Err(meets(shared, why)),
        // This machine may see its destination by another file system.
        Judged::ApartHere { .. } if request.beacon.is_none() && request.keeps_beacon() => {
            return Err(Denial::new(ErrorCode::BEACON, itself::WANTS_BEACON));
        }
        // Its destination takes no beacon.
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

/// The ends of a transfer meet. A peer does not learn where an export lies: a peer that claims to see the same files could ask this node
/// for that path.
fn meets(shared: &Shared, why: String) -> Denial {
    let why = match shared.only {
        None => itself::without_paths(&why).to_owned(),
        Some(_) => why,
    };
    Denial::new(ErrorCode::INTO_ITSELF, why)
}
