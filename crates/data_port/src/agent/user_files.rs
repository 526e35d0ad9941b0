//! Implements an agent's places: the file system of the user that runs it, with paths as that user would
//! type them. Restricts nothing; the kernel does, by the user's rights.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use godwit_net::IdentityId;
use godwit_proto::ErrorCode;

use godwit_store::Syncs;

use crate::allow::{Denial, Who};
use crate::places::{FailedSource, Places, SourcePlace, Target, TreeSource, TreeTarget};
use godwit_run::local::{self, Access};

pub(super) struct UserFiles {
    pub(super) sender: Vec<u8>,
    pub(super) spill: PathBuf,
    /// Directory for relative paths.
    pub(super) base: PathBuf,
    pub(super) syncs: Syncs,
}

impl UserFiles {
    /// An empty path, and a leading tilde, mean the user's home.
    fn resolve(&self, path: &[u8]) -> PathBuf {
        let below = match path {
            b"" | b"~" => b"",
            _ => path.strip_prefix(b"~/").unwrap_or(path),
        };
        let mut resolved = self.base.clone();
        if below.is_empty() {
            // With a trailing slash, the path names a directory, and sources are copied into it.
            resolved.push("");
        } else {
            // Absolute paths replace the base; a trailing slash stays.
            resolved.push(Path::new(OsStr::from_bytes(below)));
        }
        resolved
    }
}

impl Places for UserFiles {
    fn target(
        &self,
        who: &Who,
        path: &[u8],
        is_directory: bool,
        access: Access,
    ) -> Result<Target, Denial> {
        no_mandate(who)?;
        let mut place =
            local::destination(&self.resolve(path), None, &self.spill, access, &self.syncs)
                .map_err(|error| Denial::new(ErrorCode::DESTINATION, error.to_string()))?;
        place.is_directory |= is_directory;
        Ok(Target::Tree(TreeTarget {
            place,
            gives_owners: false,
            fence: None,
        }))
    }

    fn sources(
        &self,
        who: &Who,
        paths: &[Vec<u8>],
        access: Access,
    ) -> Result<Vec<SourcePlace>, Denial> {
        no_mandate(who)?;
        let mut sources = local::Sources::new(&self.spill, None, access);
        let find = |path: &Vec<u8>| {
            let path = self.resolve(path);
            match sources.find(&path) {
                Ok(found) => SourcePlace::Tree(TreeSource {
                    root: found.root,
                    name: found.name,
                    absolute: found.absolute,
                }),
                Err(error) => SourcePlace::Failed(FailedSource {
                    no: Denial::new(ErrorCode::SOURCE, error.to_string()),
                    fault: error.into_fault(&path),
                }),
            }
        };
        Ok(paths.iter().map(find).collect())
    }

    fn sender_name(&self, _peer: IdentityId) -> Vec<u8> {
        self.sender.clone()
    }

    fn may_ask(&self, _peer: IdentityId) -> Result<(), Denial> {
        Ok(())
    }
}

/// An agent acts for the one user that started it.
fn no_mandate(who: &Who) -> Result<(), Denial> {
    match who.mandate {
        None => Ok(()),
        Some(_) => Err(Denial::new(
            ErrorCode::NOT_SUPPORTED,
            "an agent cannot serve jobs of other sites; ask a node",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_what_they_do_in_a_shell_at_home() {
        let places = UserFiles {
            sender: Vec::new(),
            spill: PathBuf::new(),
            base: "/home/alice".into(),
            syncs: Syncs::default(),
        };
        for (path, resolved) in [
            ("", "/home/alice/"),
            ("~", "/home/alice/"),
            ("~/", "/home/alice/"),
            ("~/a b", "/home/alice/a b"),
            ("a/b/", "/home/alice/a/b/"),
            ("../x", "/home/alice/../x"),
            ("/data/~/x", "/data/~/x"),
            ("~bob", "/home/alice/~bob"),
        ] {
            let found = places.resolve(path.as_bytes());
            assert_eq!(found.as_os_str(), resolved, "{path}");
        }
    }
}
