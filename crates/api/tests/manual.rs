//! The committed manual agrees with the settings table and the catalogue of failures.
//! `GODWIT_BLESS=1 cargo test -p godwit-api` writes both sections anew.

use std::path::Path;

use godwit_api::{failure, settings};

#[test]
fn the_manual_lists_the_settings_and_the_failures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual.md");
    let committed = std::fs::read_to_string(&path).expect("the manual is there");
    let generated = settings::manual::replace_section(&committed)
        .and_then(|manual| failure::manual::replace_section(&manual))
        .expect("the manual has the markers");
    if std::env::var_os("GODWIT_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("the manual can be written");
    }
    assert!(
        generated == std::fs::read_to_string(&path).expect("the manual is there"),
        "docs/manual.md is behind the tables: run GODWIT_BLESS=1 cargo test -p godwit-api"
    );
}
