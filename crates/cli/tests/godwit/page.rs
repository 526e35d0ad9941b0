//! Runs the test of the page: `ui/tests/page.mjs` drives a browser against nodes of this binary.
//! Looks at nothing itself.

use std::path::Path;
use std::process::Command;

#[test]
fn a_browser_signs_in_submits_steers_and_reads_what_limits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let prepared = Command::new(root.join("scripts/ui.sh"))
        .arg("deps")
        .output()
        .expect("scripts/ui.sh runs");
    assert!(prepared.status.success(), "{prepared:?}");
    let tested = Command::new("node")
        .arg(root.join("ui/tests/page.mjs"))
        .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
        .output()
        .expect("node runs; scripts/setup.sh installs it");
    println!("{}", String::from_utf8_lossy(&tested.stdout));
    assert!(
        tested.status.success(),
        "{}",
        String::from_utf8_lossy(&tested.stderr)
    );
}
