//! The storage of a directory: whether it takes a file, its free space, its write and read speed.
//! The measured file has no name, so no trace remains, however the command ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use godwit_api::units::{human_rate, human_size};
use godwit_store::measure::{MeasureLimits, ROOM_BYTES_MIN, measure};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::Directory;
use super::findings::{Direction, Findings, Limit};

/// The limits of a measurement.
const MEASURE: MeasureLimits = MeasureLimits {
    bytes: 256 << 20,
    time: Duration::from_millis(500),
};

/// Examines the storage.
pub(super) fn look(directory: &Directory, findings: &mut Findings) {
    let shown = directory.path.display().to_string();
    let parent = match directory.path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let path = match fs::metadata(&directory.path) {
        Ok(meta) if meta.is_dir() => directory.path.as_path(),
        Ok(_) => parent,
        // A transfer makes the last directory of its destination.
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.must_take => {
            if !parent.is_dir() {
                let mend = format!("mkdir -p {}", parent.display());
                findings.stop("storage", format!("{shown}: {error}"), Some(mend));
                return;
            }
            parent
        }
        Err(error) => {
            let mend = "check the name and the permissions of its directories";
            findings.stop(
                "storage",
                format!("{shown}: {error}"),
                Some(mend.to_owned()),
            );
            return;
        }
    };
    let room = match statvfs(path) {
        Ok(room) => room,
        Err(error) => {
            refused(directory, &error.to_string(), "", findings);
            return;
        }
    };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if room.f_flag.contains(StatVfsMountFlags::RDONLY) {
        refused(
            directory,
            "the file system is read-only",
            "mount the file system for writing, or ",
            findings,
        );
        return;
    }
    let no_names = room.f_files > 0 && room.f_favail == 0;
    if free < ROOM_BYTES_MIN || no_names {
        let what = if no_names {
            "no more files can be made (no inodes are free)".to_owned()
        } else {
            format!("only {} are free", human_size(free))
        };
        refused(directory, &what, "free some space there, or ", findings);
        return;
    }
    match nameless(path).and_then(|file| measure(&file, MEASURE)) {
        Ok(found) => {
            let (write, read) = (found.write_bytes_per_second, found.read_bytes_per_second);
            findings.fine(
                "storage",
                format!(
                    "{shown}: {} free, writes {}, reads {}",
                    human_size(free),
                    human_rate(write),
                    human_rate(read)
                ),
            );
            bound(Direction::Receiving, "writing to", write, &shown, findings);
            bound(Direction::Sending, "reading from", read, &shown, findings);
        }
        Err(error) => {
            let what = format!("no file can be written there: {error}");
            let mend = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "give the user who runs godwit write permission there, or "
                }
                _ => "",
            };
            refused(directory, &what, mend, findings);
        }
    }
}

/// Adds a finding for a storage that takes nothing: a fault of a destination; a source is only not measured.
fn refused(directory: &Directory, what: &str, mend: &str, findings: &mut Findings) {
    let shown = directory.path.display();
    if directory.must_take {
        findings.stop(
            "storage",
            format!("{shown}: {what}"),
            Some(format!("{mend}name another directory")),
        );
    } else {
        findings.note(
            "storage",
            format!("{shown}: {what}; no data can arrive there, and its rates are unknown"),
            None,
        );
    }
}

fn bound(way: Direction, verb: &str, rate: u64, shown: &str, findings: &mut Findings) {
    findings.limits.push(Limit {
        name: "storage",
        way,
        what: format!("{verb} {shown}"),
        bytes_per_second: rate,
        mend: "if that is too slow: faster storage".to_owned(),
    });
}

/// A new file without a name.
fn nameless(directory: &Path) -> io::Result<File> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.unwrap_or_default().as_nanos() & u128::from(u64::MAX);
    let prefix = String::from_utf8_lossy(godwit_store::path::TEMP_PREFIX);
    let path = directory.join(format!("{prefix}{:016x}{nanos:016x}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
