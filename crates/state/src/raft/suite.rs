//! Tests the log and the state machine with the consensus library's own suite.
//! See the tests of the state for commands.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::watch;

use super::{Guard, Log, Machine, Types};
use crate::store::Store;

struct Files;

impl StoreBuilder<Types, Log, Machine, TempDir> for Files {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<Types>> {
        let directory = tempfile::tempdir().expect("a directory");
        let guard = Guard::new(tempfile::tempfile().expect("a file"));
        let log = Log::open(&directory.path().join("raft.db"), Arc::clone(&guard)).expect("a log");
        let store = Store::open(&directory.path().join("state.db")).expect("a state");
        let snapshot = directory.path().join("snapshot.db");
        let machine = Machine::new(
            store,
            snapshot,
            watch::channel(0).0,
            guard,
            crate::model::FEATURE_LEVEL,
        );
        Ok((directory, log, machine))
    }
}

#[test]
fn the_suite_of_the_library_passes() {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(Suite::test_all(Files))
        .expect("the suite passes");
}
