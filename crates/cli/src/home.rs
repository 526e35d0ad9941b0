//! `GODWIT_HOME`: the one directory that holds keys, known peers, grants, journals and the settings file.
//! Knows where things are, not what is in them.

use crate::exit::Failure;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory; it exists and, if it was made here, only its owner may enter.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    path: PathBuf,
}

impl Home {
    /// Finds the directory by the environment; it may be missing.
    pub(crate) fn find() -> Result<Self, Failure> {
        Ok(Self {
            path: locate(&|name| std::env::var_os(name))?,
        })
    }

    /// Finds the directory by the environment and makes it where it is missing.
    pub(crate) fn open() -> Result<Self, Failure> {
        let home = Self::find()?;
        make(&home.path)?;
        Ok(home)
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The settings file, which may be absent.
    pub(crate) fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// Where receivers keep their journals.
    pub(crate) fn journals(&self) -> Result<PathBuf, Failure> {
        self.directory("journals")
    }

    /// Where scans put what memory shall not hold.
    pub(crate) fn spill(&self) -> Result<PathBuf, Failure> {
        self.directory("spill")
    }

    /// Where the sockets of transfers are that run.
    pub(crate) fn running(&self) -> Result<PathBuf, Failure> {
        self.directory("running")
    }

    fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        make(&path)?;
        Ok(path)
    }
}

fn make(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| {
            Failure::failed(format!(
                "{}: this directory for keys and journals cannot be made: {error}; set GODWIT_HOME to one that is yours to write",
                path.display()
            ))
        })
}

fn locate(environment: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let get = |name| {
        environment(name)
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    };
    if let Some(home) = get("GODWIT_HOME") {
        // Made absolute now, so that it stays the same wherever the program goes.
        return std::path::absolute(&home)
            .map_err(|error| Failure::usage(format!("GODWIT_HOME={}: {error}", home.display())));
    }
    // The XDG rules: a relative path there counts as not set.
    if let Some(data) = get("XDG_DATA_HOME").filter(|path| path.is_absolute()) {
        return Ok(data.join("godwit"));
    }
    get("HOME")
        .filter(|path| path.is_absolute())
        .map(|home| home.join(".local/share/godwit"))
        .ok_or_else(|| {
            Failure::usage("neither GODWIT_HOME nor HOME is set: set GODWIT_HOME to a directory for keys and journals")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(variables: &[(&str, &str)]) -> Option<PathBuf> {
        locate(&|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, text)| text.into())
        })
        .ok()
    }

    #[test]
    fn the_first_directory_named_counts() {
        let all = [
            ("GODWIT_HOME", "/g"),
            ("XDG_DATA_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(located(&all), Some("/g".into()));
        assert_eq!(located(&all[1..]), Some("/x/godwit".into()));
        assert_eq!(located(&all[2..]), Some("/h/.local/share/godwit".into()));
        assert_eq!(located(&[]), None);
        assert_eq!(
            located(&[("GODWIT_HOME", ""), ("XDG_DATA_HOME", "x"), ("HOME", "/h")]),
            Some("/h/.local/share/godwit".into())
        );
    }

    #[test]
    fn a_relative_home_becomes_absolute() {
        let here = std::env::current_dir().expect("somewhere");
        assert_eq!(located(&[("GODWIT_HOME", "g")]), Some(here.join("g")));
    }
}
