//! Owns the bare scan: the smallest program that examines each entry of a tree, as a reference for second
//! runs. Compares nothing.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command, value_parser};

/// The command line; the benchmark is its only user.
pub fn command() -> Command {
    Command::new("scan")
        .about("Look at every entry of a tree, and say how many there are")
        .hide(true)
        .arg(
            Arg::new("directory")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
}

/// Scans depth first, one system call for each entry and a few for each directory.
///
/// # Errors
/// The tree cannot be read.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let root: &PathBuf = matches.get_one("directory").context("no directory")?;
    let (mut entries, mut newest) = (0_u64, None);
    let mut waiting = vec![root.clone()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            newest = newest.max(Some(meta.modified()?));
            entries += 1;
            if meta.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    writeln!(std::io::stdout(), "{entries} entries, newest {newest:?}")?;
    Ok(())
}
