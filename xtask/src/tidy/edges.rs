//! Owns the table of dependencies between our crates, and compares the manifests with it. Ignores dependencies on other crates,
//! which cargo-deny checks, and dependencies of tests.

use super::Finding;
use super::tree::File;

/// Directory of each of our packages, and the crates of ours that it may use; ARCHITECTURE.md has a drawing of them.
const ALLOWED: [(&str, &[&str]); 31] = [
    ("crates/proto", &[]),
    ("crates/sys", &[]),
    ("crates/seeded", &[]),
    ("crates/forecast", &["model"]),
    ("crates/hold", &[]),
    ("crates/mhl", &[]),
    ("crates/model", &[]),
    ("crates/api", &["model"]),
    ("crates/state", &["model", "seeded"]),
    ("crates/client", &["api", "sys"]),
    ("crates/cluster", &["state", "api"]),
    ("crates/store", &["hold", "model", "seeded", "sys"]),
    ("crates/buffer", &["store", "sys"]),
    ("crates/net", &["proto", "sys"]),
    ("crates/tuner", &["model"]),
    ("crates/generator", &["seeded", "store"]),
    ("crates/testkit", &["seeded", "store"]),
    (
        "crates/worlds",
        &["run", "data-port", "engine", "api", "net"],
    ),
    ("crates/engine", &["proto", "store", "net", "tuner"]),
    (
        "crates/tree",
        &["buffer", "engine", "hold", "proto", "seeded", "store"],
    ),
    (
        "crates/run",
        &[
            "tree", "engine", "api", "buffer", "net", "proto", "store", "mhl",
        ],
    ),
    ("crates/controller", &["run", "state", "api"]),
    ("crates/history", &["api"]),
    (
        "crates/jobs",
        &["controller", "history", "run", "state", "api", "forecast"],
    ),
    ("crates/web", &["cluster", "jobs", "state", "api", "sys"]),
    (
        "crates/data_port",
        &["run", "tree", "engine", "api", "net", "proto", "store"],
    ),
    (
        "crates/node",
        &[
            "data-port",
            "web",
            "cluster",
            "jobs",
            "state",
            "run",
            "engine",
            "api",
            "buffer",
            "client",
            "net",
            "sys",
        ],
    ),
    (
        "crates/cli",
        &[
            "node",
            "data-port",
            "cluster",
            "jobs",
            "state",
            "run",
            "tree",
            "engine",
            "api",
            "client",
            "generator",
            "net",
            "buffer",
            "store",
            "proto",
            "sys",
        ],
    ),
    ("tools/wanlink", &["seeded", "sys"]),
    ("tools/kit", &["seeded"]),
    ("xtask", &["kit"]),
];

/// The file with the table.
const TABLE: &str = "xtask/src/tidy/edges.rs";

/// Checks all manifests except those of the workspace and of the fuzz targets. The table may not list more dependencies than the
/// manifests.
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    check_against(&ALLOWED, files, findings);
}

fn check_against(table: &[(&str, &[&str])], files: &[File], findings: &mut Vec<Finding>) {
    for (package, allowed) in table {
        let manifest = format!("{package}/Cargo.toml");
        let Some(file) = files.iter().find(|file| file.path == manifest) else {
            let what = format!("there is no {package}: take it out of the table of edges");
            findings.push(Finding::new(TABLE, 0, what));
            continue;
        };
        let used = dependencies(&file.text);
        for name in *allowed {
            if !used.iter().any(|(_, used)| used == name) {
                let what = format!(
                    "{package} does not use godwit-{name}: take it out of the table of edges"
                );
                findings.push(Finding::new(TABLE, 0, what));
            }
        }
    }
    for file in files {
        let Some(package) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if package == "fuzz" {
            continue;
        }
        let Some((_, allowed)) = table.iter().find(|(known, _)| *known == package) else {
            let what = "this package is not in the table of edges";
            findings.push(Finding::new(&file.path, 0, what));
            continue;
        };
        for (line, name) in dependencies(&file.text) {
            if !allowed.contains(&name) {
                let what = format!("{package} must not use godwit-{name}");
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
}

/// Our crates in the sections of a manifest that matter outside tests, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut counts = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            counts = !section.contains("dev-dependencies") && section.contains("dependencies");
            // `[dependencies.godwit-x]` names the crate in its section.
            if let Some((_, name)) = section.split_once("dependencies.godwit-")
                && counts
            {
                found.push((index + 1, name.trim_end_matches(']')));
            }
        } else if counts && let Some(rest) = line.strip_prefix("godwit-") {
            let end = rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '-');
            found.push((index + 1, &rest[..end.unwrap_or(rest.len())]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_in_every_form() {
        let manifest = "[package]\nname = \"godwit-x\"\n[dependencies]\ngodwit-a.workspace = true\n\
                        godwit-b = { path = \"b\" }\n[dev-dependencies]\ngodwit-c.workspace = true\n\
                        [dependencies.godwit-d]\npath = \"d\"\n[build-dependencies]\ngodwit-e = \"1\"\n";
        let expected = [(4, "a"), (5, "b"), (8, "d"), (11, "e")];
        assert_eq!(dependencies(manifest), expected);
    }

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn found(table: &[(&str, &[&str])], files: &[File]) -> Vec<String> {
        let mut findings = Vec::new();
        check_against(table, files, &mut findings);
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn an_edge_upwards_and_an_unknown_package_are_findings() {
        let table: [(&str, &[&str]); 2] = [("crates/net", &[]), ("crates/store", &["sys"])];
        let files = [
            file(
                "Cargo.toml",
                "[workspace.dependencies]\ngodwit-data-port.workspace = true\n",
            ),
            file(
                "crates/store/Cargo.toml",
                "[dependencies]\ngodwit-sys.workspace = true\n",
            ),
            file(
                "crates/net/Cargo.toml",
                "[dependencies]\ngodwit-store.workspace = true\n",
            ),
            file("crates/new/Cargo.toml", ""),
        ];
        let expected = ["crates/net/Cargo.toml", "crates/new/Cargo.toml"];
        assert_eq!(found(&table, &files), expected);
    }

    #[test]
    fn an_unused_edge_and_a_missing_package_are_findings() {
        let table: [(&str, &[&str]); 2] = [("crates/net", &["proto", "sys"]), ("crates/old", &[])];
        let files = [file(
            "crates/net/Cargo.toml",
            "[dependencies]\ngodwit-sys.workspace = true\n[dev-dependencies]\ngodwit-proto.workspace = true\n",
        )];
        assert_eq!(found(&table, &files), [TABLE, TABLE]);
    }
}
