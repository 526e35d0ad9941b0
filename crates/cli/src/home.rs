//! Finds `GODWIT_HOME` by the environment, and takes the rights of its owner.
//! Does not know the contents (`godwit_run::Home`).

use crate::exit::{Failure, FailureCode};
pub(crate) use godwit_run::Home;
use godwit_sys::acting::Acting;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Finds the directory; it may be missing.
pub(crate) fn find() -> Result<Home, Failure> {
    Ok(Home::at(locate(&|name| std::env::var_os(name))?))
}

/// Finds the directory, and makes it if it is missing. Root uses no home of another user: that user could lead root astray by links.
pub(crate) fn open() -> Result<Home, Failure> {
    let home = find()?;
    if as_owner(&home)?.is_other() {
        let shown = home.path().display();
        let uid = fs::metadata(home.path()).map_or(0, |meta| meta.uid());
        let what = format!(
            "{shown} belongs to another user (uid {uid}); run the command as that user, or set GODWIT_HOME to a directory of root"
        );
        return Err(Failure::new(FailureCode::HomeUnusable, what));
    }
    home.make()?;
    Ok(home)
}

/// The rights of the home's owner, for a command of root that writes there: the owner must be able to read the files, and its links
/// must lead root nowhere.
pub(crate) fn as_owner(home: &Home) -> Result<Acting, Failure> {
    let path = home.path();
    Acting::as_owner_of(path).map_err(|error| {
        let what = format!("{}: cannot act as the owner: {error}", path.display());
        Failure::new(FailureCode::HomeUnusable, what)
    })
}

fn locate(environment: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let get = |name| {
        environment(name)
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    };
    if let Some(home) = get("GODWIT_HOME") {
        // Made absolute now, so that the path stays the same in any working directory.
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
