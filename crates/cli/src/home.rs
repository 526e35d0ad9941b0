//! Finds `GODWIT_HOME` by the environment.
//! Does not know what is in it (`godwit_run::Home`).

use crate::exit::Failure;
use godwit_api::failure::FailureCode;
pub(crate) use godwit_run::Home;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Finds the directory; it may be missing.
pub(crate) fn find() -> Result<Home, Failure> {
    Ok(Home::at(locate(&|name| std::env::var_os(name))?))
}

/// Finds the directory and makes it where it is missing.
pub(crate) fn open() -> Result<Home, Failure> {
    let home = find()?;
    home.make()?;
    Ok(home)
}

/// Refuses a directory that others can change: it says what a node exports, to whom, and by which key.
pub(crate) fn check(home: &Home) -> Result<(), Failure> {
    let shown = home.path().display().to_string();
    let unusable = |what: String| Failure::new(FailureCode::HomeUnusable, what);
    let meta = fs::metadata(home.path()).map_err(|error| unusable(format!("{shown}: {error}")))?;
    let own = geteuid().as_raw();
    trouble(&shown, meta.mode(), meta.uid(), own).map_or(Ok(()), |what| Err(unusable(what)))
}

/// Which other user can change the files of a home, and the command that ends it. The sticky bit keeps nobody from adding a file that is missing.
fn trouble(shown: &str, mode: u32, owner: u32, own: u32) -> Option<String> {
    if owner != own && owner != 0 {
        return Some(format!(
            "{shown} belongs to another user (uid {owner}), who decides by it what this node exports and to whom; name a directory of your \
             own by GODWIT_HOME, or have this one given to you with: chown -R {own} {shown}"
        ));
    }
    (mode & 0o022 != 0).then(|| {
        format!(
            "other users may write in {shown} (mode {:03o}), and so decide what this node exports and to whom; close it with: chmod go-w {shown}",
            mode & 0o777
        )
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
    fn a_home_is_nobody_elses_to_change() {
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

    #[test]
    fn a_relative_home_becomes_absolute() {
        let here = std::env::current_dir().expect("somewhere");
        assert_eq!(located(&[("GODWIT_HOME", "g")]), Some(here.join("g")));
    }
}
