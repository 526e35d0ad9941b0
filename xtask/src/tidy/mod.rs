//! Owns the house rules that a program can check, over the whole tree; `cargo test -p xtask` and `cargo xtask tidy` run
//! them. Does not repeat the checks of clippy and rustfmt.

mod deciders;
mod documents;
mod edges;
mod functions;
mod groups;
mod links;
mod methods;
mod modules;
mod names;
mod prose;
mod text;
mod tree;

use std::fmt;
use std::io::Write as _;
use std::path::Path;

use anyhow::bail;

/// A violated rule, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    /// Counted from 1; 0 stands for the whole file.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        Self { path, line, what }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Checks all rules below `root`.
///
/// # Errors
/// The tree cannot be read.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = tree::read(root)?;
    let mut findings = Vec::new();
    for file in &files {
        text::check(file, &mut findings);
    }
    documents::check(&files, &mut findings);
    edges::check(&files, &mut findings);
    groups::check(&files, &mut findings);
    modules::check(&files, &mut findings);
    methods::check(&files, &mut findings);
    functions::check(&files, &mut findings);
    links::check(&files, &mut findings);
    deciders::check(&files, &mut findings);
    prose::check(&files, &mut findings);
    names::check(&files, &mut findings);
    Ok(findings)
}

/// Checks this repository and prints the findings.
///
/// # Errors
/// There are findings.
pub(crate) fn run() -> anyhow::Result<()> {
    let findings = check(godwit_kit::bench::workspace())?;
    for finding in &findings {
        writeln!(std::io::stdout(), "{finding}")?;
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} house rules are broken"),
    }
}

/// Prints the reading ease of the documents that users read from the beginning.
///
/// # Errors
/// The tree cannot be read.
pub(crate) fn ease() -> anyhow::Result<()> {
    for file in tree::read(godwit_kit::bench::workspace())? {
        let is_document = file.path.ends_with(".md")
            && (file.path.starts_with("docs/") || !file.path.contains('/'));
        if is_document && !file.path.starts_with("docs/decisions/") {
            let words = file.text.split_whitespace().count();
            let ease = prose::ease(&file.text);
            writeln!(std::io::stdout(), "{ease:5.1} {words:6} {}", file.path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = check(godwit_kit::bench::workspace()).expect("read the tree");
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
