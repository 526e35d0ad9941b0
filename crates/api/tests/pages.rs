//! Owns the tests of the pages below `docs/`: generated pages match their tables, and the book is complete.
//! Runs no command; `GODWIT_BLESS=1` writes the generated pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use godwit_api::{failure, settings};

/// The part of the book whose links are checked.
const PART: &str = "For users";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn agrees(name: &str, generated: &str) {
    let path = root().join(name);
    if std::env::var_os("GODWIT_BLESS").is_some() {
        fs::write(&path, generated).expect("the page can be written");
    }
    assert!(
        generated == read(&path),
        "{name} is behind its table: GODWIT_BLESS=1 cargo test --workspace --locked --test pages"
    );
}

#[test]
fn the_page_of_settings_agrees_with_the_table() {
    agrees("docs/settings.md", &settings::page::page());
}

#[test]
fn the_page_of_failures_agrees_with_the_catalogue() {
    agrees("docs/failures.md", &failure::page::page());
    agrees("ui/src/lib/failures.ts", &failure::page::table());
}

#[test]
fn every_page_is_in_the_book_once() {
    let docs = root().join("docs");
    let mut found = BTreeSet::new();
    pages_below(&docs, &docs, &mut found);
    found.remove("SUMMARY.md");
    let summary = read(&docs.join("SUMMARY.md"));
    let listed: Vec<String> = links(&summary).collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), once.len(), "a page is there twice");
    assert_eq!(once, found, "docs/SUMMARY.md and the pages below docs/");
}

fn pages_below(docs: &Path, directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages_below(docs, &path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            let name = path.strip_prefix(docs).expect("below docs");
            found.insert(name.to_str().expect("text").to_owned());
        }
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let part = summary
        .split("\n# ")
        .find(|part| part.lines().next() == Some(PART))
        .expect("the part of the book");
    let mut pages: Vec<PathBuf> = links(part).map(|name| docs.join(name)).collect();
    pages.push(root().join("README.md"));
    let mut broken = Vec::new();
    for page in pages {
        for link in links(&prose(&read(&page))) {
            if link.contains("://") {
                continue;
            }
            let (name, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match name {
                "" => page.clone(),
                name => page.parent().expect("a directory").join(name),
            };
            let leads = target.exists()
                && (heading.is_empty() || headings(&read(&target)).contains(heading));
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// The targets of Markdown links.
fn links(text: &str) -> impl Iterator<Item = String> {
    let targets = text.split("](").skip(1);
    targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned()))
}

/// A page without its code blocks.
fn prose(page: &str) -> String {
    let mut is_fenced = false;
    let lines = page.lines().filter(|line| {
        is_fenced ^= line.starts_with("```");
        !is_fenced && !line.starts_with("    ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchors of the headings of a page.
fn headings(page: &str) -> BTreeSet<String> {
    let page = prose(page);
    let titles = page.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |sign: &char| sign.is_alphanumeric() || " -_".contains(*sign);
            title.chars().filter(kept).collect::<String>()
        })
        .map(|title| title.replace(' ', "-"))
        .collect()
}
