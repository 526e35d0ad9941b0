//! Translates a request into the terms of the tree and the engine, and decides whether a member may come in.
//! Opens no place.

use std::sync::Arc;
use std::time::Instant;

use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use godwit_engine::{Order, Share};
use godwit_net::IdentityId;
use godwit_proto::{ErrorCode, Open, Preserve};
use godwit_tree::select::Select;
use godwit_tree::{DestinationPlace, Membership};

use crate::Shared;
use crate::allow::{Denial, find};
use crate::ask::is_member;
use crate::claims::{By, MemberLease};
use crate::export::ExportPath;

/// Lets a member in, by the claim that it names; `None` for a transfer that is no member.
pub(super) fn entered(
    shared: &Shared,
    peer: IdentityId,
    request: &Open,
    place: &DestinationPlace,
) -> Result<Option<(Arc<MemberLease>, Membership)>, Denial> {
    let Some(member) = &request.member else {
        return Ok(None);
    };
    let mut base = place.storage_path.clone();
    if !place.base.is_root() {
        base.push(b'/');
        base.extend_from_slice(place.base.as_bytes());
    }
    let claims = &shared.config.claims;
    let (hold, membership) = claims.enter(member, peer, &base, Instant::now())?;
    let node = shared.own.to_string().into_bytes();
    Ok(Some((hold, Membership { node, ..membership })))
}

/// Whether the holder of a claim may write at the claimed place. No holder may write at a place that does not exist any more. The nodes of
/// a cluster act for the same users, and the claiming node has checked their rights.
pub(crate) fn may_write(shared: &Shared, by: &By, asked: &Text) -> bool {
    let who = match by {
        By::Here => return true,
        By::Member(peer) => return is_member(shared, *peer),
        By::Peer(who) => who,
    };
    match find(&shared.config.exports, &asked.0) {
        Ok(ExportPath::Below(export, path)) => {
            let granted = shared.places.granted(who);
            let wished = (export.name.as_str(), &path);
            granted.is_ok_and(|granted| {
                let may = granted.allowed_at(Timestamp(0), wished, Right::Write);
                may.is_ok()
            })
        }
        _ => false,
    }
}

/// Attributes to keep at a place: those that the client asks for, and unmapped owners if the place gives them unasked.
pub(super) fn kept_at(gives_owners: bool, request: &Open) -> Preserve {
    let asked = request.preserve.unwrap_or_default();
    if asked.owner || asked.group || !gives_owners {
        return asked;
    }
    Preserve {
        owner: true,
        group: true,
        numeric_ids: true,
        ..asked
    }
}

/// How the transfer is to behave towards others.
pub(super) fn share_of(request: &Open) -> Share {
    let sharing = request.sharing.clone().unwrap_or_default();
    Share {
        congestion: sharing.congestion,
        background: sharing.background,
    }
}

/// In which order contents leave.
pub(super) const fn order_of(request: &Open) -> Order {
    match request.random_order {
        true => Order::Random,
        false => Order::Source,
    }
}

/// The client's selection; an error in its patterns is the client's fault.
pub(super) fn select_of(request: &Open) -> Result<Arc<Select>, Denial> {
    Select::of(request.selection.as_ref())
        .map_err(|error| Denial::new(ErrorCode::PROTOCOL, error.to_string()))
}
