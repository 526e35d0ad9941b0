//! Owns the question whether a device is in use: mounted, named in `fstab`, swap, held by another device, or below a loop device. Reads
//! what the kernel says, and changes nothing. An exclusive open also notices some of these uses, but gives no reason.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The files that the kernel and the operator keep. Tests have others.
#[derive(Clone, Debug)]
pub struct Places {
    /// Mounts of this process.
    pub mounts: PathBuf,
    /// Swap areas.
    pub swaps: PathBuf,
    /// File systems that the operator mounts.
    pub fstab: PathBuf,
    /// Devices.
    pub sys: PathBuf,
    /// Names of devices.
    pub by: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            mounts: "/proc/self/mountinfo".into(),
            swaps: "/proc/swaps".into(),
            fstab: "/etc/fstab".into(),
            sys: "/sys".into(),
            by: "/dev/disk".into(),
        }
    }
}

/// Why a device or file is in use, for people; `None` if it is not.
///
/// # Errors
/// The path cannot be looked at.
pub fn reason(path: &Path, places: &Places) -> io::Result<Option<String>> {
    let meta = fs::metadata(path)?;
    let whole = fs::canonicalize(path)?;
    if !meta.file_type().is_block_device() {
        return Ok(loop_above(&whole, places));
    }
    let numbers = with_partitions(meta.rdev(), places);
    let mounted = lines(&places.mounts).into_iter().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = fields.get(2)?;
        numbers
            .contains(*number)
            .then(|| fields.get(4).map(|at| (*at).to_owned()))?
    });
    if let Some(at) = mounted {
        return Ok(Some(format!("it is mounted at {at}")));
    }
    let number_of = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        meta.file_type()
            .is_block_device()
            .then(|| shown(meta.rdev()))
    };
    let names_it = |name: &Path| number_of(name).is_some_and(|number| numbers.contains(&number));
    let is_swap = lines(&places.swaps).into_iter().skip(1).any(|line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        names_it(Path::new(&unescaped(name)))
    });
    if is_swap {
        return Ok(Some("it is swap".to_owned()));
    }
    let planned = lines(&places.fstab).into_iter().find(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        !word.starts_with('#') && device_of(word, places).is_some_and(|name| names_it(&name))
    });
    if let Some(line) = planned {
        return Ok(Some(format!(
            "{} names it: {}",
            places.fstab.display(),
            line.trim()
        )));
    }
    let holder = numbers.iter().find_map(|number| {
        let holders = places.sys.join("dev/block").join(number).join("holders");
        let first = fs::read_dir(holders).ok()?.flatten().next()?;
        Some(first.file_name().to_string_lossy().into_owned())
    });
    Ok(holder.map(|holder| format!("{holder} is made of it")))
}

/// The serial of a block device, or of the disk of a partition. `None` if it has none.
#[must_use]
pub fn serial(path: &Path, places: &Places) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    if !meta.file_type().is_block_device() {
        return None;
    }
    let device = places.sys.join("dev/block").join(shown(meta.rdev()));
    let device = fs::canonicalize(device).ok()?;
    let files = ["serial", "device/serial", "wwid", "device/wwid"];
    let candidates = files.iter().flat_map(|file| {
        let above = device.parent().map(|disk| disk.join(file));
        [Some(device.join(file)), above]
    });
    candidates.flatten().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    })
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn shown(number: u64) -> String {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    format!("{major}:{minor}")
}

/// The device and its partitions, as `major:minor`.
fn with_partitions(number: u64, places: &Places) -> BTreeSet<String> {
    let own = shown(number);
    let below = fs::read_dir(places.sys.join("dev/block").join(&own));
    let parts = below.into_iter().flatten().flatten().filter_map(|entry| {
        entry.path().join("partition").exists().then_some(())?;
        let number = fs::read_to_string(entry.path().join("dev")).ok()?;
        Some(number.trim().to_owned())
    });
    parts.chain([own.clone()]).collect()
}

/// The device that a word of `fstab` names.
fn device_of(word: &str, places: &Places) -> Option<PathBuf> {
    let Some((tag, value)) = word.split_once('=') else {
        return word.starts_with('/').then(|| unescaped(word).into());
    };
    let kind = match tag {
        "UUID" => "by-uuid",
        "LABEL" => "by-label",
        "PARTUUID" => "by-partuuid",
        "PARTLABEL" => "by-partlabel",
        _ => return None,
    };
    Some(places.by.join(kind).join(value.trim_matches('"')))
}

/// The kernel writes spaces in names as `\040`.
fn unescaped(name: &str) -> String {
    name.replace("\\040", " ")
}

/// Whether a loop device lies on a file.
fn loop_above(file: &Path, places: &Places) -> Option<String> {
    let all = fs::read_dir(places.sys.join("block")).ok()?;
    all.flatten().find_map(|entry| {
        let below = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        (Path::new(below.trim_end_matches('\n')) == file).then(|| format!("{name} lies on it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_fstab_name_devices() {
        let places = Places::default();
        for (word, device) in [
            ("/dev/sda1", Some("/dev/sda1")),
            ("UUID=12-34", Some("/dev/disk/by-uuid/12-34")),
            ("LABEL=\"data\"", Some("/dev/disk/by-label/data")),
            ("server:/export", None),
            ("tmpfs", None),
            ("/dev/a\\040b", Some("/dev/a b")),
        ] {
            assert_eq!(
                device_of(word, &places),
                device.map(PathBuf::from),
                "{word}"
            );
        }
    }

    #[test]
    fn a_plain_file_is_not_in_use() {
        let file = tempfile::NamedTempFile::new().expect("made");
        let used = reason(file.path(), &Places::default()).expect("looked at");
        assert_eq!(used, None);
        assert_eq!(serial(file.path(), &Places::default()), None);
    }
}
