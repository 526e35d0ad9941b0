//! What a peer may do where, by the grants as they stand now, and the words for a no.
//! Keeps no grants: the file is read anew each time, and the node's state has its own.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::endpoint::Place;
use godwit_api::grant::{Area, Grant, Right, Subject, Wish, allows};
use godwit_api::rest::Timestamp;
use godwit_net::IdentityId;
use godwit_proto::ErrorCode;

use crate::export::{Export, ExportError, ExportPath, locate};
use crate::grants::Grants;

/// Gives the access rules of a node's state as they are now, or says why they cannot be read. It is asked often, and must be cheap.
pub type StateRules = dyn Fn() -> Result<Arc<Vec<Grant>>, String> + Send + Sync;

/// A reason to say no, with its code.
pub(crate) struct Denial {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) retryable: bool,
}

impl Denial {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: false,
        }
    }
}

/// The command that allows something.
const ALLOW: &str = "godwit access allow";

/// Asks the two sources of grants: the file in the home, and the state's rules.
pub(crate) struct Grantor<'a> {
    pub(crate) home: &'a Path,
    pub(crate) rules: &'a StateRules,
}

/// What a peer is granted at one moment.
pub(crate) struct Granted {
    peer: Subject,
    now: Timestamp,
    grants: Vec<Grant>,
}

impl Grantor<'_> {
    /// What the peer is granted now.
    pub(crate) fn granted(&self, peer: IdentityId) -> Result<Granted, Denial> {
        let unreadable = |error: String| Denial::new(ErrorCode::INTERNAL, error);
        let peer = Subject::Identity(peer.to_string());
        let now = now();
        let own = |grant: &Grant| grant.subject == peer && grant.holds(now);
        let mut grants = Grants::new(self.home)
            .list()
            .map_err(|error| unreadable(error.to_string()))?;
        grants.retain(own);
        let rules = (self.rules)().map_err(unreadable)?;
        grants.extend(rules.iter().filter(|grant| own(grant)).cloned());
        Ok(Granted { peer, now, grants })
    }
}

impl Granted {
    /// Whether this is allowed anywhere in an export.
    pub(crate) fn somewhere(&self, export: &str, right: Right) -> bool {
        let is_there = |area: &Area| match area {
            Area::All => true,
            Area::Export { name, .. } => name == export,
        };
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.rights.allow(right) && is_there(&grant.area))
    }

    /// The same at a moment to come.
    pub(crate) fn at(self, at: Timestamp) -> Self {
        Self {
            now: self.now.max(at),
            ..self
        }
    }

    /// Exports are named only to peers whom some grant lets in at all. `asked` is the path and the right that the peer asks for.
    pub(crate) fn known(&self, asked: Option<(&[u8], Right)>) -> Result<(), Denial> {
        if self.grants.iter().any(|grant| !grant.rights.is_empty()) {
            return Ok(());
        }
        let place = asked.map(|(path, right)| (Place::from_wire(path), right));
        let options = match &place {
            Some((Ok(Place::Export { name, path, .. }), right)) => {
                options(Some((name, path)), *right)
            }
            Some((_, right)) => options(None, *right),
            None => options(None, Right::Read),
        };
        Err(Denial::new(
            ErrorCode::AUTH,
            format!(
                "this daemon does not know you; its operator can let you in with: {ALLOW} {} {options}",
                self.peer
            ),
        ))
    }

    /// `place`: an export and a path below it; `None` for what belongs to no export (`mem:`, `null:`), which any grant of that
    /// right opens.
    pub(crate) fn allowed(&self, place: Option<(&str, &[u8])>, right: Right) -> Result<(), Denial> {
        let wish = Wish { place, right };
        if allows(&self.grants, &self.peer, wish, self.now) {
            return Ok(());
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
                self.peer,
                wish.options()
            ),
        ))
    }
}

fn options(place: Option<(&str, &[u8])>, right: Right) -> String {
    Wish { place, right }.options()
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// What a path names, for a peer that is known.
pub(crate) fn find<'a>(exports: &'a [Export], path: &[u8]) -> Result<ExportPath<'a>, Denial> {
    locate(exports, path).map_err(|error| refuse_export(&error))
}

pub(crate) fn refuse_export(error: &ExportError) -> Denial {
    let code = match error {
        ExportError::Unknown(..) => ErrorCode::NO_EXPORT,
        ExportError::Path(_) => ErrorCode::OUTSIDE,
        ExportError::Closed { .. } => ErrorCode::DESTINATION,
    };
    Denial::new(code, error.to_string())
}
