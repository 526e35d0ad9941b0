//! Runs the tests of the page: scripts of `ui/tests` drive a browser against nodes of this binary.
//! Looks at nothing itself.

use std::path::Path;
use std::process::Command;

#[track_caller]
fn passes(script: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let prepared = Command::new(root.join("scripts/ui.sh"))
        .arg("deps")
        .output()
        .expect("scripts/ui.sh runs");
    assert!(prepared.status.success(), "{prepared:?}");
    let tested = Command::new("node")
        .arg(root.join("ui/tests").join(script))
        .env("GODWIT", env!("CARGO_BIN_EXE_godwit"))
        .output()
        .expect("node runs; scripts/setup.sh installs it");
    let said = [tested.stdout, tested.stderr].concat();
    assert!(
        tested.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn a_browser_signs_in_submits_steers_and_reads_what_limits() {
    passes("page.mjs");
}

#[test]
fn the_page_names_slow_storage_lost_connections_and_changed_copies() {
    passes("troubles.mjs");
}

#[test]
fn the_page_of_any_node_shows_the_cluster_and_who_does_what() {
    passes("cluster.mjs");
}

#[test]
fn the_page_of_a_divided_job_states_what_that_of_a_job_of_one_node_states() {
    passes("story.mjs");
}

#[test]
fn a_new_user_moves_a_data_set_and_reads_what_limits_it() {
    passes("walk.mjs");
}

#[test]
fn the_page_counts_and_says_what_is_true() {
    passes("units.mjs");
}

#[test]
fn the_page_shows_each_destination_of_a_job_and_retries_what_failed() {
    passes("destinations.mjs");
}

#[test]
fn the_page_shows_what_the_transfer_buffer_holds_serves_and_keeps() {
    passes("buffer.mjs");
}
