//! Reports the medium below a file system: memory, other machines, or a disk that has to seek. Reads no files of the tree.

use std::fs::read_to_string;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, fstat, fstatfs, major, minor};

/// Types of file systems in memory (statfs(2)).
const TMPFS_MAGIC: FsWord = 0x0102_1994;
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

/// Types of file systems that other machines serve, usually with many disks: NFS, SMB (both drivers), Ceph, Lustre, Spectrum Scale, BeeGFS.
const SERVED_MAGIC: [FsWord; 7] = [
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x1983_0326,
];

/// A disk with this much read-ahead is an array, or a virtual disk that claims to rotate. A seek of 10 ms for each 4 MiB costs less than a
/// third of the time to read them.
const READ_AHEAD_KIB: u64 = 4096;

/// Whether a file is in a file system that keeps all data in memory.
pub(super) fn is_in_memory(fd: impl AsFd) -> bool {
    fstatfs(fd).is_ok_and(|of| matches!(of.f_type, TMPFS_MAGIC | RAMFS_MAGIC))
}

/// Whether reading two files of this file system at a time makes a disk seek between them. True if the medium is unknown.
pub(super) fn has_to_seek(fd: impl AsFd) -> bool {
    let fd = fd.as_fd();
    if is_in_memory(fd) || fstatfs(fd).is_ok_and(|of| SERVED_MAGIC.contains(&of.f_type)) {
        return false;
    }
    let Ok(of) = fstat(fd) else { return true };
    let device = format!("/sys/dev/block/{}:{}", major(of.st_dev), minor(of.st_dev));
    // A partition uses the queue of its disk.
    let queues = ["queue", "../queue"].map(|queue| Path::new(&device).join(queue));
    queues.iter().all(|queue| seeks(queue))
}

fn seeks(queue: &Path) -> bool {
    let figure = |name| -> Option<u64> {
        let path: PathBuf = queue.join(name);
        read_to_string(path).ok()?.trim().parse().ok()
    };
    let reads_far = figure("read_ahead_kb").is_some_and(|kib| kib >= READ_AHEAD_KIB);
    figure("rotational") != Some(0) && !reads_far
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{has_to_seek, seeks};

    #[test]
    fn a_disk_seeks_unless_it_does_not_turn_or_reads_far_ahead() {
        let queue = tempfile::tempdir().unwrap();
        let reported = |rotational: &str, read_ahead_kib: &str| {
            fs::write(queue.path().join("rotational"), rotational).unwrap();
            fs::write(queue.path().join("read_ahead_kb"), read_ahead_kib).unwrap();
            seeks(queue.path())
        };
        assert!(reported("1\n", "128\n"));
        assert!(!reported("1\n", "8192\n"));
        assert!(!reported("0\n", "128\n"));
        assert!(reported("", ""));
        assert!(seeks(&queue.path().join("none")));
    }

    #[test]
    fn memory_has_nothing_to_seek() {
        let shm = fs::File::open("/dev/shm").unwrap();
        assert!(!has_to_seek(&shm));
        let proc = fs::File::open("/proc").unwrap();
        assert!(has_to_seek(&proc));
    }
}
