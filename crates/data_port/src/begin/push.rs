//! Starts the receiving end of a push: a tree, or a sink that discards data. Knows only the place that `places` found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::grant::Right;
use godwit_api::job::Text;
use godwit_engine::Receiver;
use godwit_engine::governor::{Lease, Needs};
use godwit_engine::session::Engine;
use godwit_proto::{DigestKind, ErrorCode, Mapping};
use godwit_run::build::{self, Sinks};
use godwit_run::local::Access;
use godwit_store::digest;
use godwit_store::journal::Journal;
use godwit_tree::select::Select;
use godwit_tree::{DestinationPlace, DestinationRequest, Earlier, Keeper, PreparedDestination};

use super::apart::{Marked, marked};
use super::free::{prepare, report_damage};
use super::request_terms::{HolderRights, admit_member, kept_at, select_of};
use super::{Beginning, StartedEnd, journals, place_for};
use crate::admit::admit;
use crate::allow::{Denial, Who};
use crate::claims::{By, Entering, Spots};
use crate::places::{Target, TreeTarget, is_dry};
use crate::session::HeldResources;

impl<'a> Beginning<'a, '_> {
    /// Begins the receiving end of a push.
    pub(super) fn push(self) -> Result<StartedEnd<'a>, Denial> {
        let select = select_of(self.request)?;
        let who = Who::opens(self.peer, self.request);
        let target = self.shared.places.target(
            &who,
            &self.request.destination,
            self.request.destination_is_directory,
            Access::asked(self.request),
        )?;
        if is_dry(self.request) {
            let destination = &self.request.destination;
            self.shared.places.may_reveal(&who, destination)?;
        }
        match target {
            Target::Null => self.push_to_nothing(),
            Target::Tree(tree) => self.push_to_tree(&who, tree, select),
        }
    }

    fn push_to_nothing(self) -> Result<StartedEnd<'a>, Denial> {
        let held = HeldResources {
            journal: None,
            _slot: place_for(self.shared, self.peer, None)?,
        };
        let lease = self.admit_receiver()?;
        let receiver = self.receiver(self.request.digest_kind(), lease, Sinks::Nothing)?;
        Ok(StartedEnd {
            mapped: b"null:".to_vec(),
            ..self.started(Engine::Receiver(receiver), held)
        })
    }

    fn push_to_tree(
        self,
        who: &Who,
        tree: TreeTarget,
        select: Arc<Select>,
    ) -> Result<StartedEnd<'a>, Denial> {
        let (shared, request) = (self.shared, self.request);
        let digest = self.known_digest()?;
        let sender = shared.places.sender_name(self.peer);
        tree.place.storage.note_sender(&sender);
        let TreeTarget {
            place,
            gives_owners,
            fence,
        } = tree;
        // Only a job, which has a label, can be taken over by another node.
        let fence = fence.filter(|_| !request.label.is_empty());
        let (lease, member) = admit_member(shared, self.peer, request, &place)?.unzip();
        let asked = DestinationRequest {
            select,
            digest,
            member,
            fence: fence.clone(),
            ..self.destination(place)
        };
        let key = asked.key().0;
        let is_kept = !is_dry(request);
        let counted = place_for(shared, self.peer, is_kept.then_some(&key))?;
        let admitted = self.admit_receiver()?;
        let mut prepared = prepare(
            shared,
            (who, &request.label),
            &key,
            &request.destination,
            &asked,
        )?;
        let may_list = shared.places.may_reveal(who, &request.destination);
        prepared.config.hides_names = request.may_not_list || may_list.is_err();
        let may_read = shared
            .places
            .may_also(who, &request.destination, Right::Read);
        prepared.config.hides_contents = request.may_not_read || may_read.is_err();
        prepared.config.keeper = Arc::new(Keeper::new(kept_at(gives_owners, request)));
        let (resumed, arrived) = (prepared.recovered.resumed, prepared.arrived());
        report_damage(shared, self.peer, &mut prepared);
        let Marked {
            prepared,
            beacon,
            unproved,
        } = marked(shared, self.peer, request, prepared)?;
        let writes_to = Spots::look(&prepared.destinations);
        let (prepared, entering) = self.beside_claims(prepared, &writes_to, lease.is_some())?;
        let mapped = prepared.mapped.clone();
        let placed = (Mapping::of(prepared.into), prepared.config.tag);
        let digest = godwit_engine::wire_digest_kind(prepared.config.digest);
        if digest != request.digest_kind() && !request.any_digest {
            return Err(Denial::new(
                ErrorCode::DESTINATION,
                "the unfinished transfer to this destination used a different --digest; resume it with that digest",
            ));
        }
        let held = HeldResources {
            journal: prepared.journal.as_ref().map(Journal::hold),
            _slot: counted,
        };
        // A dry run reserves nothing.
        let key = held.journal.is_some().then_some(key);
        let receiver = self.receiver(digest, admitted, Sinks::Tree(Box::new(prepared)))?;
        Ok(StartedEnd {
            entering,
            key,
            resumed,
            arrived,
            mapped,
            placed: Some(placed),
            beacon,
            unproved,
            writes_to,
            fence: fence.filter(|_| lease.is_none()),
            lease,
            digest,
            ..self.started(Engine::Receiver(receiver), held)
        })
    }

    /// The destination that the client requests.
    fn destination(&self, place: DestinationPlace) -> DestinationRequest {
        let (shared, request) = (self.shared, self.request);
        let counted_as = match shared.only {
            Some(_) => None,
            None => shared.places.counted_as(self.peer).into_iter().min(),
        };
        let earlier = request.earlier.as_ref();
        let tags = earlier.map_or_else(Vec::new, |earlier| earlier.tags.clone());
        let age = earlier.and_then(|earlier| earlier.age_ms);
        DestinationRequest {
            force: request.force,
            verify: request.verify,
            no_sync: request.no_sync,
            comparison: request.comparison,
            earlier: Earlier {
                into: request.earlier_into(),
                tags,
                age: age.map(Duration::from_millis),
            },
            node: shared.own.to_string().into_bytes(),
            counted_as: counted_as.map(|giver| giver.to_string().into_bytes()),
            ..DestinationRequest::new(
                place,
                shared.places.sender_name(self.peer),
                request.sources.clone(),
                request.names.clone(),
                journals(shared),
            )
        }
    }

    fn known_digest(&self) -> Result<digest::DigestKind, Denial> {
        godwit_engine::digest_kind(self.request.digest_kind()).ok_or_else(|| {
            Denial::new(
                ErrorCode::NOT_SUPPORTED,
                "this daemon does not know the requested digest",
            )
        })
    }

    /// Refuses claims on the destination of a transfer that is not a member. If a claim covers the destination, its
    /// preparation is undone.
    fn beside_claims(
        &self,
        prepared: PreparedDestination,
        writes_to: &Spots,
        is_member: bool,
    ) -> Result<(PreparedDestination, Option<Entering<'a>>), Denial> {
        if is_member {
            return Ok((prepared, None));
        }
        let shared = self.shared;
        let rights = HolderRights::new(shared);
        let may_hold = |by: &By, asked: &Text| rights.may_write(by, asked);
        let claims = &shared.config.claims;
        let entering = claims.enter_alone();
        let asked = &self.request.destination;
        match claims.refuses(writes_to, asked, Instant::now(), &may_hold) {
            None => Ok((prepared, Some(entering))),
            Some(no) => {
                drop(entering);
                // The failure of the transfer itself is the more useful report.
                let _ = prepared.put_away();
                Err(no)
            }
        }
    }

    fn admit_receiver(&self) -> Result<Lease, Denial> {
        let shared = self.shared;
        let writers = shared.config.writers.most;
        let needs = Needs::of_receiver(self.block_bytes, shared.streams_max, writers);
        admit(shared, self.peer, needs, self.request)
    }

    fn receiver(
        &self,
        digest: DigestKind,
        lease: Lease,
        sinks: Sinks,
    ) -> Result<Arc<Receiver>, Denial> {
        build::receiver(self.end(digest, lease), self.shared.config.writers, sinks)
            .map_err(|error| Denial::new(ErrorCode::INTERNAL, error.to_string()))
    }
}
