//! Translates a request into the terms of the tree and the engine, and decides whether a member is admitted. Does not open
//! places.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use godwit_api::grant::Right;
use godwit_api::grant::lasting::Look;
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use godwit_engine::{NetworkUse, Order};
use godwit_net::IdentityId;
use godwit_proto::{ErrorCode, Open, Preserve};
use godwit_tree::select::Select;
use godwit_tree::{DestinationPlace, Membership};

use crate::Shared;
use crate::allow::{Denial, find};
use crate::ask::is_member;
use crate::claims::{By, MemberLease};
use crate::export::ExportPath;
use crate::leave::Round;

/// Admits a member by the claim that it names; `None` for a transfer that is no member.
pub(super) fn admit_member(
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
    let rights = HolderRights::new(shared);
    let may_hold = |by: &By, asked: &Text| rights.may_write(by, asked);
    let (hold, membership) = claims.enter(member, peer, &base, Instant::now(), &may_hold)?;
    let node = shared.own.to_string().into_bytes();
    Ok(Some((hold, Membership { node, ..membership })))
}

/// One check of the rights of claim holders to write at their places.
pub(crate) struct HolderRights<'a> {
    shared: &'a Shared,
    round: Round,
    members: RefCell<HashMap<IdentityId, Look<()>>>,
}

impl<'a> HolderRights<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            round: Round::default(),
            members: RefCell::default(),
        }
    }

    /// Whether the holder of a claim may write at the claimed place. No holder may write at a place that no longer exists.
    pub(crate) fn may_write(&self, by: &By, asked: &Text) -> Look<()> {
        let who = match by {
            By::Here => return Look::Holds,
            By::Member(peer) => return self.is_member(*peer),
            By::Peer(who) => who,
        };
        let Ok(ExportPath::Below(export, path)) = find(&self.shared.config.exports, &asked.0)
        else {
            return Look::Gone(());
        };
        let Some(granted) = self.shared.places.granted_in(&self.round, who) else {
            return Look::Unread(());
        };
        let wished = (export.name.as_str(), &path);
        match granted.allowed_at(Timestamp(0), wished, Right::Write) {
            Ok(()) => Look::Holds,
            Err(_) => Look::Gone(()),
        }
    }

    /// The nodes of a cluster act for the same users, and the claiming node has checked their rights.
    fn is_member(&self, peer: IdentityId) -> Look<()> {
        let mut members = self.members.borrow_mut();
        let found = members
            .entry(peer)
            .or_insert_with(|| match is_member(self.shared, peer) {
                Ok(true) => Look::Holds,
                Ok(false) => Look::Gone(()),
                Err(_) => Look::Unread(()),
            });
        found.clone()
    }
}

/// Attributes to keep at a place: those that the client requests, and unmapped owners if the place always applies them.
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

/// The requested behaviour of the transfer towards others.
pub(super) fn network_use_of(request: &Open) -> NetworkUse {
    let sharing = request.sharing.clone().unwrap_or_default();
    NetworkUse {
        congestion: sharing.congestion,
        background: sharing.background,
    }
}

/// The order in which contents are sent.
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
