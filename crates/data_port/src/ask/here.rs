//! Answers questions about places of this node's exports: finds the place, checks the right, and calls the function that answers. Does
//! not know the asker; the rights come from the caller.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use godwit_api::ask::{
    Answer, EntryKind, EntryView, ExportRoom, GoOn, ListPlace, Question, Refusal, RenamePlace, code,
};
use godwit_api::failure::FailureCode;
use godwit_api::grant::Right;
use godwit_api::grant::lasting::Look;
use godwit_api::job::Text;
use godwit_api::rest::Timestamp;
use godwit_net::IdentityId;
use godwit_run::local::Access;
use godwit_store::{Kind, Meta, RelPath, Storage, StoreError, StoreErrorKind, Syncs};
use godwit_tree::PoolAnswers;
use godwit_tree::arriving::Arrivals;

use super::claim::Holder;
use super::{change, clean, list, overlaps, seal};
use crate::claims::{By, ClaimTable, Spots, check as check_place};
use crate::export::{Export, ExportError, ExportPath, locate};

/// Faults at a path that reveal the entry there, or one above it.
const SAYS_WHAT_IS_THERE: [FailureCode; 3] =
    [code::NOT_FOUND, code::NOT_A_DIRECTORY, code::OUTSIDE];

/// Checks whether the asker has a right at a path of an export.
pub type May<'a> = dyn Fn(&str, &RelPath, Right) -> Result<(), Refusal> + 'a;

/// The exports of a node, for questions about places.
pub struct Here {
    exports: Vec<Export>,
    /// Directory of journals and spills.
    home: PathBuf,
    syncs: Syncs,
    /// Names for the next pages of listings.
    ahead: list::Ahead,
    claims: Arc<ClaimTable>,
    /// The sealings now.
    sealing: seal::Turns,
    /// Extents for other nodes of the cluster.
    extents: PoolAnswers,
}

/// A place that a question names.
pub(super) struct Found {
    pub(super) storage: Arc<dyn Storage>,
    /// Real path of the storage.
    pub(super) real: Vec<u8>,
    pub(super) path: RelPath,
    /// Name of the export.
    pub(super) export: String,
    /// The files that wait in the transfer buffer of the node for the export.
    pub(super) arrivals: Option<Arrivals>,
}

impl Here {
    /// These exports of the node with this home.
    #[must_use]
    pub fn new(exports: Vec<Export>, home: PathBuf, syncs: Syncs) -> Self {
        Self {
            exports,
            home,
            syncs,
            ahead: list::Ahead::default(),
            claims: Arc::default(),
            sealing: seal::Turns::default(),
            extents: PoolAnswers::default(),
        }
    }

    /// These exports, with the claims that other parts of this node use.
    #[must_use]
    pub fn claiming(self, claims: Arc<ClaimTable>) -> Self {
        Self { claims, ..self }
    }

    pub(super) const fn extents(&self) -> &PoolAnswers {
        &self.extents
    }

    pub(super) fn export(&self, name: &str) -> Option<&Export> {
        self.exports.iter().find(|export| export.name == name)
    }

    pub(super) fn claims(&self) -> &ClaimTable {
        &self.claims
    }

    pub(super) fn journals(&self) -> PathBuf {
        self.home.join("journals")
    }

    /// Answers a question. Blocks until the work has ended, or `go_on` stops it.
    ///
    /// # Errors
    /// The asker lacks the right, or the work failed.
    pub fn answer(
        &self,
        question: &Question,
        may: &May<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        self.answer_for(None, question, may, go_on)
    }

    /// The same for an asker as the bounds for one identity count it; None is this node.
    pub(super) fn answer_for(
        &self,
        asker: Option<IdentityId>,
        question: &Question,
        may: &May<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        let own = Holder {
            by: By::Here,
            // Rights of other sites are checked on the data port.
            may_hold: &|_, _| Look::Holds,
        };
        if let Some(answered) = self.claim(question, &own, may, &|_| false) {
            return answered;
        }
        match question {
            Question::Exports {} => {
                let root = RelPath::root();
                let may = |export: &str, right| may(export, &root, right).is_ok();
                Ok(Answer::Exports(self.exports_with_room(&may)))
            }
            Question::List(wish) => {
                let found = self.find(&wish.path, Right::List, may)?;
                self.list(&found, wish, go_on)
            }
            Question::Stat { path } => {
                let refused = match self.find(path, Right::List, may) {
                    Ok(found) => return found.view().map(Answer::Entry),
                    Err(refused) => refused,
                };
                // A writer may know whether a directory exists. A file and a missing entry get the same answer. Only changes reveal more,
                // for example a directory that cannot be made because another entry has its name.
                let found = self
                    .find(path, Right::Write, may)
                    .map_err(|_no_right| refused.clone())?;
                match found.view() {
                    Ok(view) if view.kind == EntryKind::Directory => Ok(Answer::Entry(view)),
                    Err(fault) if !fault.code.is_one_of(&SAYS_WHAT_IS_THERE) => Err(fault),
                    _ => Err(Refusal::new(
                        code::NOT_FOUND,
                        format!(
                            "{}: there is no directory at this path; for other kinds of entries: {}",
                            found.shown(),
                            refused.message
                        ),
                    )),
                }
            }
            Question::MakeDirectory(wish) => {
                let found = self.find(&wish.path, Right::Write, may)?;
                check_place(found.path.as_bytes())
                    .map_err(|error| Refusal::new(code::INVALID, error.to_string()))?;
                if wish.parents {
                    found.may_make_above(may)?;
                }
                change::make_directory(&found, wish.parents).map(Answer::Entry)
            }
            Question::Remove(wish) => {
                let found = self.find(&wish.path, Right::Delete, may)?;
                let spill = self.journals();
                let removed = change::remove(&found, wish.recursive, &spill, go_on)?;
                Ok(Answer::Removed(match found.lists(may) {
                    true => removed,
                    false => removed.without_names(),
                }))
            }
            Question::Rename(wish) => {
                let from = self.find(&wish.from, Right::Delete, may)?;
                let to = self.find(&wish.to, Right::Write, may)?;
                for right in RenamePlace::FROM {
                    may(&from.export, &from.path, right)?;
                }
                for right in RenamePlace::to(wish.replace) {
                    may(&to.export, &to.path, *right)?;
                }
                change::rename(&from, &to, wish.replace).map(Answer::Entry)
            }
            Question::Clean(wish) => {
                let found = self.find(&wish.path, Right::Delete, may)?;
                let claimed = || self.claims.tags(Instant::now());
                let cleaned = clean::clean(&found, wish, &self.journals(), &claimed, go_on)?;
                Ok(Answer::Cleaned(match found.lists(may) {
                    true => cleaned,
                    false => cleaned.without_names(),
                }))
            }
            Question::Seal(wish) => {
                let found = self.find(&wish.path, Right::Write, may)?;
                seal::check(&found, wish)?;
                if wish.check {
                    return Ok(Answer::Done {});
                }
                self.refuse_claimed(&found)?;
                let sees_names = found.lists(may);
                let turns = (&self.sealing, asker);
                let sealed = seal::seal(&found, wish, turns, sees_names, go_on)?;
                Ok(Answer::Sealed(sealed))
            }
            Question::Overlaps { paths } => {
                overlaps::overlaps(self, paths, may).map(Answer::Overlaps)
            }
            _ => Err(Refusal::new(
                code::INVALID,
                "this question is not about places",
            )),
        }
    }

    /// Refuses a place to which only members of a job may write now.
    fn refuse_claimed(&self, found: &Found) -> Result<(), Refusal> {
        let places = Spots::look(&[found.absolute()]);
        match self.claims.keeps_out(&places, Instant::now()) {
            Some(why) => Err(Refusal::later(code::BUSY, why)),
            None => Ok(()),
        }
    }

    /// A page of a directory outside of any export.
    pub(super) fn list(
        &self,
        found: &Found,
        wish: &ListPlace,
        go_on: &mut GoOn<'_>,
    ) -> Result<Answer, Refusal> {
        list::list(found, wish, &self.ahead, go_on).map(Answer::Listing)
    }

    /// The exports in which the asker has any right, with their free space.
    pub(super) fn exports_with_room(&self, may: &dyn Fn(&str, Right) -> bool) -> Vec<ExportRoom> {
        let rooms = self.exports.iter().map(|export| {
            let room = export.room();
            ExportRoom {
                name: export.name.clone(),
                read: may(&export.name, Right::Read),
                write: may(&export.name, Right::Write),
                bytes_total: room.map(|room| room.total),
                bytes_free: room.map(|room| room.free),
            }
        });
        rooms.filter(|room| room.read || room.write).collect()
    }

    pub(super) fn find(&self, path: &Text, right: Right, may: &May<'_>) -> Result<Found, Refusal> {
        let (export, below) = self.allowed(path, right, may)?;
        let spill = self.journals();
        let opened = export.open(&spill, Access::default(), &self.syncs);
        let (storage, real) = opened.map_err(refusal_of)?;
        Ok(Found {
            storage,
            real,
            path: below,
            export: export.name.clone(),
            arrivals: export.arrivals.clone(),
        })
    }

    /// The export and the path below it that a question names, if the asker has the right and the export can be used. Uses no file.
    pub(super) fn allowed(
        &self,
        path: &Text,
        right: Right,
        may: &May<'_>,
    ) -> Result<(&Export, RelPath), Refusal> {
        match locate(&self.exports, &path.0).map_err(refusal_of)? {
            ExportPath::Below(export, below) => {
                may(&export.name, &below, right)?;
                export.check().map_err(refusal_of)?;
                Ok((export, below))
            }
            ExportPath::Null | ExportPath::Memory(_) => Err(Refusal::new(
                code::INVALID,
                "mem: and null: have no entries; name a path in an export",
            )),
        }
    }
}

pub(super) fn refusal_of(error: ExportError) -> Refusal {
    let message = error.to_string();
    match error {
        ExportError::Unknown(..) => Refusal::new(code::NO_SUCH_EXPORT, message),
        ExportError::Path(_) => Refusal::new(code::OUTSIDE, message),
        error if error.passes() => Refusal::later(code::IO, message),
        _ => Refusal::new(code::IO, message),
    }
}

impl Found {
    /// The place in messages: the export, and the path below it.
    pub(super) fn shown(&self) -> String {
        match self.path.is_root() {
            true => format!("/{}", self.export),
            false => format!("/{}/{}", self.export, self.path),
        }
    }

    /// The absolute path.
    pub(super) fn absolute(&self) -> Vec<u8> {
        let mut absolute = self.real.clone();
        if !self.path.is_root() {
            if !absolute.ends_with(b"/") {
                absolute.push(b'/');
            }
            absolute.extend_from_slice(self.path.as_bytes());
        }
        absolute
    }

    /// Whether the asker may see the names in this directory.
    fn lists(&self, may: &May<'_>) -> bool {
        may(&self.export, &self.path, Right::List).is_ok()
    }

    /// Metadata of the entry.
    pub(super) fn meta(&self) -> Result<Meta, Refusal> {
        let there = self.storage.stat(&self.path);
        let there = there.map_err(|error| self.refuse(&error))?;
        there.ok_or_else(|| {
            Refusal::new(code::NOT_FOUND, format!("{}: does not exist", self.shown()))
        })
    }

    /// The description of the entry for the asker.
    pub(super) fn view(&self) -> Result<EntryView, Refusal> {
        let meta = self.meta()?;
        let name = match self.path.file_name() {
            Some(name) => name.to_vec(),
            None => self.export.clone().into_bytes(),
        };
        Ok(view(&*self.storage, &self.path, name, &meta))
    }

    /// Refuses changes of an export itself, which are left to its operator.
    pub(super) fn below_export(&self, verb: &str) -> Result<(), Refusal> {
        if self.path.is_root() {
            return Err(Refusal::new(
                code::INVALID,
                format!(
                    "{}: an export itself cannot be {verb}; name a path in it",
                    self.shown()
                ),
            ));
        }
        Ok(())
    }

    /// Refuses missing directories above the place that the asker may not make.
    fn may_make_above(&self, may: &May<'_>) -> Result<(), Refusal> {
        let mut at = self.path.parent();
        while let Some(above) = at.filter(|above| !above.is_root()) {
            if may(&self.export, &above, Right::Write).is_err() {
                let there = self.storage.stat(&above);
                return match there.map_err(|error| self.refuse(&error))? {
                    Some(_) => Ok(()),
                    None => Err(Refusal::new(
                        code::NOT_GRANTED,
                        format!(
                            "{}: a directory above it does not exist, and you may not make that directory",
                            self.shown()
                        ),
                    )),
                };
            }
            at = above.parent();
        }
        Ok(())
    }

    /// The message of a failure of the storage.
    pub(super) fn refuse(&self, error: &StoreError) -> Refusal {
        let code = match error.kind {
            StoreErrorKind::NotFound => code::NOT_FOUND,
            StoreErrorKind::Exists => code::EXISTS,
            StoreErrorKind::TypeConflict => code::NOT_A_DIRECTORY,
            StoreErrorKind::Escape => code::OUTSIDE,
            StoreErrorKind::Permission | StoreErrorKind::ReadOnly => code::PERMISSION,
            StoreErrorKind::NoSpace => code::NO_SPACE,
            StoreErrorKind::NameTooLong | StoreErrorKind::Lasting => code::INVALID,
            _ => code::IO,
        };
        Refusal::new(code, format!("/{}: {error}", self.export))
    }
}

/// The description of an entry for the asker.
pub(super) fn view(storage: &dyn Storage, path: &RelPath, name: Vec<u8>, meta: &Meta) -> EntryView {
    let target = (meta.kind == Kind::Symlink)
        .then(|| storage.read_link(path).ok())
        .flatten();
    let millis = i64::from(meta.mtime.nanoseconds / 1_000_000);
    EntryView {
        name: Text(name),
        kind: match meta.kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Symlink => EntryKind::Symlink,
            Kind::Fifo => EntryKind::Fifo,
            Kind::Socket => EntryKind::Socket,
            Kind::CharDevice => EntryKind::CharDevice,
            Kind::BlockDevice => EntryKind::BlockDevice,
        },
        size: meta.bytes,
        modified: Timestamp(
            meta.mtime
                .seconds
                .saturating_mul(1_000)
                .saturating_add(millis),
        ),
        mode: meta.mode,
        target: target.map(Text),
    }
}

/// The refusal of abandoned work, without further detail.
pub(super) fn given_up() -> Refusal {
    Refusal::later(code::GIVEN_UP, "the work was stopped before its end")
}
