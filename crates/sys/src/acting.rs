//! Owns whose rights a thread uses on files: for a time, those of the owner of a directory in place of root's.
//! Does not decide for which directories.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::replaceable;

/// While this lives, this thread has the rights of another user. Dropping it gives root's rights back.
///
/// Root must not write by name in a directory of another user: that user can replace each name by a link to a file of root.
#[derive(Debug)]
#[must_use = "the rights of root come back when this is dropped"]
pub struct Acting {
    /// Groups of root; `None` if the process is not root, or root owns the directory.
    back: Option<Groups>,
    /// The rights are those of one thread.
    _stays: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Groups {
    effective: Gid,
    others: Vec<Gid>,
}

impl Acting {
    /// Takes the rights of the owner of `directory` if the process is root and another user owns the directory. Changes nothing
    /// otherwise, also if the directory is missing. Threads that this one starts meanwhile have these rights, too, and keep them.
    ///
    /// # Errors
    /// The directory cannot be looked at, another user could replace it, or root lacks the capability to change its ids.
    pub fn as_owner_of(directory: &Path) -> io::Result<Self> {
        let mut acting = Self {
            back: None,
            _stays: PhantomData,
        };
        if !geteuid().is_root() {
            return Ok(acting);
        }
        let owner = match fs::metadata(directory) {
            Ok(owner) => owner,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(acting),
            Err(error) => return Err(error),
        };
        // A third user could put another directory in its place at any time, or has led here by a link to what the owner has elsewhere.
        if let Some(weakness) = replaceable::weakness(directory, owner.uid())? {
            let what = weakness.words(&directory.display().to_string());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if owner.uid() == 0 {
            return Ok(acting);
        }
        let group = Gid::from_raw(owner.gid());
        // From here on a failure gives the rights of root back.
        acting.back = Some(Groups {
            effective: getegid(),
            others: getgroups()?,
        });
        set_thread_groups(&[group])?;
        set_thread_res_gid(None, group, None)?;
        set_thread_res_uid(None, Uid::from_raw(owner.uid()), None)?;
        Ok(acting)
    }

    /// Whether the thread uses the rights of another user.
    #[must_use]
    pub const fn is_other(&self) -> bool {
        self.back.is_some()
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let Some(before) = self.back.take() else {
            return;
        };
        // The real user is still root, so these calls are allowed.
        let _ = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, before.effective, None))
            .and_then(|()| set_thread_groups(&before.others));
    }
}
