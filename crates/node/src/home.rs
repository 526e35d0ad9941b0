//! Checks that only the user of the node can change its home.
//! Does not find the home: the command does.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use godwit_api::failure::{Failure, FailureCode};
use godwit_run::Home;
use godwit_sys::replaceable;
use rustix::process::geteuid;

/// Files of a home that decide who may do what. Files with secrets are checked where they are read.
const DECIDING: [&str; 4] = ["grants", "known_peers", "config.toml", "cluster.json"];

/// Refuses a directory that others can change or replace: it controls which exports a node has, for whom, and with which key.
pub(crate) fn check(home: &Home) -> Result<(), Failure> {
    let shown = home.path().display().to_string();
    let unusable = |what: String| Failure::new(FailureCode::HomeUnusable, what);
    let meta = fs::metadata(home.path()).map_err(|error| unusable(format!("{shown}: {error}")))?;
    let own = geteuid().as_raw();
    if let Some(what) = trouble(&shown, meta.mode(), meta.uid(), own) {
        return Err(unusable(what));
    }
    let weakness = replaceable::weakness(home.path(), own)
        .map_err(|error| unusable(format!("{shown}: {error}")))?;
    if let Some(weakness) = weakness {
        return Err(unusable(weakness.words(&shown)));
    }
    let files = DECIDING.map(|name| home.path().join(name));
    files.iter().try_for_each(|file| check_file(file))
}

/// Refuses a file that decides rights of the node if others can change or replace it. The file may be missing.
pub(crate) fn check_file(file: &Path) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let unusable = |what: String| Failure::new(FailureCode::HomeUnusable, what);
    let own = geteuid().as_raw();
    let Ok(meta) = fs::metadata(file) else {
        return Ok(());
    };
    if meta.uid() != own && meta.uid() != 0 {
        return Err(unusable(format!(
            "{shown} belongs to another user (uid {}), who could change the rights of this node; take the file over with: chown {own} {shown}",
            meta.uid()
        )));
    }
    if replaceable::is_open(file, &meta) {
        return Err(unusable(format!(
            "other users may write {shown} (mode {:03o}), and could change the rights of this node; forbid this with: chmod go-w {shown}",
            meta.mode() & 0o777
        )));
    }
    check_way(file)
}

/// Refuses a file that others can replace by a directory or a link on the way to it. The file may be missing.
pub(crate) fn check_way(file: &Path) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let unusable = |what: String| Failure::new(FailureCode::HomeUnusable, what);
    match replaceable::weakness(file, geteuid().as_raw()) {
        Ok(None) => Ok(()),
        Ok(Some(weakness)) => Err(unusable(weakness.words(&shown))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unusable(format!("{shown}: {error}"))),
    }
}

/// Names the fault of a home that other users can change, and a remedy. The sticky bit does not stop such users from adding a missing file.
fn trouble(shown: &str, mode: u32, owner: u32, own: u32) -> Option<String> {
    if owner != own && owner != 0 {
        return Some(format!(
            "{shown} belongs to another user (uid {owner}), who could change exports and grants of this node; set \
             GODWIT_HOME to one of your own directories, or take this directory over with: chown -R {own} {shown}"
        ));
    }
    (mode & 0o022 != 0).then(|| {
        format!(
            "other users may write in {shown} (mode {:03o}), and could change exports and grants of this node; forbid this with: chmod go-w {shown}",
            mode & 0o777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::XattrFlags;
    use rustix::io::Errno;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_home_below_a_directory_of_others_is_refused() {
        let own = tempfile::tempdir().expect("a directory");
        let (shared, link) = (own.path().join("shared"), own.path().join("link"));
        let home = shared.join("home");
        fs::create_dir_all(&home).expect("made");
        set_mode(&home, 0o700);
        symlink(&shared, &link).expect("linked");
        let said = |path: &Path| check(&Home::at(path.to_owned())).map_err(|error| error.message);
        for (mode, is_refused) in [(0o755, false), (0o757, true), (0o1757, false)] {
            set_mode(&shared, mode);
            for path in [home.clone(), link.join("home")] {
                let said = said(&path);
                assert_eq!(said.is_err(), is_refused, "{mode:o} {path:?} {said:?}");
                if let Err(said) = said {
                    assert!(said.contains("chmod go-w"), "{said}");
                }
            }
        }
        set_mode(&shared, 0o755);
        let grants = home.join("grants");
        fs::write(&grants, "").expect("written");
        set_mode(&grants, 0o666);
        assert!(said(&home).expect_err("open to all").contains("grants"));
        set_mode(&grants, 0o600);
        said(&home).expect("closed again");
    }

    /// An access list: of the owner, perhaps a named user (tag 2) or group (8), the owning group, the mask, others.
    fn access_list(named: Option<(u16, u32)>) -> Vec<u8> {
        let named = named.map(|(tag, id)| (tag, 7, id));
        let mut entries = vec![(1, 7, u32::MAX), (4, 5, u32::MAX)];
        entries.extend(named);
        entries.extend([(16, 7, u32::MAX), (32, 5, u32::MAX)]);
        entries.sort_by_key(|(tag, ..)| *tag);
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(u16::to_le_bytes(permissions));
            value.extend(id.to_le_bytes());
        }
        value
    }

    #[test]
    fn a_home_below_a_directory_that_an_access_list_opens_is_refused() {
        let own = tempfile::tempdir().expect("a directory");
        let shared = own.path().join("shared");
        fs::create_dir_all(shared.join("home")).expect("made");
        set_mode(&shared.join("home"), 0o700);
        set_mode(&shared, 0o755);
        let (user, group) = (2, 8);
        for (named, is_refused) in [
            (None, false),
            (Some((user, 54_321)), true),
            (Some((group, 54_321)), true),
            (Some((user, 0)), false),
        ] {
            let list = access_list(named);
            let name = "system.posix_acl_access";
            let set = rustix::fs::setxattr(&shared, name, &list, XattrFlags::empty());
            if set == Err(Errno::OPNOTSUPP) {
                return;
            }
            set.expect("ours");
            let said = check(&Home::at(shared.join("home")));
            assert_eq!(said.is_err(), is_refused, "{named:?} {said:?}");
        }
    }

    #[test]
    fn a_home_that_others_may_change_is_refused() {
        let (own, other) = (1_000, 1_001);
        for (mode, owner) in [(0o700, own), (0o755, own), (0o750, 0)] {
            assert_eq!(trouble("/h", mode, owner, own), None, "{mode:o} {owner}");
        }
        for (mode, owner, words) in [
            (0o700, other, "chown -R 1000 /h"),
            (0o1777, own, "chmod go-w /h"),
            (0o775, 0, "mode 775"),
        ] {
            let said = trouble("/h", mode, owner, own).expect("refused");
            assert!(said.contains(words), "{said}");
        }
    }
}
