//! Owns the check that holds for any bytes as a file of an ASC MHL history. The fuzz target and the replay of its corpus share it.
//! Does not choose the bytes.

/// Reads bytes as a generation or as a chain; returns whether they are one. No name in them leads out of its directory.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(names) = godwit_mhl::names_in(bytes) else {
        return false;
    };
    for name in names {
        let stays = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        assert!(stays && !name.contains('\0'), "{name:?}");
    }
    true
}
