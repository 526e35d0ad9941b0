//! Decides the rights of a peer by the current grants, and makes the messages of refusals. Does not store grants: the file is read each
//! time, and the node's state contains the access rules.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use godwit_api::endpoint::NodePlace;
use godwit_api::grant::{
    Area, AskerRights, Grant, Mandate, Requester, Right, Subject, Wish, allows,
};
use godwit_api::rest::Timestamp;
use godwit_net::IdentityId;
use godwit_proto::{ErrorCode, Open};
use godwit_store::RelPath;

use crate::export::{Export, ExportError, ExportPath, locate};
use crate::grants::Grants;
use crate::news::now;

/// The access rules of a node's state. They are queried often, so both methods must be cheap.
pub trait StateRules: Send + Sync {
    /// The current rules.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String>;

    /// For an asker of this site, whether the job of the mandate is alive and `peer` may act for the job; `None` for an asker of another
    /// site.
    ///
    /// # Errors
    /// The reason why the state cannot be read.
    fn own_job(&self, peer: &str, mandate: &Mandate) -> Result<Option<bool>, String>;

    /// Whether the node has not heard from its cluster for so long that rules may have been revoked meanwhile.
    fn is_outdated(&self) -> bool {
        false
    }
}

/// Rules of a node without jobs.
impl<F> StateRules for F
where
    F: Fn() -> Result<Arc<Vec<Grant>>, String> + Send + Sync,
{
    fn grants(&self) -> Result<Arc<Vec<Grant>>, String> {
        self()
    }

    fn own_job(&self, _: &str, _: &Mandate) -> Result<Option<bool>, String> {
        Ok(None)
    }
}

/// The peer of a connection, and the guest job that its request names.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Who {
    pub(crate) peer: IdentityId,
    pub(crate) mandate: Option<Mandate>,
}

impl Who {
    /// A peer that acts for itself.
    pub(crate) const fn itself(peer: IdentityId) -> Self {
        Self {
            peer,
            mandate: None,
        }
    }

    /// The peer that opens a transfer.
    pub(crate) fn opens(peer: IdentityId, request: &Open) -> Self {
        let mandate = request.mandate.as_ref().map(|named| Mandate {
            asker: named.asker.clone(),
            job: named.job.clone(),
        });
        Self { peer, mandate }
    }
}

/// The reason of a refusal, with its code.
pub(crate) struct Denial {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) retryable: bool,
    /// Decided without any right of the peer, which may be a stranger. Strangers also get [`ErrorCode::AUTH`].
    pub(crate) is_unproven: bool,
}

impl Denial {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: false,
            is_unproven: false,
        }
    }

    /// The same, to a peer that no right admitted before.
    pub(crate) fn unproven(self) -> Self {
        Self {
            is_unproven: true,
            ..self
        }
    }

    pub(crate) fn is_of_stranger(&self) -> bool {
        self.is_unproven || self.code == ErrorCode::AUTH
    }
}

/// The command that grants access.
const ALLOW: &str = "godwit access allow";

/// Reads the two sources of grants: the file in the home directory, and the state's rules.
pub(crate) struct Grantor<'a> {
    pub(crate) home: &'a Path,
    pub(crate) rules: &'a dyn StateRules,
}

/// All grants at one moment, from the file and from the state.
pub(crate) struct AllGrants {
    file: Vec<Grant>,
    rules: Arc<Vec<Grant>>,
}

/// The rights of a peer at one moment.
#[derive(Debug)]
pub(crate) struct Granted {
    requester: Requester,
    rights: AskerRights,
    now: Timestamp,
    /// Grants of the peer in its role, and of the asker of the job that it names.
    grants: Vec<Grant>,
    /// Whether some grant admits the peer, for itself or for a job.
    is_known: bool,
    /// The rules of the state are left out, because they may be outdated.
    is_without_state: bool,
}

impl Grantor<'_> {
    /// All current grants.
    pub(crate) fn all(&self) -> Result<AllGrants, Denial> {
        let file = Grants::new(self.home).list();
        Ok(AllGrants {
            file: file.map_err(|_error| unreadable())?,
            rules: self.rules.grants().map_err(|_error| unreadable())?,
        })
    }

    /// The current rights of `who`. Rules that may have been revoked since admit no request.
    pub(crate) fn granted(&self, who: &Who) -> Result<Granted, Denial> {
        let mut all = self.all()?;
        let is_without_state = self.rules.is_outdated();
        if is_without_state {
            all.rules = Arc::default();
        }
        let granted = self.granted_of(&all, who)?;
        Ok(Granted {
            is_without_state,
            ..granted
        })
    }

    /// The current rights of `who`, from grants that were just read.
    pub(crate) fn granted_of(&self, all: &AllGrants, who: &Who) -> Result<Granted, Denial> {
        let peer = Subject::Identity(who.peer.to_string());
        let now = now();
        let AllGrants { file, rules } = all;
        // Rules about other sites are for users of this node, not for peers.
        let holds =
            |grant: &&Grant| grant.site.is_none() && grant.holds(now) && !grant.rights.is_empty();
        let all = || file.iter().chain(rules.iter()).filter(holds);
        let of_peer = |grant: &&Grant| grant.subject == peer;
        // The askers for whose jobs the peer has access, and the asker named in the request.
        let mut askers: HashSet<&str> = all()
            .filter(of_peer)
            .filter_map(|grant| grant.mandate.as_ref())
            .map(|mandate| mandate.asker.as_str())
            .collect();
        askers.extend(who.mandate.as_ref().map(|mandate| mandate.asker.as_str()));
        let of_asker = |grant: &&Grant| match &grant.subject {
            Subject::Identity(identity) => askers.contains(identity.as_str()),
            Subject::User(_) => false,
        };
        let mut grants: Vec<Grant> = all()
            .filter(|grant| of_peer(grant) || of_asker(grant))
            .cloned()
            .collect();
        let general = || grants.iter().filter(|grant| grant.mandate.is_none());
        let mut judged: HashMap<&Mandate, AskerRights> = HashMap::new();
        let mut is_known = false;
        for grant in grants.iter().filter(of_peer) {
            let Some(mandate) = &grant.mandate else {
                is_known = true;
                break;
            };
            let rights = match judged.get(mandate) {
                Some(rights) => *rights,
                None => {
                    // While the state cannot be read, access for jobs admits no peer.
                    let rights = self
                        .rights_of(who.peer, mandate)
                        .unwrap_or(AskerRights::EndedJob);
                    judged.insert(mandate, rights);
                    rights
                }
            };
            is_known = match rights {
                AskerRights::OwnJob => true,
                AskerRights::EndedJob => false,
                AskerRights::Granted => asker_holds(grant, mandate, general(), now),
            };
            if is_known {
                break;
            }
        }
        let rights = match &who.mandate {
            Some(mandate) => self.rights_of(who.peer, mandate)?,
            None => AskerRights::Granted,
        };
        // The other grants were needed only to decide whether the peer is known. Later checks read the grants that remain.
        grants.retain(|grant| match (&who.mandate, &grant.mandate) {
            (None, None) => of_peer(&grant),
            (Some(named), Some(of)) => named == of && of_peer(&grant),
            (Some(named), None) => grant.subject == Subject::Identity(named.asker.clone()),
            (None, Some(_)) => false,
        });
        Ok(Granted {
            rights,
            requester: Requester {
                peer,
                mandate: who.mandate.clone(),
            },
            now,
            grants,
            is_known,
            is_without_state: false,
        })
    }

    /// The identities under which the bounds for one identity count this peer. This is the peer itself if any grant is for the peer.
    /// Otherwise it is the askers that admit the peer for jobs. Therefore no asker can use the bounds of all identities that it names, and
    /// none uses the share of another asker's identities. Peers with access for jobs of this site count as themselves.
    pub(crate) fn givers(&self, peer: IdentityId) -> Vec<IdentityId> {
        let (Ok(file), Ok(rules)) = (Grants::new(self.home).list(), self.rules.grants()) else {
            return vec![peer];
        };
        let (subject, now) = (Subject::Identity(peer.to_string()), now());
        let of_peer = || {
            let all = file.iter().chain(rules.iter());
            all.filter(|grant| grant.subject == subject && grant.site.is_none() && grant.holds(now))
        };
        if of_peer().any(|grant| grant.mandate.is_none()) {
            return vec![peer];
        }
        // The site of an asker is checked once for all of its jobs, because there may be thousands.
        let mandates = of_peer().filter_map(|grant| grant.mandate.as_ref());
        let askers: HashMap<&str, &Mandate> = mandates
            .map(|mandate| (mandate.asker.as_str(), mandate))
            .collect();
        let name = peer.to_string();
        let is_of_others = |it: &Mandate| !matches!(self.rules.own_job(&name, it), Ok(Some(_)));
        let (others, own): (Vec<&Mandate>, Vec<&Mandate>) =
            askers.into_values().partition(|it| is_of_others(it));
        let mut givers: Vec<IdentityId> = others
            .iter()
            .filter_map(|it| it.asker.parse().ok())
            .collect();
        if givers.is_empty() || !own.is_empty() {
            givers.push(peer);
        }
        givers
    }

    fn rights_of(&self, peer: IdentityId, mandate: &Mandate) -> Result<AskerRights, Denial> {
        let own = self.rules.own_job(&peer.to_string(), mandate);
        Ok(match own.map_err(|_error| unreadable())? {
            None => AskerRights::Granted,
            Some(true) => AskerRights::OwnJob,
            Some(false) => AskerRights::EndedJob,
        })
    }
}

/// Sent to any peer, including strangers, while the grants cannot be read. The error itself contains the file and one of its lines.
fn unreadable() -> Denial {
    Denial::new(
        ErrorCode::INTERNAL,
        "this node cannot read its grants; its operator finds the reason with: godwit access list",
    )
    .unproven()
}

/// Sent to any peer that the file of grants does not admit, while the rules of the state may be outdated.
fn outdated() -> Denial {
    let message = "this node has heard nothing from its cluster for minutes, so access rules of the cluster do not count here; ask another node, or try again later";
    Denial {
        retryable: true,
        ..Denial::new(ErrorCode::INTERNAL, message)
    }
}

/// Whether the asker itself still has any of the rights in this grant, which the asker has passed on.
fn asker_holds<'a>(
    given: &Grant,
    mandate: &Mandate,
    general: impl Iterator<Item = &'a Grant> + Clone,
    now: Timestamp,
) -> bool {
    let Area::Export { name, path } = &given.area else {
        return false;
    };
    let asker = Subject::Identity(mandate.asker.clone());
    given.rights.iter().any(|right| {
        let wish = Wish::at(name, path.as_bytes(), right);
        allows(general.clone(), &asker, wish, now)
    })
}

impl Granted {
    fn may(&self, place: Option<(&str, &[u8])>, right: Right) -> bool {
        let wish = Wish { place, right };
        self.requester
            .may(&self.grants, self.rights, wish, self.now)
    }

    /// Whether these grants decide about all places like the other grants.
    pub(crate) fn says(&self, other: &Self) -> bool {
        (self.rights, &self.requester, &self.grants)
            == (other.rights, &other.requester, &other.grants)
    }

    /// The areas of grants in which all of these rights hold, the widest first.
    pub(crate) fn areas(&self, exports: &[Export], right: Right) -> Vec<Area> {
        let named = self.grants.iter().flat_map(|grant| match &grant.area {
            Area::All => exports.iter().map(|it| (it.name.as_str(), "")).collect(),
            Area::Export { name, path } => vec![(name.as_str(), path.as_str())],
        });
        let may = |(name, path): &(&str, &str)| self.may(Some((name, path.as_bytes())), right);
        let mut areas: Vec<(&str, &str)> = named.filter(may).collect();
        areas.sort_unstable_by_key(|(name, path)| (path.len(), *name, *path));
        areas.dedup();
        let areas = areas.into_iter();
        areas
            .map(|(name, path)| Area::asked(name, path.as_bytes()))
            .collect()
    }

    /// Whether this right holds anywhere in an export.
    pub(crate) fn somewhere(&self, export: &str, right: Right) -> bool {
        self.grants.iter().any(|grant| match &grant.area {
            Area::All => self.may(Some((export, b"")), right),
            Area::Export { name, path } => {
                name == export && self.may(Some((export, path.as_bytes())), right)
            }
        })
    }

    /// Whether the peer may look at a path of an export, or change the entry there, at a given moment.
    pub(crate) fn allowed_at(
        &self,
        at: Timestamp,
        (export, path): (&str, &RelPath),
        right: Right,
    ) -> Result<(), Denial> {
        let wish = Wish::at(export, path.as_bytes(), right);
        let at = self.now.max(at);
        let may = self.requester.may(&self.grants, self.rights, wish, at);
        self.said(may, wish.place, right)
    }

    /// Refuses a peer that no grant admits; exports are named only to admitted peers. `asked` is the requested path and right.
    pub(crate) fn known(&self, asked: Option<(&[u8], Right)>) -> Result<(), Denial> {
        if self.is_known {
            return Ok(());
        }
        if self.is_without_state {
            return Err(outdated().unproven());
        }
        let place = asked.map(|(path, right)| (NodePlace::from_wire(path), right));
        let options = match &place {
            Some((Ok(NodePlace::Export { name, path, .. }), right)) => {
                options(Some((name, path)), *right)
            }
            Some((_, right)) => options(None, *right),
            None => options(None, Right::Read),
        };
        if let Some(mandate) = &self.requester.mandate {
            return Err(no_job(mandate, &options));
        }
        Err(Denial::new(
            ErrorCode::AUTH,
            format!(
                "this daemon does not know you; its operator can grant you access with: {ALLOW} {} {options}",
                self.requester.peer
            ),
        ))
    }

    /// Checks a right at `place`, an export and a path below it. `None` is a place outside all exports (`mem:`, `null:`), for which any
    /// grant of that right suffices.
    pub(crate) fn allowed(&self, place: Option<(&str, &[u8])>, right: Right) -> Result<(), Denial> {
        self.said(self.may(place, right), place, right)
    }

    /// Whether a dry run may report the entries at a place. Write access for a job does not let its runner list: the asker itself needs
    /// that right. A dry run for this site's own job runs only at this site.
    pub(crate) fn may_report(&self, place: Option<(&str, &[u8])>) -> Result<(), Denial> {
        let right = Right::List;
        let may = match (&self.requester.mandate, self.rights) {
            (None, _) => self.may(place, right),
            (Some(_), AskerRights::OwnJob | AskerRights::EndedJob) => false,
            (Some(mandate), AskerRights::Granted) => {
                let asker = Subject::Identity(mandate.asker.clone());
                allows(&self.grants, &asker, Wish { place, right }, self.now)
            }
        };
        self.said(may, place, right)
    }

    /// The message of a refusal.
    fn said(&self, may: bool, place: Option<(&str, &[u8])>, right: Right) -> Result<(), Denial> {
        if may {
            return Ok(());
        }
        if self.is_without_state {
            return Err(outdated());
        }
        if let Some(mandate) = &self.requester.mandate {
            return Err(no_job(mandate, &options(place, right)));
        }
        let verb = match right {
            Right::Read => "read from",
            Right::Write => "write to",
            Right::List => "list",
            Right::Delete => "delete from",
        };
        let shown = match place {
            None => "this daemon".to_owned(),
            Some((export, [])) => format!("the export {export}"),
            Some((export, path)) => format!("{export}/{}", String::from_utf8_lossy(path)),
        };
        Err(Denial::new(
            ErrorCode::NOT_GRANTED,
            format!(
                "you may not {verb} {shown}; its operator can allow it with: {ALLOW} {} {}",
                self.requester.peer,
                options(place, right)
            ),
        ))
    }
}

/// The message for a job of another node without access here: it names that node, not the connected one.
fn no_job(mandate: &Mandate, options: &str) -> Denial {
    let Mandate { asker, job } = mandate;
    Denial::new(
        ErrorCode::NOT_GRANTED,
        format!(
            "the job {job} of {asker} has no access here: {asker} itself must have this right, and must have passed \
             it to you for the job; the operator of this node can allow it with: {ALLOW} {asker} {options}"
        ),
    )
}

fn options(place: Option<(&str, &[u8])>, right: Right) -> String {
    Wish { place, right }.options()
}

/// The place that a path names, for an admitted peer.
pub(crate) fn find<'a>(exports: &'a [Export], path: &[u8]) -> Result<ExportPath<'a>, Denial> {
    locate(exports, path).map_err(|error| refuse_export(&error))
}

pub(crate) fn refuse_export(error: &ExportError) -> Denial {
    let code = match error {
        ExportError::Unknown(..) => ErrorCode::NO_EXPORT,
        ExportError::Path(_) => ErrorCode::OUTSIDE,
        error if error.passes() => ErrorCode::EXPORT_AWAY,
        _ => ErrorCode::DESTINATION,
    };
    Denial {
        retryable: error.passes(),
        ..Denial::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests;
