//! Owns the check of an ended job: whether the arrived data equals the sent data, and which files remained. Transfers nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::data::Amount;
use super::sites::Sites;

/// Number of differences that are named.
const NAMED_MAX: usize = 5;

/// rsync's mark for a directory of which only the time differs.
const DIRECTORY_TIME: &str = ".d..t......";

/// The time at which a copy is checked.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum When {
    /// At the end of the job.
    AtItsEnd,
    /// After all nodes have returned. A call that hung in the kernel makes its name when the mount returns, and the node removes
    /// the name. The time of the directory is different then, which no program can prevent.
    Later,
}

/// Messages for all faults found; empty if there are none.
///
/// # Errors
/// The sites cannot be examined.
pub(crate) fn judge(
    sites: &Sites,
    job: &Value,
    source: &Path,
    copy: &Path,
    sent: Amount,
    when: When,
) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let state = job["state"].as_str().unwrap_or("unknown");
    if state != "complete" {
        wrong.push(format!("the job is {state}: {}", job["reason"]));
    }
    let mut differences = differences(source, copy)?;
    differences.retain(|line| when == When::AtItsEnd || !line.starts_with(DIRECTORY_TIME));
    if !differences.is_empty() {
        wrong.push(format!("rsync would change {}", some(&differences)));
    }
    let export = sites.shared(sites.shape.sources);
    let temporaries = temporaries(&export)?;
    if !temporaries.is_empty() {
        wrong.push(format!("left behind: {}", some(&temporaries)));
    }
    // A file counts once, even if one node transfers it and another node then finds it complete.
    let files = job["summary"]["files"].as_u64().unwrap_or(0);
    if files > sent.files {
        wrong.push(format!(
            "{files} files were delivered of {}: some counted twice",
            sent.files
        ));
    }
    Ok(wrong)
}

/// The changes that rsync would make: names of entries and their differences.
fn differences(source: &Path, copy: &Path) -> anyhow::Result<Vec<String>> {
    let slash = |path: &Path| path.join("");
    let output = Command::new("rsync")
        .args(["-aH", "--checksum", "--delete", "--dry-run"])
        .arg("--itemize-changes")
        .args([slash(source), slash(copy)])
        .output()
        .context("cannot run rsync")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "rsync: {complaint}");
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(str::to_owned).collect())
}

/// Temporary files in a directory and below it.
fn temporaries(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".godwit") {
                found.push(entry.path().display().to_string());
            } else if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Journals that remain in the homes of the nodes.
pub(crate) fn journals(sites: &Sites) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for node in &sites.nodes {
        let entries = fs::read_dir(node.home().join("journals"));
        let entries = entries.into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path()).filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "journal")
        }));
    }
    found
}

/// Items of divided jobs that remain in the state of a node, as `sqlite3` reports; `None` if the state cannot be read.
pub(crate) fn items(home: &Path) -> Option<u64> {
    query(
        &home.join("state/state.db"),
        "SELECT count(*) FROM work_items",
    )
}

/// One number from a database that another process has open.
pub(crate) fn query(database: &Path, query: &str) -> Option<u64> {
    let output = Command::new("sqlite3")
        .arg("-readonly")
        .arg(database)
        .arg(query)
        .output()
        .ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn some(all: &[String]) -> String {
    let named = all.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    format!("{} entries: {}", all.len(), named.join(", "))
}
