//! The committed manual agrees with the settings table.
//! `GODWIT_BLESS=1 cargo test -p godwit-api` writes the section anew.

use godwit_api::settings::manual::replace_section;
use std::path::Path;

#[test]
fn the_manual_lists_the_settings_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual.md");
    let committed = std::fs::read_to_string(&path).expect("the manual is there");
    let generated = replace_section(&committed).expect("the manual has the markers");
    if std::env::var_os("GODWIT_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("the manual can be written");
    }
    assert!(
        generated == std::fs::read_to_string(&path).expect("the manual is there"),
        "docs/manual.md is behind the settings table: run GODWIT_BLESS=1 cargo test -p godwit-api"
    );
}
