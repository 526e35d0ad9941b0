//! Owns the Unix socket of the API: its directory, its permissions, and that no other node listens there.
//! Takes no connection.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use godwit_sys::replaceable;

use crate::machine::{ROOT, own_uid};

/// Makes the socket for all users of this machine. The user of the calling process decides the rights.
pub(crate) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(directory) = path.parent() {
        make(directory)?;
    }
    check_directory(path)?;
    if let Ok(found) = fs::symlink_metadata(path) {
        let kind = found.file_type();
        if !kind.is_socket() && !kind.is_symlink() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another file is there, which is no socket; name another path with --socket",
            ));
        }
        if StdUnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another node answers there; stop it first",
            ));
        }
        fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Makes the directory if it is missing. An existing directory may belong to the system and keeps its permissions. This also holds for a
/// directory or link that appears at this moment.
fn make(directory: &Path) -> io::Result<()> {
    if let Some(above) = directory
        .parent()
        .filter(|above| !above.as_os_str().is_empty())
    {
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(above)?;
    }
    match DirBuilder::new().mode(0o711).create(directory) {
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(0o711)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) if directory.as_os_str().is_empty() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a directory in which other users could replace this socket with theirs.
fn check_directory(socket: &Path) -> io::Result<()> {
    let directory = socket
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let meta = fs::metadata(directory)?;
    let shown = directory.display().to_string();
    let above = || -> io::Result<Option<String>> {
        let weakness = replaceable::weakness(directory, own_uid())?;
        Ok(weakness.map(|weakness| weakness.words(&shown)))
    };
    match trouble(&shown, meta.mode(), meta.uid(), own_uid()) {
        Some(trouble) => Some(trouble),
        None => above()?,
    }
    .map_or(Ok(()), |trouble| {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, trouble))
    })
}

/// Describes who else could replace files in a directory, and the remedy. The sticky bit excludes all but the owner of the directory.
fn trouble(shown: &str, mode: u32, owner: u32, own: u32) -> Option<String> {
    if owner != own && owner != ROOT {
        return Some(format!(
            "{shown} belongs to another user (uid {owner}), who could replace files in this directory, including the socket; \
             name one of your own directories with --socket, or take this directory over with: chown {own} {shown}"
        ));
    }
    let (of_others, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    (of_others && !sticky).then(|| {
        format!(
            "other users could replace files in {shown} (mode {:03o}), including the socket; forbid this with: chmod go-w {shown}",
            mode & 0o777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_there_keeps_its_permissions_behind_a_link_too() {
        let own = tempfile::tempdir().expect("a directory");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        let (system, link) = (own.path().join("system"), own.path().join("link"));
        fs::create_dir(&system).expect("made");
        fs::set_permissions(&system, Permissions::from_mode(0o755)).expect("ours");
        std::os::unix::fs::symlink(&system, &link).expect("made");
        for there in [&system, &link] {
            make(there).expect("there");
            assert_eq!(mode(&system), 0o755);
        }
        let new = own.path().join("a/b");
        make(&new).expect("made");
        assert_eq!(mode(&new), 0o711);
    }

    #[test]
    fn a_socket_that_is_left_over_is_replaced_and_no_other_file_is() {
        let own = tempfile::tempdir().expect("a directory");
        let at = |name: &str| own.path().join(name);
        fs::write(at("identity.pem"), "a key").expect("written");
        fs::create_dir(at("directory")).expect("made");
        for name in ["identity.pem", "directory"] {
            let error = bind(&at(name)).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
        }
        assert_eq!(fs::read(at("identity.pem")).expect("there"), b"a key");
        drop(bind(&at("node.sock")).expect("bound"));
        let again = bind(&at("node.sock")).expect("bound again");
        let other = bind(&at("node.sock")).expect_err("in use");
        assert_eq!(other.kind(), io::ErrorKind::AddrInUse, "{other}");
        drop(again);
    }

    #[test]
    fn a_directory_in_which_another_user_replaces_files_is_refused_with_what_to_do() {
        let (own, other) = (1_000, 1_001);
        let says = |mode: u32, owner: u32| trouble("/run/x", mode, owner, own);
        for (mode, owner) in [(0o700, own), (0o755, ROOT), (0o1777, ROOT), (0o1777, own)] {
            assert_eq!(says(mode, owner), None, "{mode:o} {owner}");
        }
        for (mode, owner, words) in [
            (0o700, other, "chown 1000 /run/x"),
            (0o1777, other, "uid 1001"),
            (0o777, own, "chmod go-w /run/x"),
            (0o775, ROOT, "mode 775"),
        ] {
            let said = says(mode, owner).expect("refused");
            assert!(said.contains(words) && said.contains("/run/x"), "{said}");
        }
    }
}
