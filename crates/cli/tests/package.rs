//! The Debian package, installed under systemd on two copies of this machine, and every command of docs/operating.md run there.
//! Holds nothing itself: `scripts/test-package.py` does it.

use std::path::Path;
use std::process::Command;

use godwit_testkit::needs_root;

#[test]
fn the_package_is_installed_and_every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !needs_root() {
        // A user who may make no namespaces can at least make the package.
        let made = Command::new(root.join("scripts/package.sh"))
            .arg(env!("CARGO_BIN_EXE_godwit"))
            .output()
            .expect("it runs");
        assert!(made.status.success(), "{made:?}");
        return;
    }
    let tested = Command::new(root.join("scripts/test-package.py"))
        .arg(env!("CARGO_BIN_EXE_godwit"))
        .output()
        .expect("it runs");
    assert!(
        tested.status.success(),
        "{}{}",
        String::from_utf8_lossy(&tested.stdout),
        String::from_utf8_lossy(&tested.stderr)
    );
}
