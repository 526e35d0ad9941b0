//! Owns the table of arrows between the groups of modules in `jobs`, and checks the sources against it.
//! Leaves edges between crates to `edges`, and arrows inside a group to its modules.

use super::Finding;
use super::tree::File;

/// Where the groups stand.
const SOURCES: &str = "crates/jobs/src/";

/// Each group with the groups that it may use; drawn in ARCHITECTURE.md. A group is a module and all modules below it, except those with
/// a row. It may use only groups of earlier rows, so no arrow leads upwards and no arrows make a circle.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("basis", &[]),
    ("rights", &["basis"]),
    ("asking", &["basis"]),
    ("attempt", &["basis", "rights", "asking"]),
    (
        "attempt::divided",
        &["basis", "rights", "asking", "attempt"],
    ),
    (
        "attempt::local",
        &["basis", "rights", "asking", "attempt", "attempt::divided"],
    ),
    (
        "attempt::site",
        &["basis", "rights", "asking", "attempt", "attempt::divided"],
    ),
    (
        "attempt::start",
        &[
            "rights",
            "asking",
            "attempt",
            "attempt::local",
            "attempt::site",
        ],
    ),
    (
        "queue",
        &[
            "basis",
            "rights",
            "asking",
            "attempt",
            "attempt::divided",
            "attempt::start",
        ],
    ),
    (
        "service",
        &[
            "basis",
            "rights",
            "asking",
            "attempt",
            "attempt::divided",
            "attempt::local",
            "attempt::site",
            "attempt::start",
            "queue",
        ],
    ),
    ("guests", &["basis", "rights", "asking", "queue", "service"]),
    ("views", &["basis", "rights", "asking", "service"]),
];

/// Where the table stands.
const TABLE: &str = "xtask/src/tidy/groups.rs";

type Table<'a> = [(&'a str, &'a [&'a str])];

/// Checks the sources of `jobs`. The table may list no more than the sources have.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    check_against(&ALLOWED, files, findings);
}

fn check_against(table: &Table<'_>, files: &[File], findings: &mut Vec<Finding>) {
    for (row, (group, allowed)) in table.iter().enumerate() {
        for used in *allowed {
            if !table[..row].iter().any(|(earlier, _)| earlier == used) {
                let what = format!("{group} may not use {used}: no earlier row has that group");
                findings.push(Finding::new(TABLE, 0, what));
            }
        }
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for file in files {
        let Some(module) = module_of(&file.path) else {
            continue;
        };
        let Some((group, allowed)) = row_of(table, &module) else {
            let what = "this module is in no group: add it to a group, or a row to the table";
            findings.push(Finding::new(&file.path, 0, what));
            continue;
        };
        for (line, path) in paths(&file.text, &module) {
            let Some((used, _)) = row_of(table, &path) else {
                let what = format!("crate::{path} is in no group: use it by its group");
                findings.push(Finding::new(&file.path, line, what));
                continue;
            };
            if used == group {
                continue;
            }
            seen.push((group, used));
            if !allowed.contains(&used) {
                let what = format!("{group} must not use {used}");
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
    for (group, allowed) in table {
        for used in allowed.iter().filter(|used| !seen.contains(&(group, used))) {
            let what = format!("{group} does not use {used}: take it out of the table of groups");
            findings.push(Finding::new(TABLE, 0, what));
        }
    }
}

/// The module of a source file, as `attempt::site::route`. None for the root, which uses every group, for tests, and for other crates.
fn module_of(path: &str) -> Option<String> {
    let module = path.strip_prefix(SOURCES)?.strip_suffix(".rs")?;
    let is_test = module.split('/').any(|part| part == "tests");
    (module != "lib" && !is_test).then(|| module.replace('/', "::"))
}

/// The row of the group that holds a path: of all rows above it the nearest.
fn row_of<'a>(table: &'a Table<'a>, path: &str) -> Option<(&'a str, &'a [&'a str])> {
    let holds = |group: &str| {
        let below = path.strip_prefix(group);
        below.is_some_and(|below| below.is_empty() || below.starts_with("::"))
    };
    let rows = table.iter().filter(|(group, _)| holds(group));
    rows.max_by_key(|(group, _)| group.len()).copied()
}

/// The paths in the text of a module into its own crate, from the root of the crate, each with its line. They begin with `crate`, `super`,
/// `self`, or the name of a module that the text declares.
fn paths(text: &str, module: &str) -> Vec<(usize, String)> {
    let code = code(text);
    let mut found = Vec::new();
    let children = code
        .lines()
        .filter_map(child)
        .map(|name| format!("{name}::"));
    let starts = ["crate::", "super::", "self::"].map(str::to_owned);
    for word in starts.into_iter().chain(children) {
        for (at, _) in code.match_indices(&word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| is_of_name(letter) || letter == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let mut ends = Vec::new();
            expand("", &code[at..], &mut ends);
            found.extend(ends.iter().map(|path| (line, from_root(path, module))));
        }
    }
    found
}

/// The text without comments and without the tests at its end; lines keep their numbers.
fn code(text: &str) -> String {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let lines = lines.map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.collect::<Vec<_>>().join("\n")
}

/// The name in `pub(crate) mod name;`.
fn child(line: &str) -> Option<&str> {
    let line = line.strip_suffix(';')?;
    let (visible, name) = line.split_once("mod ")?;
    let is_item = visible.is_empty() || visible.starts_with("pub");
    is_item.then_some(name)
}

const fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Collects the paths at the beginning of `tree`, which may branch in braces, and returns the rest after them.
fn expand<'a>(above: &str, tree: &'a str, found: &mut Vec<String>) -> &'a str {
    let tree = tree.trim_start();
    let end = tree.find(|letter: char| !is_of_name(letter));
    let (name, rest) = tree.split_at(end.unwrap_or(tree.len()));
    let path = match (above, name) {
        (_, "" | "self") => above.to_owned(),
        ("", _) => name.to_owned(),
        _ => format!("{above}::{name}"),
    };
    let Some(below) = rest.strip_prefix("::") else {
        found.push(path);
        return rest;
    };
    let Some(mut branches) = below.strip_prefix('{') else {
        return expand(&path, below, found);
    };
    loop {
        branches = branches.trim_start();
        if branches.is_empty() {
            return branches;
        }
        if let Some(rest) = branches.strip_prefix('}') {
            return rest;
        }
        branches = expand(&path, branches, found).trim_start();
        // `as name`, and the comma.
        let end = branches.find([',', '}']).unwrap_or(branches.len());
        branches = branches[end..].trim_start_matches(',');
    }
}

/// The path without `crate` or `super` at its beginning.
fn from_root(path: &str, module: &str) -> String {
    let mut place: Vec<&str> = module.split("::").collect();
    let mut parts = path.split("::").peekable();
    while let Some(part) = parts.next_if(|part| ["crate", "super"].contains(part)) {
        match part {
            "crate" => place.clear(),
            _ => drop(place.pop()),
        }
    }
    place.extend(parts);
    place.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! Sees crate::high::all.\nuse crate::{\n    low::{self, Low as Other},\n    \
                        high::deep::{one::One, two},\n};\nuse super::near;\nmod own;\nfn f(y: own::Y, x: super::super::low::X) {\n    \
                        crate::low::g(x); // crate::high::h\n}\n#[cfg(test)]\nmod tests {\n    use crate::high::Tested;\n}\n";

    fn file(path: &str, text: &str) -> File {
        File {
            path: format!("{SOURCES}{path}"),
            text: text.to_owned(),
        }
    }

    fn found(table: &Table<'_>, files: &[File]) -> Vec<String> {
        let mut findings = Vec::new();
        check_against(table, files, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn paths_are_found_in_every_form() {
        let expected = [
            (2, "low"),
            (2, "low::Low"),
            (2, "high::deep::one::One"),
            (2, "high::deep::two"),
            (9, "low::g"),
            (6, "a::near"),
            (8, "low::X"),
            (8, "a::b::own::Y"),
        ];
        let found = paths(TEXT, "a::b");
        let found: Vec<(usize, &str)> = found.iter().map(|(at, path)| (*at, &**path)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_arrow_upwards_and_a_module_without_a_group_are_findings() {
        let table: [(&str, &[&str]); 3] = [("low", &[]), ("mid", &["low"]), ("mid::top", &["mid"])];
        let fine = [
            file("low.rs", "use crate::low::deep::X;\n"),
            file("low/tests.rs", "use crate::mid::X;\n"),
            file("mid/one.rs", "use crate::low::X;\n"),
            file("mid/top/two.rs", "use super::super::one::X;\n"),
            file("lib.rs", "use crate::nowhere::X;\n"),
        ];
        assert_eq!(found(&table, &fine), [""; 0]);
        let upwards = [file("low/one.rs", "fn f() {\n    crate::mid::f();\n}\n")];
        let into_branch = [file(
            "mid.rs",
            "pub(crate) mod top;\npub(crate) use top::X;\n",
        )];
        let strange = [file("new.rs", ""), file("mid/new.rs", "use crate::X;\n")];
        for (files, wanted) in [
            (&upwards[..], &["low must not use mid"][..]),
            (&into_branch, &["mid must not use mid::top"]),
            (
                &strange,
                &[
                    "this module is in no group: add it to a group, or a row to the table",
                    "crate::X is in no group: use it by its group",
                ],
            ),
        ] {
            let files = files.iter().chain(&fine);
            let files: Vec<File> = files
                .map(|one| file(&one.path[SOURCES.len()..], &one.text))
                .collect();
            assert_eq!(found(&table, &files), wanted);
        }
    }

    #[test]
    fn a_circle_in_the_table_and_an_arrow_that_is_gone_are_findings() {
        let circle: [(&str, &[&str]); 2] = [("low", &["high"]), ("high", &["low"])];
        let files = [
            file("low.rs", "use crate::high::X;\n"),
            file("high.rs", "use crate::low::X;\n"),
        ];
        let wanted = ["low may not use high: no earlier row has that group"];
        assert_eq!(found(&circle, &files), wanted);
        let gone = ["high does not use low: take it out of the table of groups"];
        let table: [(&str, &[&str]); 2] = [("low", &[]), ("high", &["low"])];
        assert_eq!(found(&table, &[file("high.rs", "")]), gone);
    }
}
