//! Owns the rule that each link of a document leads to an existing file and heading. Ignores
//! addresses outside the repository.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::File;

/// Checks the links of all Markdown documents.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let headings: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path.as_str(), headings(&file.text)))
        .collect();
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, link) in links(&file.text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = resolve(&file.path, path);
            let is_there = paths.contains(path.as_str())
                || paths
                    .iter()
                    .any(|other| other.starts_with(&format!("{path}/")))
                || is_binary(&path);
            let has_heading = anchor.is_empty()
                || headings
                    .get(path.as_str())
                    .is_some_and(|headings| headings.contains(anchor));
            if !is_there || !has_heading {
                findings.push(Finding::new(
                    &file.path,
                    line,
                    format!("a dead link: {link}"),
                ));
            }
        }
    }
}

/// Whether a file is not text, and therefore not among the read files.
fn is_binary(path: &str) -> bool {
    [".png", ".webp", ".gif"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// The links to files of the repository, and their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            let Some((link, _)) = part.split_once(')') else {
                continue;
            };
            if !link.contains("://") && !link.starts_with("mailto:") {
                found.push((index + 1, link));
            }
        }
    }
    found
}

/// The path of a link in the document `from`.
fn resolve(from: &str, link: &str) -> String {
    if link.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of the headings, as the common renderers make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        found.insert(anchor);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let text = "[a](b.md)\n[a](b.md#an-end)\n[a](c.md)\n[a](b.md#none)\n[a](../README.md)\n[a](#here)\n[a](https://example.org)\n";
        let files = [
            file("docs/a.md", text),
            file("docs/b.md", "# An *end*\n"),
            file("README.md", "# R\n"),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4, 6]);
    }
}
