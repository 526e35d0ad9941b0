//! Tests storages that sync one file system together: each storage's batches are durable, and none waits for ever.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod fs_common;

use fs_common::{TAG, Tree, rel};
use godwit_store::{FinalMeta, Replace, Storage, Syncs, TempName};

/// More files than are synced one by one.
const FILES: usize = 40;

#[test]
fn storages_that_share_their_syncs_all_get_their_batches_done() {
    let syncs = Syncs::default();
    let trees: Vec<Tree> = (0..6)
        .map(|_| Tree::with(|options| options.syncs = syncs.clone()))
        .collect();
    std::thread::scope(|scope| {
        for tree in &trees {
            scope.spawn(|| {
                for batch in 0..5 {
                    let name = |file: usize| rel(&format!("{batch}-{file}"));
                    let paths: Vec<_> = (0..FILES).map(name).collect();
                    let temps = paths.iter().map(|path| (path, TempName::new(TAG, path)));
                    let files: Vec<_> = temps.collect();
                    for (path, temp) in &files {
                        let meta = FinalMeta::default();
                        tree.storage.write_whole(path, temp, &meta, b"x").unwrap();
                    }
                    tree.storage.sync_batch(&files, FILES as u64).unwrap();
                    for (path, temp) in &files {
                        tree.storage.commit(path, temp, Replace::Never).unwrap();
                    }
                }
            });
        }
    });
    for tree in &trees {
        let names = std::fs::read_dir(tree.at("")).unwrap().count();
        assert_eq!(names, 5 * FILES);
    }
}
