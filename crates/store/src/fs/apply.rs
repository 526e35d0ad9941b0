//! Applies metadata to an entry: owner, attributes, mode, access lists, times, in an order in which no step undoes another. Does not open
//! anything and does not decide which attributes are wanted.
//!
//! Metadata is applied under the temporary name, so the sync of the contents covers the metadata too. Kinds of metadata that cannot be
//! kept are returned as `Lost`.

mod target;

use super::acl;
use super::attributes::{Allowed, SET_ID_BITS, meta_of};
use super::directories::Trouble;
use super::xattr::{LIST_BYTES_MAX, names};
use crate::extended::{AclEntry, AclWho, Acls, Lost, Xattr, XattrClass, is_label};
use crate::meta::{FinalMeta, Kind};
use crate::times::{self, Kept};
use rustix::io::Errno;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
pub(super) use target::Target;
use target::is_refused;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const OWNER_WRITES: u32 = 0o200;

/// How the entry was created.
#[derive(Clone, Copy)]
pub(super) struct Birth<'a> {
    /// The entry was created with its final mode.
    pub(super) has_mode: bool,
    /// We created the entry, and no other program has set its attributes since.
    pub(super) is_new: bool,
    /// The entry may have inherited an access list from its directory.
    pub(super) inherits: bool,
    /// Whether the file system of the entry's directory has been seen to keep the attributes that it accepts. If absent, each entry is
    /// checked.
    pub(super) keeps: Option<&'a AtomicBool>,
}

/// Applies the attributes in `meta` to the entry. Returns the kinds that could not be kept, or an error if `meta` is strict.
pub(super) fn apply(
    target: &Target<'_>,
    meta: &FinalMeta,
    allowed: Allowed,
    mut birth: Birth<'_>,
) -> Result<Lost, Trouble> {
    let mut lost = Lost::NOTHING;
    // The owner is set before the mode and the attributes: a change of owner clears set-id bits and capabilities.
    if meta.uid.is_some() || meta.gid.is_some() {
        lost |= set_owner(target, meta, allowed)?;
    }
    // Attributes are set before the mode, because the mode may deny us writing them.
    let mut opened = Opened::default();
    if let Some(xattrs) = &meta.extended.xattrs {
        match set_xattrs(target, xattrs, allowed, birth, &mut opened) {
            Ok(kinds) => lost |= kinds,
            Err(error) => {
                opened.close(target);
                return Err(error.into());
            }
        }
    }
    birth.has_mode &= opened.from.is_none();
    let is_link = target.is_link();
    let acls = meta.extended.acls.as_ref().filter(|_| !is_link);
    let may_have_acls = !birth.is_new || birth.inherits;
    if let Some(acls) = acls
        && may_have_acls
    {
        remove_acls(target, acls)?;
    }
    let mut mode = None;
    if !is_link {
        let (set, kinds) = set_mode(target, meta, allowed, lost, birth)?;
        mode = Some(set);
        lost |= kinds;
    }
    // Access lists are set after the mode, because a change of mode changes the list's mask.
    if let Some(acls) = acls {
        let kinds = set_acls(target, acls, meta, allowed)?;
        if kinds.has(Lost::ACLS) {
            mode = None;
        }
        lost |= kinds;
    }
    let strict = |lost: Lost| match meta.strict && !lost.is_nothing() {
        true => Err(Trouble::Lost(lost)),
        false => Ok(lost),
    };
    strict(lost)?;
    target.set_times(meta)?;
    // Setting an access list also sets the permission bits of the mode.
    let listed = acls.map_or(0, |acls| 0o777 * u32::from(!acls.access.is_empty()));
    strict(lost | read_back(target, meta, (mode, !listed), lost, birth)?)
}

/// The attributes that the file system has accepted but does not keep. Once it has kept a mode and a time in a directory, only attributes
/// that not every file system keeps are checked again. Only the bits in `compared` count in the mode. Attributes in `lost` are
/// not
/// compared.
fn read_back(
    target: &Target<'_>,
    meta: &FinalMeta,
    (mode, compared): (Option<u32>, u32),
    lost: Lost,
    birth: Birth<'_>,
) -> Result<Lost, Errno> {
    let may_lose_group_id = mode.is_some_and(|mode| mode & SET_GROUP_ID != 0);
    let uid = meta.uid.filter(|_| !lost.has(Lost::OWNER));
    let gid = meta.gid.filter(|_| !lost.has(Lost::GROUP));
    if birth.keeps.is_some_and(|keeps| keeps.load(Relaxed))
        && times::is_common(meta.mtime)
        && !may_lose_group_id
        && uid.is_none()
        && gid.is_none()
    {
        return Ok(Lost::NOTHING);
    }
    let stat = target.stat()?;
    let there = meta_of(&stat);
    // A mount of another protocol may answer that it changed the owner, and keep its own.
    let mut owner = Lost::NOTHING;
    if uid.is_some_and(|uid| uid != stat.st_uid) {
        owner |= Lost::OWNER;
    }
    if gid.is_some_and(|gid| gid != stat.st_gid) {
        owner |= Lost::GROUP;
    }
    // Set-id bits would act for the wrong owner.
    let mut wrong = 0;
    if owner.has(Lost::OWNER) {
        wrong |= SET_USER_ID;
    }
    if owner.has(Lost::GROUP) {
        wrong |= SET_GROUP_ID;
    }
    if mode.is_some() && there.mode & wrong != 0 {
        target.chmod(there.mode & !wrong)?;
        owner |= Lost::SET_ID;
    }
    let mut lost = owner
        | match times::kept(there.mtime, meta.mtime) {
            Kept::Exactly | Kept::Cut => Lost::NOTHING,
            // Another thread may have created a name in the directory since, which changes its time.
            Kept::Otherwise if there.kind == Kind::Directory => Lost::NOTHING,
            Kept::Otherwise | Kept::Clamped => Lost::TIMES,
        };
    let changed = mode.map_or(0, |mode| (mode ^ there.mode) & compared);
    if changed & SET_ID_BITS != 0 {
        lost |= Lost::SET_ID;
    }
    if changed & !SET_ID_BITS != 0 {
        lost |= Lost::MODE;
    }
    if lost.is_nothing()
        && mode.is_some()
        && let Some(keeps) = birth.keeps
    {
        keeps.store(true, Relaxed);
    }
    Ok(lost)
}

/// Changes owner and group, as far as the system and `allowed` permit.
fn set_owner(target: &Target<'_>, meta: &FinalMeta, allowed: Allowed) -> Result<Lost, Errno> {
    // The kernel reads the highest number as "do not change"; no account can have this number.
    let possible = meta.uid != Some(u32::MAX) && meta.gid != Some(u32::MAX);
    if allowed.owner && possible {
        match target.chown(meta.uid, meta.gid) {
            Err(error) if is_refused(error) => {}
            result => return result.map(|()| Lost::NOTHING),
        }
    }
    let there = target.stat()?;
    let mut lost = Lost::NOTHING;
    for (kind, uid, gid) in [
        (
            Lost::OWNER,
            meta.uid.filter(|uid| *uid != there.st_uid),
            None,
        ),
        (
            Lost::GROUP,
            None,
            meta.gid.filter(|gid| *gid != there.st_gid),
        ),
    ] {
        if uid.is_none() && gid.is_none() {
            continue;
        }
        if !allowed.owner || uid.or(gid) == Some(u32::MAX) {
            lost |= kind;
            continue;
        }
        // An unprivileged user may still change the group to one of the user's own groups.
        match target.chown(uid, gid) {
            Ok(()) => {}
            Err(error) if is_refused(error) => lost |= kind,
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

/// Makes the entry's attributes equal to the given ones, among the classes that we may change.
fn set_xattrs(
    target: &Target<'_>,
    xattrs: &[Xattr],
    allowed: Allowed,
    birth: Birth<'_>,
    opened: &mut Opened,
) -> Result<Lost, Errno> {
    let mut lost = Lost::NOTHING;
    for xattr in xattrs {
        let kind = match XattrClass::of(&xattr.name) {
            XattrClass::Privileged => Lost::PRIVILEGED_XATTRS,
            XattrClass::User | XattrClass::System => Lost::XATTRS,
        };
        if !may_touch(&xattr.name, allowed) {
            lost |= kind;
            continue;
        }
        let set = || target.set_xattr(&xattr.name, &xattr.value);
        match opened.retry(target, set) {
            Ok(()) => {}
            Err(error) if target.cannot_hold(&xattr.name, error) => lost |= kind,
            Err(error) => return Err(error),
        }
    }
    if birth.is_new {
        return Ok(lost);
    }
    let mut list = vec![0; LIST_BYTES_MAX];
    let bytes = match target.list_xattrs(&mut list) {
        Ok(bytes) => bytes,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(error) => return Err(error),
    };
    for name in names(&list[..bytes]) {
        let wanted = xattrs.iter().any(|xattr| xattr.name == name);
        if wanted || is_label(name) || !may_touch(name, allowed) {
            continue;
        }
        match opened.retry(target, || target.remove_xattr(name)) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) if target.cannot_hold(name, error) => lost |= Lost::XATTRS,
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

/// A file without write permission that we, its owner, make writable while attributes are set. The kernel requires write permission even
/// if the owner has the file open for writing.
#[derive(Default)]
struct Opened {
    /// The mode before the change.
    from: Option<u32>,
}

impl Opened {
    /// Calls `act`; repeats it with write permission if the file lacks this permission and we own the file.
    fn retry(
        &mut self,
        target: &Target<'_>,
        act: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        match act() {
            Err(Errno::ACCESS) if self.open(target)? => act(),
            result => result,
        }
    }

    fn open(&mut self, target: &Target<'_>) -> Result<bool, Errno> {
        let there = target.stat()?;
        let mode = there.st_mode & 0o7777;
        let is_ours = there.st_uid == rustix::process::geteuid().as_raw();
        if target.is_link() || !is_ours || mode & OWNER_WRITES != 0 {
            return Ok(false);
        }
        target.chmod(mode | OWNER_WRITES)?;
        self.from = Some(mode);
        Ok(true)
    }

    /// Restores the mode. An error that occurred before takes precedence.
    fn close(&self, target: &Target<'_>) {
        if let Some(mode) = self.from {
            let _ = target.chmod(mode);
        }
    }
}

fn may_touch(name: &[u8], allowed: Allowed) -> bool {
    match XattrClass::of(name) {
        XattrClass::User => true,
        XattrClass::Privileged => allowed.privileged_xattrs,
        XattrClass::System => false,
    }
}

/// Removes the access lists that the entry should not have.
fn remove_acls(target: &Target<'_>, acls: &Acls) -> Result<(), Errno> {
    for (name, entries) in [(acl::ACCESS, &acls.access), (acl::DEFAULT, &acls.default)] {
        if !entries.is_empty() {
            continue;
        }
        match target.remove_xattr(name.as_bytes()) {
            // An attribute that is missing, or unsupported, need not be removed.
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(Errno::ACCESS) if !target.has_xattr(name.as_bytes()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets the mode, and returns it. A set-id bit is left out if the owner or group that it concerns differs from the source.
fn set_mode(
    target: &Target<'_>,
    meta: &FinalMeta,
    allowed: Allowed,
    lost: Lost,
    birth: Birth<'_>,
) -> Result<(u32, Lost), Errno> {
    let mut mode = allowed.mode(meta);
    if lost.has(Lost::OWNER) {
        mode &= !SET_USER_ID;
    }
    if lost.has(Lost::GROUP) {
        mode &= !SET_GROUP_ID;
    }
    if !birth.has_mode {
        target.chmod(mode)?;
    }
    let lost = if meta.mode & SET_ID_BITS & !mode == 0 {
        Lost::NOTHING
    } else {
        Lost::SET_ID
    };
    Ok((mode, lost))
}

fn set_acls(
    target: &Target<'_>,
    acls: &Acls,
    meta: &FinalMeta,
    allowed: Allowed,
) -> Result<Lost, Errno> {
    let mut lost = Lost::NOTHING;
    for (name, entries) in [(acl::ACCESS, &acls.access), (acl::DEFAULT, &acls.default)] {
        if entries.is_empty() {
            continue;
        }
        match target.set_xattr(name.as_bytes(), &acl::encode(entries)) {
            Ok(()) => {}
            Err(error) if target.cannot_hold(name.as_bytes(), error) => lost |= Lost::ACLS,
            Err(error) => return Err(error),
        }
    }
    if lost.has(Lost::ACLS) && !acls.access.is_empty() {
        // In a mode with an access list, the group's bits are the mask of the list. Without the list they could grant the group too much.
        target.chmod(narrowed(allowed.mode(meta), &acls.access))?;
    }
    Ok(lost)
}

/// The mode without the bits that only the access list's mask allows. Set-id bits are removed, too, because without the list
/// the intended users are unknown.
fn narrowed(mode: u32, access: &[AclEntry]) -> u32 {
    let group = access
        .iter()
        .find(|entry| entry.who == AclWho::OwningGroup)
        .map_or(0, |entry| u32::from(entry.permissions));
    mode & (0o1707 | group << 3)
}

#[cfg(test)]
mod tests;
