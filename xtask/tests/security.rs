//! Tests that the files named in docs/security.md exist. Does not check the text.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The files in code quotes, in the form of the document: relative to the crate, without `src`.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_file = |name: &&str| name.ends_with(".rs") && name.contains('/');
    quoted.filter(is_file).collect()
}

#[test]
fn the_files_of_the_table_of_rights_are_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(top.join("docs/security.md")).expect("the document");
    let files = named(&text);
    assert!(files.len() > 30, "the table names files: {files:?}");
    let is_there = |file: &str| {
        let (name, rest) = file.split_once('/').unwrap_or((file, ""));
        let of = top.join("crates").join(name);
        of.join("src").join(rest).exists() || of.join(rest).exists()
    };
    let missing: Vec<&str> = files.into_iter().filter(|file| !is_there(file)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
