//! Owns the kept digests of a giving destination in a relay: the size of its data, and their copy for the destination that has the same data now.
//! Compares nothing.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The last lines of a manifest take less: totals, a digest, and a signature.
const TAIL_BYTES: u64 = 4096;

/// Bytes of all files in the kept digests of a job; None where there are none, or no end.
pub(super) fn total(directory: &Path, job: &str) -> Option<u64> {
    let mut file = godwit_history::open_manifest(directory, job).ok()??;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    total_in(&String::from_utf8_lossy(&tail))
}

fn total_in(tail: &str) -> Option<u64> {
    let mut lines = tail.lines().rev();
    let end = lines.find_map(|line| line.strip_prefix("#end\t"))?;
    end.split('\t').nth(1)?.parse().ok()
}

/// Keeps the digests of the job `from` for the job `to` as well, whose destination was found to have the same data.
pub(super) fn hand_on(directory: &Path, from: &str, to: &str) -> io::Result<()> {
    godwit_history::make_directory(directory, to)?;
    let [from, to] = [from, to].map(|job| godwit_history::manifest_path(directory, job));
    let new = to.with_extension("new");
    fs::copy(&from, &new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, &to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "#godwit-manifest\t1\tblake3\nf\t7\t5.000000000\t0644\taf\t#end\n#end\t1\t7\t0\n#digest\tblake3\t64\n";

    #[test]
    fn the_last_lines_have_the_size() {
        assert_eq!(total_in(MANIFEST), Some(7));
        assert_eq!(total_in("f\t7\t5.000000000\t0644\taf\ta\n"), None);
    }

    #[test]
    fn digests_are_handed_on_and_replace_older_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let base = directory.path();
        assert_eq!(total(base, "a"), None);
        hand_on(base, "a", "b").expect_err("there are none");
        godwit_history::make_directory(base, "a").expect("made");
        fs::write(godwit_history::manifest_path(base, "a"), MANIFEST).expect("written");
        for _ in 0..2 {
            hand_on(base, "a", "b").expect("handed on");
            assert_eq!(total(base, "b"), Some(7));
        }
    }
}
