//! Owns seeded trees of files.
//! Moves nothing.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

pub(crate) use godwit_seeded::Seeded;

/// The first seed of a test, or that in `GODWIT_TEST_SEED`, to see a failure again or to look for others.
pub(crate) fn first_seed(otherwise: u64) -> u64 {
    std::env::var("GODWIT_TEST_SEED").map_or(otherwise, |seed| seed.parse().expect("a number"))
}

/// Writes `bytes` of content of which no 4 KiB are found twice.
pub(crate) fn write_file(path: &Path, bytes: u64, seeded: &mut Seeded) {
    let mut file = File::create(path).expect("made");
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    for chunk in block.chunks_mut(8) {
        chunk.copy_from_slice(&seeded.draw().to_le_bytes());
    }
    while left > 0 {
        for page in block.chunks_mut(4096) {
            page[..8].copy_from_slice(&seeded.draw().to_le_bytes());
        }
        let now = left.min(block.len() as u64);
        file.write_all(&block[..usize::try_from(now).expect("a block")])
            .expect("written");
        left -= now;
    }
}

/// A tree with something of each kind: about `megabytes` of content, most of it in a few large files.
pub(crate) fn make_tree(root: &Path, megabytes: u64, seeded: &mut Seeded) -> u64 {
    fs::create_dir_all(root.join("empty")).expect("made");
    let mut total = 0;
    let mut add = |path: &Path, bytes: u64| {
        write_file(path, bytes, seeded);
        total += bytes;
        seeded.below(1000)
    };
    for number in 0..3 {
        add(
            &root.join(format!("large-{number}")),
            (megabytes << 18) + 12_345 * number,
        );
    }
    for number in 0..megabytes / 8 {
        add(
            &root.join(format!("medium-{number}")),
            (900 << 10) + 31 * number,
        );
    }
    for number in 0..megabytes * 12 {
        let directory = root.join(format!("d{}/e{}", number % 7, number % 31));
        fs::create_dir_all(&directory).expect("made");
        let path = directory.join(format!("small-{number}"));
        let bits = add(&path, number * 97 % 17_000);
        let mode = if bits % 3 == 0 { 0o640 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    }
    symlink("large-0", root.join("link")).expect("made");
    fs::hard_link(root.join("large-1"), root.join("d0/twin")).expect("made");
    fs::hard_link(root.join("d0/e0/small-0"), root.join("d1/small-twin")).expect("made");
    let sparse = File::create(root.join("sparse")).expect("made");
    sparse.set_len(8 << 20).expect("set");
    total
}
