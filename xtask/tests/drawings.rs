//! Tests that the names in the drawings and tables of ARCHITECTURE.md and docs/tuning.md are those of the code.
//! Does not check the text between them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = top().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of a document below a heading.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let parts = text.split("\n## ");
    let mut parts = parts.filter(|part| part.lines().next() == Some(heading));
    parts.next().unwrap_or_else(|| panic!("no part {heading}"))
}

/// The texts between backquotes.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// All Rust source below a directory, as one text.
fn sources(directory: &str) -> String {
    let mut text = String::new();
    let mut open = vec![top().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&read(path));
            }
        }
    }
    text
}

/// Our crates that a manifest names as dependencies of the program.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let below = manifest.split("\n[dependencies]").nth(1);
    let below = below.unwrap_or_default().split("\n[").next();
    let lines = below.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.strip_prefix("godwit-"))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[test]
fn the_table_of_crates_has_the_edges_of_the_manifests() {
    let text = read("ARCHITECTURE.md");
    let rows = part(&text, "Crates")
        .lines()
        .filter(|line| line.starts_with('`'));
    let mut shown = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let [names, _, _, uses] = cells[..] else {
            continue;
        };
        let names: Vec<&str> = code(names).collect();
        let uses: BTreeSet<String> = code(uses).map(str::to_owned).collect();
        for name in &names {
            let path = top().join("crates").join(name);
            if path.exists() {
                shown.insert((*name).to_owned());
            }
            // A row of several crates has the edges of both.
            if names.len() == 1 && path.exists() {
                let manifest = read(path.join("Cargo.toml"));
                assert_eq!(uses, dependencies(&manifest), "{name}");
            }
        }
    }
    let there = fs::read_dir(top().join("crates")).expect("the crates");
    let there: BTreeSet<String> = there
        .map(|entry| entry.expect("a crate").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(shown, there);
}

#[test]
fn the_modules_that_architecture_names_are_there() {
    let text = read("ARCHITECTURE.md");
    let mut count = 0;
    for name in code(&text).filter(|name| name.contains('/') && !name.contains(['.', ' '])) {
        let (of, rest) = name.split_once('/').expect("a slash");
        let directory = top().join("crates").join(of);
        if !directory.exists() {
            continue;
        }
        let (before, ends) = rest.split_once('{').unwrap_or((rest, "}"));
        for end in ends.trim_end_matches('}').split(',') {
            let path = directory.join("src").join(format!("{before}{end}"));
            let is_there = path.is_dir() || path.with_extension("rs").is_file();
            assert!(is_there, "{name}: {}", path.display());
            count += 1;
        }
    }
    assert!(count >= 20, "{count} modules");
}

#[test]
fn the_threads_of_the_table_have_the_names_of_the_code() {
    let text = read("ARCHITECTURE.md");
    let sources = sources("crates");
    let rows = part(&text, "Threads")
        .lines()
        .filter(|line| line.starts_with('`'))
        .skip(1);
    let mut count = 0;
    for name in rows.flat_map(|row| code(row.split('|').next().unwrap_or_default())) {
        let is_there = ["\"", "-{"].map(|end| sources.contains(&format!("\"gw-{name}{end}")));
        assert!(is_there.contains(&true), "no thread gw-{name}");
        count += 1;
    }
    assert!(count >= 25, "{count} threads");
}

#[test]
fn the_groups_of_the_drawing_are_the_modules_of_jobs() {
    let text = read("ARCHITECTURE.md");
    let drawing = text
        .lines()
        .find(|line| line.contains("─▶ service ─▶"))
        .expect("the drawing of the groups");
    let drawn: BTreeSet<&str> = drawing
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let library = read("crates/jobs/src/lib.rs");
    let modules = library.lines().filter_map(|line| line.strip_suffix(';'));
    let modules = modules.filter_map(|line| line.split_once("mod "));
    let modules: BTreeSet<&str> = modules
        .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
        .map(|(_, name)| name)
        .collect();
    assert_eq!(drawn, modules);
}

#[test]
fn the_types_of_the_runner_are_those_of_the_code() {
    let text = read("ARCHITECTURE.md");
    let drawing = part(&text, "One runner").split("\n\n").nth(1);
    let drawing = drawing.expect("the drawing");
    for (name, directory) in [
        ("JobSpec", "crates/api/src"),
        ("Runner", "crates/run/src"),
        ("Env", "crates/run/src"),
        ("Control", "crates/run/src"),
        ("Event", "crates/api/src"),
        ("Summary", "crates/api/src"),
        ("Failure", "crates/api/src"),
    ] {
        assert!(drawing.contains(name), "{name} is not drawn");
        let sources = sources(directory);
        let is_type = ["struct", "enum"].map(|kind| {
            let declared = format!("pub {kind} {name}");
            sources.match_indices(&declared).any(|(at, _)| {
                let next = sources[at + declared.len()..].chars().next();
                next.is_some_and(|next| !next.is_alphanumeric())
            })
        });
        assert!(is_type.contains(&true), "no type {name} in {directory}");
    }
}

/// The variants of an enum.
fn variants<'a>(source: &'a str, name: &str) -> BTreeSet<&'a str> {
    let (_, rest) = source
        .split_once(&format!("\nenum {name} {{\n"))
        .unwrap_or_else(|| panic!("no enum {name}"));
    let body = rest.split("\n}").next().unwrap_or_default();
    let lines = body.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with(char::is_uppercase))
        .filter_map(|line| line.split(|letter: char| !letter.is_alphanumeric()).next())
        .collect()
}

#[test]
fn the_states_of_the_tuning_diagram_are_those_of_the_tuner() {
    let text = read("docs/tuning.md");
    let diagram = text.split("stateDiagram-v2").nth(1).expect("a diagram");
    let diagram = diagram.split("```").next().unwrap_or_default();
    let lines = diagram.lines().map(|line| line.split(':').next());
    let words = lines.flatten().flat_map(str::split_whitespace);
    let drawn: BTreeSet<&str> = words
        .filter(|word| word.starts_with(char::is_uppercase))
        .collect();
    let phases = read("crates/tuner/src/streams.rs");
    let stages = read("crates/tuner/src/streams/meter.rs");
    let mut known = variants(&phases, "Phase");
    known.extend(variants(&stages, "Stage"));
    assert_eq!(drawn, known);
}
