//! Owns the places of the node that no export may reach: its home, and the files elsewhere that decide its rights.
//! Reads none of them. The node also compares their paths at its start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_store::{DirectoryId, RootDirectory};

/// The node's own places.
#[derive(Clone, Debug, Default)]
pub struct OwnPlaces(Option<Arc<Own>>);

#[derive(Debug)]
struct Own {
    home: PathBuf,
    /// Directories of files outside of the home.
    directories: Vec<PathBuf>,
}

impl OwnPlaces {
    /// The home, and these files; a file need not exist yet.
    #[must_use]
    pub fn new(home: PathBuf, files: &[&Path]) -> Self {
        let directory = |file: &&Path| {
            let file = std::path::absolute(file).ok()?;
            file.parent().map(Path::to_owned)
        };
        Self(Some(Arc::new(Own {
            home,
            directories: files.iter().filter_map(directory).collect(),
        })))
    }

    /// Whether the directory lies in the home, or contains one of the places.
    pub(super) fn meet(&self, root: &RootDirectory) -> io::Result<bool> {
        let Some(own) = &self.0 else {
            return Ok(false);
        };
        let lineage = root.lineage()?;
        let Some(itself) = lineage.first() else {
            return Ok(false);
        };
        let home = above(&own.home)?;
        if home.contains(itself) || home.first().is_some_and(|home| lineage.contains(home)) {
            return Ok(true);
        }
        for directory in &own.directories {
            match above(directory) {
                Ok(above) if above.contains(itself) => return Ok(true),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// A directory, by its path through links, and the directories above it.
fn above(directory: &Path) -> io::Result<Vec<DirectoryId>> {
    let real = std::fs::canonicalize(directory)?;
    let root = RootDirectory::real(&real).map_err(io::Error::other)?;
    root.lineage()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_reaches_a_place_of_the_node_meets_it() {
        let place = tempfile::tempdir().expect("made");
        let top = std::fs::canonicalize(place.path()).expect("real");
        for name in ["up/node/state", "keys/x", "data"] {
            std::fs::create_dir_all(top.join(name)).expect("made");
        }
        std::os::unix::fs::symlink("up/node", top.join("link")).expect("made");
        let files = [top.join("keys/key.pem"), top.join("not/there/yet")];
        let files = files.each_ref().map(PathBuf::as_path);
        let own = OwnPlaces::new(top.join("link"), &files);
        for (name, meets) in [
            ("up/node", true),
            ("up/node/state", true),
            ("up", true),
            ("", true),
            ("keys", true),
            ("keys/x", false),
            ("data", false),
        ] {
            let root = RootDirectory::real(&top.join(name)).expect("opened");
            assert_eq!(own.meet(&root).expect("seen"), meets, "{name}");
        }
        std::fs::rename(top.join("data"), top.join("old")).expect("ours");
        std::fs::rename(top.join("up/node"), top.join("data")).expect("ours");
        // The home is not where it was, so nothing is exported.
        let root = RootDirectory::real(&top.join("data")).expect("opened");
        assert!(own.meet(&root).is_err());
    }
}
