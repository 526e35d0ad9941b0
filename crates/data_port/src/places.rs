//! Finds the places that a peer names: defines a trait, and implements it for exports and grants. Does not open transfers.
//!
//! A daemon finds exports, restricted by grants; an agent finds the files of its user (`agent::user_files`). Below the root of an export
//! every open is `openat2` beneath the root, without links.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_api::grant::Right;
use godwit_engine::Fence;
use godwit_net::IdentityId;
use godwit_proto::{ErrorCode, Fault, FaultCode, Open, Side};
use godwit_store::{RelPath, Storage, StoreErrorKind, Syncs};
use godwit_tree::{DestinationPlace, TreeRoot, root_fault};

use crate::allow::{Denial, Granted, Grantor, StateRules, Who, find, refuse_export};
use crate::away::AwayFence;
use crate::export::{Export, ExportPath};
use crate::leave::{Leave, Round, asked_paths};
use godwit_run::local::{Access, hint};

/// Finds the places that peers name, and refuses those that they may not use.
pub(crate) trait Places: Send + Sync {
    /// Resolves the destination of a push; `is_directory` is true if the client names it as a directory.
    fn target(
        &self,
        who: &Who,
        path: &[u8],
        is_directory: bool,
        access: Access,
    ) -> Result<Target, Denial>;

    /// The sources of a pull, in the order of the paths. The request is refused only if the peer may not read a place; an unreadable
    /// source is a failed source among the others.
    fn sources(
        &self,
        who: &Who,
        paths: &[Vec<u8>],
        access: Access,
    ) -> Result<Vec<SourcePlace>, Denial>;

    /// Whether a dry run may report the existing entries of its destination. An agent's client may see all entries.
    fn may_reveal(&self, _who: &Who, _path: &[u8]) -> Result<(), Denial> {
        Ok(())
    }

    /// Whether the peer has this right at a place, too. An agent's client has it.
    fn may_also(&self, _who: &Who, _path: &[u8], _right: Right) -> Result<(), Denial> {
        Ok(())
    }

    /// The name of a sender in the journal's key: the same in every run of the same command.
    fn sender_name(&self, peer: IdentityId) -> Vec<u8>;

    /// The identities under which the bounds for one identity may count this peer; any of them with room is used.
    fn counted_as(&self, peer: IdentityId) -> Vec<IdentityId> {
        vec![peer]
    }

    /// Whether the peer may ask about this side: some grant admits it.
    fn may_ask(&self, peer: IdentityId) -> Result<(), Denial>;

    /// Whether the peer may open any transfer: some grant admits it. This is checked before all other parts of the request. An agent's
    /// client may.
    fn may_open(&self, _who: &Who, _request: &Open) -> Result<(), Denial> {
        Ok(())
    }

    /// Whether more frames of the request are read: the peer needs the right to all places in the first frame. The caller limits the
    /// number of such requests, because each path is looked up. An agent's client may.
    fn may_continue(&self, _who: &Who, _request: &Open) -> Result<(), Denial> {
        Ok(())
    }

    /// Whether other nodes of the cluster may have left it long ago without this side's knowledge. An agent has no cluster.
    fn is_outdated(&self) -> bool {
        false
    }

    /// The rights of the peer, by one reading of the grants; a caller with a list of paths calls this once.
    fn granted(&self, _who: &Who) -> Result<Granted, Denial> {
        Err(Denial::new(
            ErrorCode::NOT_SUPPORTED,
            "there are no exports here",
        ))
    }

    /// The rights of the peer in a check of many peers; `None` while they cannot be read.
    fn granted_in(&self, _round: &Round, _who: &Who) -> Option<Arc<Granted>> {
        None
    }

    /// The rights that a transfer needs while it runs. An agent needs none.
    fn leave(&self, peer: IdentityId, request: &Open) -> Result<Leave, Denial> {
        Ok(Leave::unbound(Who::opens(peer, request)))
    }

    /// The reason why these rights are no longer valid, if so.
    fn taken_back(&self, _leave: &Leave, _round: &Round) -> Option<Denial> {
        None
    }
}

/// The destination of a push.
pub(crate) enum Target {
    /// Discards all data.
    Null,
    /// A place in a tree.
    Tree(TreeTarget),
}

/// A place for a tree to write.
pub(crate) struct TreeTarget {
    pub(crate) place: DestinationPlace,
    /// Owners and groups are applied by number, even if the peer does not request it.
    pub(crate) gives_owners: bool,
    /// Decides when writes at the destination must end.
    pub(crate) fence: Option<Arc<dyn Fence>>,
}

/// A source of a pull.
pub(crate) enum SourcePlace {
    /// This many bytes of memory.
    Memory(u64),
    /// A tree.
    Tree(TreeSource),
    /// A source that cannot be read.
    Failed(FailedSource),
}

/// A source that cannot be read.
pub(crate) struct FailedSource {
    /// The fault to report if there are other sources.
    pub(crate) fault: Fault,
    /// The answer if there is no other source.
    pub(crate) no: Denial,
}

/// A tree to read.
pub(crate) struct TreeSource {
    pub(crate) root: TreeRoot,
    /// Name of the source in a destination directory; empty for "its contents".
    pub(crate) name: Vec<u8>,
    /// The real path.
    pub(crate) absolute: Vec<u8>,
}

impl TreeSource {
    /// The destination path of the source at a client that sees the same files.
    pub(crate) fn goes_to(&self, request: &Open, listed: bool) -> Vec<u8> {
        let name: &[u8] = if listed || !request.destination_is_directory {
            b""
        } else {
            &self.name
        };
        below(&request.destination, name)
    }
}

fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = match directory {
        _ if name.is_empty() => b"",
        [.., b'/'] => b"",
        _ => b"/",
    };
    [directory, slash, name].concat()
}

/// A daemon's places: exports, for peers with grants.
pub(crate) struct Exports {
    pub(crate) exports: Vec<Export>,
    /// Directory of grants and spills.
    pub(crate) home: PathBuf,
    /// The access rules of the node's state.
    pub(crate) rules: Arc<dyn StateRules>,
    /// State shared by the storages of all transfers.
    pub(crate) syncs: Syncs,
}

impl Exports {
    /// The storage of an export, and its real path.
    fn open(&self, export: &Export, access: Access) -> Result<(Arc<dyn Storage>, Vec<u8>), Denial> {
        export
            .open(&self.home.join("journals"), access, &self.syncs)
            .map_err(|error| refuse_export(&error))
    }

    fn grantor(&self) -> Grantor<'_> {
        Grantor {
            home: &self.home,
            rules: &*self.rules,
        }
    }
}

impl Places for Exports {
    fn target(
        &self,
        who: &Who,
        path: &[u8],
        is_directory: bool,
        access: Access,
    ) -> Result<Target, Denial> {
        let granted = self.grantor().granted(who)?;
        granted.known(Some((path, Right::Write)))?;
        match find(&self.exports, path)? {
            ExportPath::Memory(_) => Err(Denial::new(
                ErrorCode::DESTINATION,
                "mem: can only be read; null: takes everything",
            )),
            ExportPath::Null => {
                granted.allowed(None, Right::Write)?;
                Ok(Target::Null)
            }
            ExportPath::Below(export, base) => {
                granted.allowed(Some((&export.name, base.as_bytes())), Right::Write)?;
                let (storage, storage_path) = self.open(export, access)?;
                Ok(Target::Tree(TreeTarget {
                    place: DestinationPlace {
                        storage,
                        storage_path,
                        base,
                        is_directory,
                        display: export.name.clone().into_bytes(),
                    },
                    gives_owners: export.owner,
                    fence: Some(Arc::new(AwayFence::of(&export.watched))),
                }))
            }
        }
    }

    fn sources(
        &self,
        who: &Who,
        paths: &[Vec<u8>],
        access: Access,
    ) -> Result<Vec<SourcePlace>, Denial> {
        let granted = self.grantor().granted(who)?;
        let first = paths.first().map(|path| (path.as_slice(), Right::Read));
        granted.known(first)?;
        let mut sources = Vec::with_capacity(paths.len());
        // A storage holds descriptors, so one is opened for each export, even if many sources are below it.
        let mut storages: HashMap<&str, (Arc<dyn Storage>, Vec<u8>)> = HashMap::new();
        for path in paths {
            match find(&self.exports, path)? {
                ExportPath::Null => {
                    return Err(Denial::new(
                        ErrorCode::SOURCE,
                        "null: can only be written to; mem:SIZE gives bytes",
                    ));
                }
                ExportPath::Memory(bytes) => {
                    granted.allowed(None, Right::Read)?;
                    sources.push(SourcePlace::Memory(bytes));
                }
                ExportPath::Below(export, start) => {
                    granted.allowed(Some((&export.name, start.as_bytes())), Right::Read)?;
                    let (storage, real) = match storages.entry(&export.name) {
                        Entry::Occupied(open) => open.into_mut(),
                        Entry::Vacant(place) => place.insert(self.open(export, access)?),
                    };
                    sources.push(source_below(real, Arc::clone(storage), start, path)?);
                }
            }
        }
        Ok(sources)
    }

    fn may_reveal(&self, who: &Who, path: &[u8]) -> Result<(), Denial> {
        let ExportPath::Below(export, below) = find(&self.exports, path)? else {
            return Ok(());
        };
        let granted = self.grantor().granted(who)?;
        granted.may_report(Some((&export.name, below.as_bytes())))
    }

    fn may_also(&self, who: &Who, path: &[u8], right: Right) -> Result<(), Denial> {
        let ExportPath::Below(export, below) = find(&self.exports, path)? else {
            return Ok(());
        };
        let granted = self.grantor().granted(who)?;
        granted.allowed(Some((&export.name, below.as_bytes())), right)
    }

    fn sender_name(&self, peer: IdentityId) -> Vec<u8> {
        peer.to_string().into_bytes()
    }

    fn counted_as(&self, peer: IdentityId) -> Vec<IdentityId> {
        self.grantor().givers(peer)
    }

    fn may_ask(&self, peer: IdentityId) -> Result<(), Denial> {
        self.grantor().granted(&Who::itself(peer))?.known(None)
    }

    fn is_outdated(&self) -> bool {
        self.rules.is_outdated()
    }

    fn granted(&self, who: &Who) -> Result<Granted, Denial> {
        self.grantor().granted(who)
    }

    fn granted_in(&self, round: &Round, who: &Who) -> Option<Arc<Granted>> {
        round.granted(&self.grantor(), who)
    }

    fn may_open(&self, who: &Who, request: &Open) -> Result<(), Denial> {
        let (right, paths) = asked_paths(request);
        let granted = self.grantor().granted(who)?;
        granted.known(paths.first().map(|path| (path.as_slice(), right)))
    }

    fn may_continue(&self, who: &Who, request: &Open) -> Result<(), Denial> {
        let (right, paths) = asked_paths(request);
        let granted = self.grantor().granted(who)?;
        // The grants may have changed since the first check.
        granted.known(paths.first().map(|path| (path.as_slice(), right)))?;
        for path in paths {
            let place = match find(&self.exports, path)? {
                ExportPath::Below(export, below) => Some((export.name.as_str(), below)),
                _ => None,
            };
            let place = place.as_ref();
            granted.allowed(
                place.map(|(export, below)| (*export, below.as_bytes())),
                right,
            )?;
        }
        Ok(())
    }

    fn leave(&self, peer: IdentityId, request: &Open) -> Result<Leave, Denial> {
        let who = Who::opens(peer, request);
        Leave::asked(&self.exports, &self.grantor(), who, request)
    }

    fn taken_back(&self, leave: &Leave, round: &Round) -> Option<Denial> {
        leave.taken_back(&self.exports, &self.grantor(), round)
    }
}

/// Whether the request is for a dry run.
pub(crate) fn is_dry(request: &Open) -> bool {
    request.comparison.is_some_and(|wanted| wanted.dry_run)
}

/// A place in an export that the peer may read, with its real path. A path out of the export is refused as missing.
fn source_below(
    real: &[u8],
    storage: Arc<dyn Storage>,
    start: RelPath,
    path: &[u8],
) -> Result<SourcePlace, Denial> {
    let there = storage.stat(&start);
    let fault = match there {
        Ok(there) if there.is_some() || start.is_root() => {
            let name = path.rsplit(|byte| *byte == b'/').next();
            return Ok(SourcePlace::Tree(TreeSource {
                name: name.unwrap_or_default().to_vec(),
                absolute: below(real, start.as_bytes()),
                root: TreeRoot { storage, start },
            }));
        }
        Ok(_) => {
            let why = format!("does not exist{}", hint(path));
            let no = format!("{} {why}", String::from_utf8_lossy(path));
            return Ok(SourcePlace::Failed(FailedSource {
                fault: Fault {
                    side: Side::SOURCE,
                    code: FaultCode::NOT_FOUND,
                    message: why,
                    ..Fault::default()
                },
                no: Denial::new(ErrorCode::SOURCE, no),
            }));
        }
        Err(error) if error.kind == StoreErrorKind::Escape => {
            return Err(Denial::new(ErrorCode::OUTSIDE, error.to_string()));
        }
        Err(error) => root_fault(&error),
    };
    Ok(SourcePlace::Failed(FailedSource {
        no: Denial::new(ErrorCode::SOURCE, fault.message.clone()),
        fault,
    }))
}
