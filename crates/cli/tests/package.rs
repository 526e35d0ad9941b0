//! The Debian package of this program, and its installation under systemd on copies of this machine, where every command of
//! docs/operating.md runs. Holds no command itself: `scripts/package.sh` and `scripts/test-package.py` do the work.

use std::path::{Path, PathBuf};
use std::process::Command;

use godwit_testkit::needs_root;

#[test]
fn the_package_is_installed_and_every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let package = packed(&root);
    holds_a_stripped_program(&package);
    if needs_root() {
        printed(Command::new(root.join("scripts/test-package.py")).arg(&package));
    }
}

/// Makes the package and gives its path.
fn packed(root: &Path) -> PathBuf {
    let script = root.join("scripts/package.sh");
    let path = printed(
        Command::new(script)
            .arg(env!("CARGO_BIN_EXE_godwit"))
            .env("PACKAGE_FLAGS", "--fast"),
    );
    root.join(
        path.trim_end()
            .lines()
            .next_back()
            .expect("it prints a path"),
    )
}

/// Symbols and debug information are most of a program's bytes. The packager keeps them unless the program comes without them.
fn holds_a_stripped_program(package: &Path) {
    let unpacked = tempfile::tempdir().expect("a directory");
    printed(
        Command::new("dpkg-deb")
            .arg("--extract")
            .args([package, unpacked.path()]),
    );
    let program = unpacked.path().join("usr/bin/godwit");
    let sections = printed(
        Command::new("readelf")
            .args(["--section-headers", "--wide"])
            .arg(program),
    );
    assert!(sections.contains(" .text "), "{sections}");
    for removed in [" .symtab ", " .debug_line ", " .debug_info "] {
        assert!(!sections.contains(removed), "{removed} in:\n{sections}");
    }
}

/// Runs a command, which must succeed, and gives its standard output.
fn printed(command: &mut Command) -> String {
    let done = command.output().expect("it runs");
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success(),
        "{command:?}: {printed}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    printed
}
