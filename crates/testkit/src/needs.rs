//! Owns the message of a test that cannot run here: without root, without FUSE, or without namespaces. Ignores programs
//! that `scripts/setup.sh` installs: a test that lacks such a program fails.

use std::fs::OpenOptions;

/// Reports that the calling test, or a part of it, cannot run here. `scripts/test.sh` counts each such test as skipped.
#[allow(
    clippy::print_stdout,
    reason = "the runner reads the output of the test"
)]
pub fn skip(needed: &str) {
    println!("\nskipped: {needed}");
}

/// Whether the test runs as root. Otherwise the test is skipped.
#[must_use]
pub fn needs_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("it needs root");
    }
    root
}

/// Whether the test can make FUSE mounts. Otherwise the test is skipped.
#[must_use]
pub fn needs_fuse() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &device {
        skip(&format!("it needs /dev/fuse: {error}"));
    }
    device.is_ok()
}
