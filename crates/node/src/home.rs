//! Checks that only the user of the node can change its home.
//! Does not find the home: the command does.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use godwit_api::failure::{Failure, FailureCode};
use godwit_run::Home;
use rustix::process::geteuid;

/// Refuses a directory that others can change: it controls which exports a node has, for whom, and with which key.
pub(crate) fn check(home: &Home) -> Result<(), Failure> {
    let shown = home.path().display().to_string();
    let unusable = |what: String| Failure::new(FailureCode::HomeUnusable, what);
    let meta = fs::metadata(home.path()).map_err(|error| unusable(format!("{shown}: {error}")))?;
    let own = geteuid().as_raw();
    trouble(&shown, meta.mode(), meta.uid(), own).map_or(Ok(()), |what| Err(unusable(what)))
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
}
