//! Owns giving an entry its metadata: owner, attributes, mode, access lists, times, in the order in which none undoes another.
//! Does not open anything and does not decide which attributes are wanted.
//!
//! Metadata is given under the temporary name, and so synced with the contents. Kinds of metadata that cannot be kept come back
//! as `Lost`.

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

/// How the entry was made.
#[derive(Clone, Copy)]
pub(super) struct Birth<'a> {
    /// The entry was made with its final mode.
    pub(super) has_mode: bool,
    /// We created the entry, and no other program has set its attributes since.
    pub(super) is_new: bool,
    /// Its directory may have given it an access list.
    pub(super) inherits: bool,
    /// Whether a file system that holds the entry's directory was seen to keep the attributes that it accepts. Without it, each entry is
    /// checked.
    pub(super) keeps: Option<&'a AtomicBool>,
}

/// Gives the entry the attributes in `meta`. Returns the kinds that could not be kept; an error instead if `meta` is strict.
pub(super) fn apply(
    target: &Target<'_>,
    meta: &FinalMeta,
    allowed: Allowed,
    mut birth: Birth<'_>,
) -> Result<Lost, Trouble> {
    let mut lost = Lost::NOTHING;
    // Before the mode, since it clears set-id bits, and before the attributes, since it clears capabilities.
    if meta.uid.is_some() || meta.gid.is_some() {
        lost |= give(target, meta, allowed)?;
    }
    // Before the mode, which may take the right to write them from us.
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
    // After the mode, which would change the list's mask.
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
    // An access list sets the permissions of the mode again.
    let listed = acls.map_or(0, |acls| 0o777 * u32::from(!acls.access.is_empty()));
    strict(lost | read_back(target, meta, mode, !listed, birth)?)
}

/// The attributes that the file system has accepted but does not keep. Once it has kept a mode and a time in a directory, only attributes
/// that not every file system keeps are checked again. Only the bits of `compared` of the mode count.
fn read_back(
    target: &Target<'_>,
    meta: &FinalMeta,
    mode: Option<u32>,
    compared: u32,
    birth: Birth<'_>,
) -> Result<Lost, Errno> {
    let may_lose_group_id = mode.is_some_and(|mode| mode & SET_GROUP_ID != 0);
    if birth.keeps.is_some_and(|keeps| keeps.load(Relaxed))
        && times::is_common(meta.mtime)
        && !may_lose_group_id
    {
        return Ok(Lost::NOTHING);
    }
    let there = meta_of(&target.stat()?);
    let mut lost = match times::kept(there.mtime, meta.mtime) {
        Kept::Exactly | Kept::Cut => Lost::NOTHING,
        // Another may have made a name in it since.
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

/// Changes owner and group, as far as that is allowed to us and by us.
fn give(target: &Target<'_>, meta: &FinalMeta, allowed: Allowed) -> Result<Lost, Errno> {
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
        // A user that may not give files away may still give them to one of the user's groups.
        match target.chown(uid, gid) {
            Ok(()) => {}
            Err(error) if is_refused(error) => lost |= kind,
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

/// Makes the attributes those that are given, among the classes that we may touch.
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

/// A file without write permission that its owner made writable while attributes are set. The kernel requires it even of an owner who has
/// the file open for writing.
#[derive(Default)]
struct Opened {
    /// The mode before.
    from: Option<u32>,
}

impl Opened {
    /// Calls `act`; once more with write permission if the file lacks it and we own the file.
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

    /// Restores the mode. The error that led here takes precedence.
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

/// Takes away the access lists that the entry should not have.
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

/// Sets the mode, and returns it. A set-id bit is left out if its owner or group differs from the source.
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
        // The group's bits of a mode with a list are its mask: without the list they would let the group do more than it may.
        target.chmod(narrowed(allowed.mode(meta), &acls.access))?;
    }
    Ok(lost)
}

/// The mode without the bits that only the access list's mask allows. Set-id bits go too, because without the list the intended users are
/// unknown.
fn narrowed(mode: u32, access: &[AclEntry]) -> u32 {
    let group = access
        .iter()
        .find(|entry| entry.who == AclWho::OwningGroup)
        .map_or(0, |entry| u32::from(entry.permissions));
    mode & (0o1707 | group << 3)
}

#[cfg(test)]
mod tests;
