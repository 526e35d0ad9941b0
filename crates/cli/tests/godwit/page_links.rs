//! Owns the check of links in the pages about speed and decisions: each file and each heading exists.
//! Follows no link to another host.

use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_link_of_the_pages_about_speed_has_a_target() {
    let mut pages: Vec<PathBuf> = ["performance.md", "tuning.md", "scaling.md", "decisions.md"]
        .map(PathBuf::from)
        .into();
    let decisions = fs::read_dir(docs().join("decisions")).expect("the decisions");
    pages.extend(decisions.map(|entry| {
        let entry = entry.expect("an entry");
        Path::new("decisions").join(entry.file_name())
    }));
    let mut count = 0;
    for page in pages {
        let text = fs::read_to_string(docs().join(&page)).expect("a page");
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => docs().join(&page),
                _ => docs().join(&page).with_file_name("").join(file),
            };
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let target = fs::read_to_string(target).expect("a page");
                let found = target.lines().any(|line| anchor_of(line) == anchor);
                assert!(found, "{}: {link}", page.display());
            }
            count += 1;
        }
    }
    assert!(count >= 80, "{count} links");
}

/// The anchor of a heading as web pages make it; empty for other lines.
fn anchor_of(line: &str) -> String {
    let Some(heading) = line.strip_prefix('#') else {
        return String::new();
    };
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|next| next.is_alphanumeric() || " -_".contains(*next));
    kept.map(|next| if next == ' ' { '-' } else { next })
        .collect()
}
