//! Owns the reading of files that have secrets: tokens, passwords, private keys, invitations, backups. A file that others can read is
//! refused. Does not interpret the contents of the files. Secret files that Godwit writes have mode 600.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Reason why a secret file cannot be used.
#[derive(Debug)]
pub enum SecretFileError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Others may read or change the file.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The permissions that the file should have.
        wanted: u32,
    },
    /// The file belongs to another user, who can read and change it.
    Foreign {
        /// The file.
        path: PathBuf,
        /// The user.
        owner: u32,
    },
    /// The file is longer than any file of this kind.
    TooLong {
        /// The file.
        path: PathBuf,
        /// The largest allowed length of the file.
        bytes_max: u64,
    },
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Exposed { path, mode, wanted } => write!(
                f,
                "{0} holds a secret, but other users can read it (mode {mode:03o}); forbid this with: chmod {wanted:03o} {0}. If others may have read it, replace the secret",
                path.display()
            ),
            Self::Foreign { path, owner } => write!(
                f,
                "{0} holds a secret, but belongs to another user (uid {owner}), who can read and change it; take the file over with: chown {1} {0}",
                path.display(),
                geteuid().as_raw()
            ),
            Self::TooLong { path, bytes_max } => write!(
                f,
                "{} is too long for a secret: at most {bytes_max} bytes",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SecretFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Exposed { .. } | Self::Foreign { .. } | Self::TooLong { .. } => None,
        }
    }
}

/// The content of a secret file.
///
/// # Errors
/// The file cannot be read, is longer than `bytes_max`, or [`check`] refuses it.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SecretFileError> {
    read_if(path, bytes_max, &|_| Ok(()))
}

/// The same, if the open file passes another check, too.
fn read_if(
    path: &Path,
    bytes_max: u64,
    is_good: &dyn Fn(&Metadata) -> Result<(), SecretFileError>,
) -> Result<Vec<u8>, SecretFileError> {
    let failed = |source| SecretFileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    is_good(&file.metadata().map_err(failed)?)?;
    check(path, &file)?;
    let mut content = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > bytes_max {
        return Err(SecretFileError::TooLong {
            path: path.to_owned(),
            bytes_max,
        });
    }
    Ok(content)
}

/// The content of a secret file that decides rights of this process. It must belong to the user of the process, or to root.
///
/// # Errors
/// As [`read`]; or the file belongs to another user.
pub fn read_own(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SecretFileError> {
    let failed = |source| SecretFileError::Read {
        path: path.to_owned(),
        source,
    };
    let is_own = |meta: &Metadata| {
        let owner = meta.uid();
        match is_foreign(owner, geteuid().as_raw()) {
            false => Ok(()),
            true => Err(SecretFileError::Foreign {
                path: path.to_owned(),
                owner,
            }),
        }
    };
    // The opening of a pipe of another user could wait without end.
    is_own(&fs::metadata(path).map_err(failed)?)?;
    // Another file may have got the name since.
    read_if(path, bytes_max, &is_own)
}

const fn is_foreign(owner: u32, user: u32) -> bool {
    owner != user && owner != 0
}

/// Checks that other users have no access to an open file. The group of a file of root may read it: with such a group root gives a service
/// access to the file.
///
/// # Errors
/// Other users may read or change the file, or the system returns an error.
pub fn check(path: &Path, file: &File) -> Result<(), SecretFileError> {
    let meta = file.metadata().map_err(|source| SecretFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mode = meta.mode() & 0o777;
    match wanted(mode, meta.uid(), geteuid().as_raw()) {
        None => Ok(()),
        Some(wanted) => Err(SecretFileError::Exposed {
            path: path.to_owned(),
            mode,
            wanted,
        }),
    }
}

/// The permissions that a file of this owner should have for a process of this user; `None` if its present permissions are sufficient.
const fn wanted(mode: u32, owner: u32, user: u32) -> Option<u32> {
    let (open, wanted) = match owner == 0 && user != 0 {
        true => (0o037, 0o640),
        false => (0o077, 0o600),
    };
    if mode & open == 0 { None } else { Some(wanted) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_of_a_third_user_is_foreign() {
        for (owner, user, is) in [(7, 7, false), (0, 7, false), (7, 0, true), (8, 7, true)] {
            assert_eq!(is_foreign(owner, user), is, "{owner} {user}");
        }
    }

    #[test]
    fn the_open_file_is_judged_and_not_the_name() {
        let directory = std::env::temp_dir().join(format!("godwit-secret-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let path = directory.join("secret");
        let mode = fs::Permissions::from_mode(0o600);
        for name in ["secret", "other"] {
            let file = directory.join(name);
            fs::write(&file, name).expect("written");
            fs::set_permissions(&file, mode.clone()).expect("set");
        }
        let judged = Cell::new(0);
        let is_good = |meta: &Metadata| {
            judged.set(meta.ino());
            // The name changes behind the opening.
            fs::rename(directory.join("other"), &path).expect("renamed");
            Ok(())
        };
        let before = fs::metadata(&path).expect("there").ino();
        let content = read_if(&path, 100, &is_good).expect("read");
        assert_eq!((content.as_slice(), judged.get()), (&b"secret"[..], before));
        assert_eq!(read_own(&path, 100).expect("own"), b"other");
        let no = |_: &Metadata| {
            Err(SecretFileError::Foreign {
                path: path.clone(),
                owner: 7,
            })
        };
        assert!(read_if(&path, 100, &no).is_err());
        fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn only_the_owner_may_read_and_a_group_to_which_root_gives_it() {
        for (mode, owner, user, fits) in [
            (0o600, 7, 7, None),
            (0o400, 7, 7, None),
            (0o640, 7, 7, Some(0o600)),
            (0o604, 7, 7, Some(0o600)),
            (0o622, 7, 7, Some(0o600)),
            (0o600, 0, 0, None),
            (0o640, 0, 0, Some(0o600)),
            (0o600, 7, 0, None),
            (0o640, 0, 7, None),
            (0o660, 0, 7, Some(0o640)),
            (0o644, 0, 7, Some(0o640)),
            (0o640, 8, 7, Some(0o600)),
        ] {
            assert_eq!(wanted(mode, owner, user), fits, "{mode:o} {owner} {user}");
        }
    }
}
