//! The rule that nothing is copied into itself, and how two ends know that they see the same files.
//! Resolves no path: both ends give real ones.
//!
//! A client says in OPEN which files it sees, and gives real paths. The other end compares if it sees the same files.

use std::os::unix::fs::MetadataExt as _;

use godwit_proto::limits::VIEW_BYTES;

/// Which files this process sees. Another process that has the same sees the same file by any absolute path: its kernel is this
/// one since this start, and mounts and root directory are the same. Empty where the system does not tell.
pub fn view() -> Vec<u8> {
    let of = |path: &str| {
        let meta = std::fs::metadata(path).ok()?;
        Some([meta.dev().to_le_bytes(), meta.ino().to_le_bytes()].concat())
    };
    let parts = || {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        Some([boot, of("/proc/self/ns/mnt")?, of("/")?])
    };
    parts().map_or_else(Vec::new, |parts| {
        let mut hasher = blake3::Hasher::new_derive_key("godwit 2026 which files a process sees");
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(&part);
        }
        hasher.finalize().as_bytes()[..VIEW_BYTES].to_vec()
    })
}

/// Whether who says this sees the same files as we do; who says nothing is another.
pub fn is_ours(view: &[u8]) -> bool {
    !view.is_empty() && view == self::view()
}

/// Why these sources must not go to those destinations, each to its own, if there is a reason: a tree that is copied into itself
/// grows while it is read, and with `deletes` a source inside the destination would go as a part of it. All are real paths.
pub fn reason(sources: &[Vec<u8>], destinations: &[Vec<u8>], deletes: bool) -> Option<String> {
    let said = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let mut pairs = sources.iter().zip(destinations);
    pairs.find_map(|(source, goes_to)| {
        if goes_to == source || is_inside(source, goes_to) {
            Some(format!(
                "{} cannot be copied into itself ({})",
                said(source),
                said(goes_to)
            ))
        } else if deletes && is_inside(goes_to, source) {
            Some(format!(
                "{} is inside the destination {}, so --delete would delete it",
                said(source),
                said(goes_to)
            ))
        } else {
            None
        }
    })
}

fn is_inside(outer: &[u8], inner: &[u8]) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.starts_with(b"/") || outer == b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_known_by_whole_names() {
        for (source, goes_to, deletes, refused) in [
            ("/a/b", "/a/b", false, true),
            ("/a/b", "/a/b/c", false, true),
            ("/a/b", "/a/bc", false, false),
            ("/", "/a", false, true),
            ("/a/b/c", "/a/b", false, false),
            ("/a/b/c", "/a/b", true, true),
            ("/a/bc", "/a/b", true, false),
            ("/a", "/", true, true),
        ] {
            let paths = [source, goes_to].map(|path| vec![path.as_bytes().to_vec()]);
            let found = reason(&paths[0], &paths[1], deletes);
            assert_eq!(found.is_some(), refused, "{source} {goes_to} {deletes}");
        }
    }

    #[test]
    fn this_process_sees_what_it_sees() {
        assert_eq!(view().len(), VIEW_BYTES);
        assert!(is_ours(&view()));
        assert!(!is_ours(&[]) && !is_ours(&[0; VIEW_BYTES]));
    }
}
