//! What a peer may do where, by the grants as they stand now, and the words for a no.
//! Keeps no grants; `net` reads them anew each time.

use std::path::Path;

use godwit_net::{Access, Grants, IdentityId};
use godwit_proto::ErrorCode;

use crate::export::{Export, ExportError, ExportPath, locate};

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

/// Asks the grants in a home directory.
pub(crate) struct Grantor<'a> {
    pub(crate) home: &'a Path,
}

impl Grantor<'_> {
    /// Exports are named only to those whom some grant lets in at all.
    pub(crate) fn known(&self, peer: IdentityId) -> Result<(), Denial> {
        match Grants::new(self.home).is_known(&peer) {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown(peer)),
            Err(error) => Err(Denial::new(ErrorCode::INTERNAL, error.to_string())),
        }
    }

    /// `export`: `None` for what belongs to no export (`mem:`, `null:`), which any grant of that direction opens.
    pub(crate) fn allowed(
        &self,
        peer: IdentityId,
        export: Option<&str>,
        write: bool,
    ) -> Result<(), Denial> {
        let grants = Grants::new(self.home);
        let access = match export {
            Some(export) => grants.allowed(&peer, export),
            None => grants.list().map(|all| {
                all.iter()
                    .filter(|grant| grant.id == peer)
                    .fold(Access::default(), |access, grant| {
                        access.union(grant.access)
                    })
            }),
        };
        let access = access.map_err(|error| Denial::new(ErrorCode::INTERNAL, error.to_string()))?;
        let granted = if write { access.write } else { access.read };
        if granted {
            return Ok(());
        }
        let (verb, flag) = if write {
            ("write to", "--write")
        } else {
            ("read from", "--read")
        };
        let (place, option) = export.map_or_else(
            || ("this daemon".to_owned(), String::new()),
            |export| {
                (
                    format!("the export {export}"),
                    format!(" --export {export}"),
                )
            },
        );
        Err(Denial::new(
            ErrorCode::NOT_GRANTED,
            format!(
                "you may not {verb} {place}; its operator can allow it with: godwit authorize {peer}{option} {flag}"
            ),
        ))
    }
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

fn unknown(peer: IdentityId) -> Denial {
    Denial::new(
        ErrorCode::AUTH,
        format!(
            "this daemon does not know you; its operator can let you in with: godwit authorize {peer} --read --write"
        ),
    )
}
