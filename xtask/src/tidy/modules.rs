//! Owns the search for unused modules: Rust files that no `mod` includes. Understands declarations
//! on separate lines, where rustfmt puts them.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::File;

/// Checks that modules connect every Rust file in a directory `src` or `tests` with a root of its crate. A test that nothing leads to never
/// runs.
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
        .filter(|path| path.contains("src/") || path.contains("/tests/"))
        .filter(|path| !reached.contains(**path))
    {
        findings.push(Finding::new(path, 0, "no `mod` leads here: a dead module"));
    }
}

/// Whether cargo itself finds the file.
fn is_root(path: &str) -> bool {
    let Some((above, name)) = path.rsplit_once('/') else {
        return false;
    };
    let mut parts = above.rsplit('/');
    let last = parts.next().unwrap_or_default();
    match last {
        "src" => name == "lib.rs" || name == "main.rs",
        "bin" | "tests" | "examples" | "benches" | "fuzz_targets" => true,
        _ => name == "build.rs" || (name == "main.rs" && parts.next() == Some("tests")),
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
    // The modules with a body around a line, each with its indentation.
    let mut around: Vec<(usize, &str)> = Vec::new();
    for raw in text.lines() {
        let line = raw.trim();
        let indentation = raw.len() - raw.trim_start().len();
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            elsewhere = rest
                .split('"')
                .next()
                .map(|file| normal(&format!("{above}/{file}")));
        } else if let Some(module) = module_of(line, ";") {
            match elsewhere.take() {
                Some(file) => found.push(file),
                None => {
                    let names = around.iter().map(|(_, name)| format!("/{name}"));
                    let directory = format!("{inside}{}", names.collect::<String>());
                    found.push(format!("{directory}/{module}.rs"));
                    found.push(format!("{directory}/{module}/mod.rs"));
                }
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            elsewhere = None;
        }
        if let Some(module) = module_of(line, " {") {
            around.push((indentation, module));
        } else if line == "}" && around.last().is_some_and(|(at, _)| *at == indentation) {
            around.pop();
        }
    }
    found
}

/// The name in `pub(crate) mod name;`, or in a line with another end.
fn module_of<'a>(line: &'a str, end: &str) -> Option<&'a str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let name = line.strip_prefix("mod ")?.strip_suffix(end)?;
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
            file(
                "a/tests/all.rs",
                "mod all {\n    mod known;\n}\nmod common;\n",
            ),
            file("a/tests/all/known.rs", ""),
            file("a/tests/all/forgotten.rs", ""),
            file("a/tests/common/mod.rs", ""),
            file("a/tests/api/main.rs", "mod one;\n"),
            file("a/tests/api/one.rs", ""),
        ];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let found: Vec<_> = findings
            .iter()
            .map(|finding| finding.path.as_str())
            .collect();
        assert_eq!(
            found,
            [
                "a/src/dead.rs",
                "a/src/dead/dead_too.rs",
                "a/tests/all/forgotten.rs"
            ]
        );
    }
}
