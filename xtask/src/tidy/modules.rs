//! Owns the search for unused modules: Rust files that no `mod` includes. Understands declarations
//! on separate lines, where rustfmt puts them.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::File;

/// Checks that modules connect every Rust file in a `src` directory with a root of its crate.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let texts: BTreeMap<&str, &str> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = texts
        .keys()
        .filter(|path| is_root(path))
        .map(|&path| path.to_owned())
        .collect();
    while let Some(path) = open.pop() {
        if let Some(text) = texts.get(path.as_str())
            && reached.insert(path.clone())
        {
            open.extend(declared(&path, text));
        }
    }
    for path in texts
        .keys()
        .filter(|path| path.contains("src/") && !reached.contains(**path))
    {
        findings.push(Finding::new(path, 0, "no `mod` leads here: a dead module"));
    }
}

/// Whether cargo itself finds the file.
fn is_root(path: &str) -> bool {
    let Some((above, name)) = path.rsplit_once('/') else {
        return false;
    };
    let last = above.rsplit('/').next().unwrap_or_default();
    match last {
        "src" => name == "lib.rs" || name == "main.rs",
        "bin" | "tests" | "examples" | "benches" | "fuzz_targets" => true,
        _ => name == "build.rs",
    }
}

/// The possible files of the modules that `text` declares.
fn declared(path: &str, text: &str) -> Vec<String> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    let is_top = is_root(path) || stem == "mod";
    let inside = if is_top {
        above.to_owned()
    } else {
        format!("{above}/{stem}")
    };
    let mut found = Vec::new();
    let mut elsewhere = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            elsewhere = rest
                .split('"')
                .next()
                .map(|file| normal(&format!("{above}/{file}")));
        } else if let Some(module) = module_of(line) {
            match elsewhere.take() {
                Some(file) => found.push(file),
                None => {
                    found.push(format!("{inside}/{module}.rs"));
                    found.push(format!("{inside}/{module}/mod.rs"));
                }
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            elsewhere = None;
        }
    }
    found
}

/// The name in `pub(crate) mod name;`.
fn module_of(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let name = line.strip_prefix("mod ")?.strip_suffix(';')?;
    Some(name.strip_prefix("r#").unwrap_or(name))
}

/// Resolves `..` in a path.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_leads_to_is_dead() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file(
                "a/src/lib.rs",
                "mod one;\npub(crate) mod two;\n// mod dead;\n",
            ),
            file(
                "a/src/one.rs",
                "#[cfg(test)]\n#[path = \"one_tests.rs\"]\nmod tests;\npub mod deep;\n",
            ),
            file("a/src/one_tests.rs", ""),
            file("a/src/one/deep.rs", ""),
            file("a/src/two/mod.rs", "mod r#in;\n"),
            file("a/src/two/in.rs", ""),
            file("a/src/bin/tool.rs", ""),
            file("a/src/dead.rs", "mod dead_too;\n"),
            file("a/src/dead/dead_too.rs", ""),
            file("a/tests/all.rs", "mod common;\n"),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let found: Vec<_> = findings
            .iter()
            .map(|finding| finding.path.as_str())
            .collect();
        assert_eq!(found, ["a/src/dead.rs", "a/src/dead/dead_too.rs"]);
    }
}
